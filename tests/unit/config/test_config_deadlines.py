"""`deadline` of a job and `expect_by` of an asset."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from config.models import AssetConfig, JobConfig


def job(deadline: Any) -> JobConfig:
    return JobConfig.model_validate({"spark": {"application": "a.py"}, "deadline": deadline})


@pytest.mark.parametrize(
    ("on", "cron"),
    [("daily", "5 7 * * *"), ("weekdays", "5 7 * * 1-5"), (["mon", "sun"], "5 7 * * 1,7"), (["wed"], "5 7 * * 3")],
)
def test_a_time_on_days_is_a_cron_expression(on: Any, cron: str) -> None:
    assert job({"by": "07:05", "on": on}).clock_deadline.cron == cron


def test_a_duration_is_the_short_form_of_after() -> None:
    assert job("2h").clock_deadline.after == job({"after": "2h"}).clock_deadline.after
    assert (job("2h").clock_deadline.cron, job(None).clock_deadline.after) == (None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"by": "7:00"},
        {"by": "24:00"},
        {"by": 700},
        {"by": "07:00", "on": []},
        {"by": "07:00", "on": ["monday"]},
        {"by": "07:00", "timezone": "Europe/Berln"},
        {"by": "07:00", "since": "0s"},
        {"after": "2h", "since": "24h"},
        {"after": "2h", "then": "run"},
        "07:00",
    ],
)
def test_what_would_have_no_effect_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        job(wrong)


def test_an_asset_expects_an_event_by_a_time() -> None:
    for written in ("06:30", {"by": "06:30", "timezone": "Europe/Berlin", "on": "weekdays", "since": "12h"}):
        assert AssetConfig.model_validate({"uri": "x-a:b", "expect_by": written}).expect_by is not None
    for wrong in ("6:30", {}, {"by": "06:30", "after": "2h"}):
        with pytest.raises(ValidationError):
            AssetConfig.model_validate({"uri": "x-a:b", "expect_by": wrong})
