"""`watcher check --connect` checks Airflow."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr

from tests.service.airflow.configured import settings
from tests.stand_in_airflow import StandInAirflow
from watcher.features.airflow import checks

pytestmark = pytest.mark.service


@pytest.mark.parametrize(
    ("change", "levels"),
    [
        ({}, {"version": "ok", "asset": "ok"}),
        ({"token": SecretStr("wrong")}, {"sign-in": "error"}),
        ({"forward": {"orders": "missing"}}, {"version": "ok", "asset": "error"}),
        ({"base_url": "http://127.0.0.1:9"}, {"connect": "error"}),
    ],
    ids=["right", "wrong token", "no asset", "not there"],
)
async def test_check_names_what_airflow_lacks(
    airflow: StandInAirflow, change: dict[str, Any], levels: dict[str, str]
) -> None:
    configured = settings(airflow, forward={"orders": "their_orders"}).model_copy(update=change)
    findings = await checks.check(configured)
    assert {finding.check: finding.level for finding in findings} == levels
    assert all(finding.remedy for finding in findings if finding.level == "error")


@pytest.mark.parametrize(("version", "level"), [("3.1.9", "error"), ("3.2.0", None), ("3.10.1", None), ("odd", None)])
async def test_check_refuses_partition_keys_for_an_airflow_that_does_not_know_them(
    airflow: StandInAirflow, version: str, level: str | None
) -> None:
    airflow.version = version
    forward = {"orders": {"asset": "their_orders", "partition_key": True}}
    findings = {finding.check: finding for finding in await checks.check(settings(airflow, forward=forward))}
    assert findings["asset"].level == "ok"
    assert (findings["partition_key"].level if "partition_key" in findings else None) == level
    if level is not None:
        assert "orders" in findings["partition_key"].message


async def test_check_warns_of_unknown_versions(airflow: StandInAirflow) -> None:
    airflow.version = "4.0.0"
    (finding,) = await checks.check(settings(airflow))
    assert (finding.check, finding.level) == ("version", "warning")
