from __future__ import annotations

from typing import Any

import pytest

from asset_job import AssetJobError
from asset_job.events import TriggeringAssetEvents
from asset_job.ingest.plan import IngestDestination, IngestJobOptions, destination, ingest_inputs, watermark
from tests.unit.sdk.execution_server import event

OUTLETS = {"orders": "s3://lake/tables/orders/", "more": "file:///data/more", "plain": "plain"}


def events(*told: tuple[str, dict[str, Any]]) -> TriggeringAssetEvents:
    found: dict[str, list[dict[str, Any]]] = {}
    for number, (name, extra) in enumerate(told):
        found.setdefault(name, []).append(event(number, name, f"2026-11-20T09:00:{number:02}Z", **extra))
    return TriggeringAssetEvents(found)


def test_options_are_read_from_json():
    sent = {"target": "/t", "partition_by": "day", "dedupe_key": ["id", "day"], "schema": None, "unknown": 1}
    assert IngestJobOptions.from_json(sent) == IngestJobOptions(
        target="/t", partition_by=("day",), dedupe_key=("id", "day")
    )
    assert IngestJobOptions.from_json({}) == IngestJobOptions()


@pytest.mark.parametrize(
    ("options", "outlets", "expected"),
    [
        ({}, ["orders"], ("orders", "s3://lake/tables/orders", "s3://lake/tables/orders_bad")),
        ({}, ["more"], ("more", "/data/more", "/data/more_bad")),
        ({"target": "/t/", "bad_records": "/b"}, ["plain"], ("plain", "/t", "/b")),
        (
            {"target": "s3a://lake/tables/orders"},
            ["orders", "more"],
            ("orders", *["s3://lake/tables/orders"] * 1, None),
        ),
        ({"target": "more"}, ["orders", "more"], ("more", "/data/more", "/data/more_bad")),
    ],
)
def test_the_table_is_the_outlet_or_the_target(options, outlets, expected):
    found = destination(IngestJobOptions(**options), {name: OUTLETS[name] for name in outlets})
    outlet, target, bad = expected
    assert found == IngestDestination(outlet=outlet, target=target, bad_records=bad or f"{target}_bad")


@pytest.mark.parametrize(
    ("options", "outlets"), [({}, []), ({}, ["orders", "more"]), ({}, ["plain"]), ({"target": "x"}, ["plain"])]
)
def test_without_a_single_outlet_or_a_usable_location_nothing_is_loaded(options, outlets):
    with pytest.raises(AssetJobError):
        destination(IngestJobOptions(**options), {name: OUTLETS[name] for name in outlets})


def test_each_format_and_each_table_is_a_separate_input():
    a, b, c = {"key": "a.json"}, {"key": "b.csv.gz"}, {"path": "/c.JSON"}
    rows, keys, none = (
        {"table": "public.rows", "column": "id", "ranges": [[1, 2]]},
        {"table": "public.keys", "column": "at", "keys": [1]},
        {"table": "public.rows", "column": "id", "ranges": []},
    )
    of_run = events(
        ("s3", {"files": [a, b]}), ("s3", {"files": [a]}), ("local", {"files": [c]}), ("pg", rows), ("pg", none)
    )
    found = [(source.format, source.items) for source in ingest_inputs(of_run, None)]
    assert found == [("json", [a, a]), ("csv", [b]), ("json", [c]), (None, of_run["pg"][:1])]
    assert [source.format for source in ingest_inputs(of_run, "text")] == ["text", "text", None]
    assert [len(source.items) for source in ingest_inputs(events(("pg", keys), ("pg", rows)), None)] == [1, 1]
    assert ingest_inputs(events(("job", {"row_count": 3})), None) == []
    with pytest.raises(AssetJobError, match=r"name the format of x.dat by spark.options.input_format"):
        ingest_inputs(events(("s3", {"files": [{"key": "x.dat"}]})), None)


@pytest.mark.parametrize(
    ("before", "ends", "after"),
    [
        (None, [("a", "2026-11-20"), ("a", "2026-11-19")], "2026-11-20"),
        ("2026-11-21", [("a", "2026-11-20")], "2026-11-21"),
        (12, [("a", 15)], 15),
        (99, [("a", 15)], 99),
        (None, [("a", 15), ("b", "x")], {"a": 15, "b": "x"}),
        ({"a": 20, "b": "w"}, [("a", 15), ("b", "x")], {"a": 20, "b": "x"}),
        ({"a": 20, "b": "w"}, [("b", "x")], {"a": 20, "b": "x"}),
        (7, [], 7),
        (None, [], None),
    ],
)
def test_the_watermark_never_goes_back(before, ends, after):
    of_run = events(*((name, {"watermark": {"from": None, "to": end}}) for name, end in ends))
    assert watermark(of_run, before) == after
