"""Every column of `asset_event` is a field of events everywhere: in the store, over REST, for jobs, and in their SDK."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from asset_job import events as sdk
from store.database.asset_events import EventFields
from store.database.schema import asset_event
from tests.service.api.application import Api, claimed

FIELDS = frozenset(field.name for field in fields(EventFields))
WITHHELD = frozenset({"event_id", "source_actor", "sketch_low", "sketch_high", "sketch_bits", "sketch_more_bits"})
"""The columns that nobody sees."""
CALLED_OTHERWISE = frozenset({"asset_id"})
"""The fields that differ in the SDK, where assets have names."""


def test_the_stores_event_has_the_columns_of_its_table() -> None:
    assert set(asset_event.c.keys()) - WITHHELD == FIELDS
    assert set(asset_event.c.keys()) >= WITHHELD


def test_the_sdks_event_has_the_stores_fields() -> None:
    assert {field.name for field in fields(sdk.AssetEvent)} >= FIELDS - CALLED_OTHERWISE


@pytest.fixture
async def sent(api: Api) -> dict[str, Any]:
    """Return an event from REST and from the Execution API, and the answer to the request that created it."""
    body = {"asset_id": api.asset_ids["landing"], "extra": {"files": ["a.csv"]}}
    made = (await api.client.post("/api/v2/assets/events", json=body)).json()
    [rest] = (await api.get("/api/v2/assets/events"))["asset_events"]
    one = await claimed(api)
    path = "asset-events/by-asset"
    [execution] = (await one.done("GET", path, query={"name": "landing", "uri": ""}))["asset_events"]
    return {"made": made, "rest": rest, "execution": execution}


@pytest.mark.parametrize("way", ["made", "rest", "execution"])
async def test_an_answer_has_the_stores_fields_and_the_events_values(sent: dict[str, Any], way: str) -> None:
    assert sent[way].keys() >= FIELDS
    assert {name: sent[way][name] for name in FIELDS} == {name: sent["rest"][name] for name in FIELDS}


async def test_the_sdk_reads_every_field_of_its_event(sent: dict[str, Any]) -> None:
    event = sdk.asset_event(sent["execution"])
    read = {name: getattr(event, name) for name in FIELDS - CALLED_OTHERWISE - {"timestamp"}}
    assert read == {name: sent["execution"][name] for name in read}
    assert (event.asset, event.uri, event.timestamp.isoformat()) == (
        "landing",
        "s3://bucket/landing",
        sent["execution"]["timestamp"].replace("Z", "+00:00"),
    )
