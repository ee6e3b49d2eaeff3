from __future__ import annotations

import re
from typing import Any

import pytest

from asset_job import AssetJobError, NoRetry
from asset_job.events import TriggeringAssetEvents
from asset_job.ingest.plan import (
    VALUE_IN_REASON,
    BadRecordSummary,
    IngestDestination,
    IngestJobOptions,
    RecordCounts,
    columns_named,
    destination,
    ingest_inputs,
    watermark,
)
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
    marked = events(("s3", {"files": [a]}), ("s3", {"files": [{"key": "_SUCCESS"}], "last": True}))
    assert [source.items for source in ingest_inputs(marked, None)] == [[a]], "a marker is no data"
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


def test_bounds_of_bad_records_and_options_of_reading_come_as_the_daemon_sends_them():
    sent = {"max_bad_records": 0, "input_options": {"sep": ";"}, "on_unrepresentable": "null"}
    options = IngestJobOptions.from_json(sent)
    assert (options.max_bad_records, options.input_options, options.on_unrepresentable) == (0, {"sep": ";"}, "null")
    assert IngestJobOptions.from_json({"max_bad_records": None}).max_bad_records == "50%"


def summary(bad: int, records: int) -> BadRecordSummary:
    return BadRecordSummary(bad=bad, records=records, reason="no number", times=2, places=["a.csv line 3"])


@pytest.mark.parametrize(
    ("limit", "bad", "records", "is_allowed"),
    [
        ("50%", 1, 1, True),  # one record has no share
        ("0%", 1, 1, True),
        ("50%", 1, 2, True),
        ("50%", 2, 2, False),
        ("50%", 2, 3, False),
        ("50%", 500_000, 1_000_000, True),
        ("50%", 500_001, 1_000_000, False),
        ("0.1%", 1, 1000, True),
        ("0.1%", 2, 1999, False),
        ("100%", 9, 9, True),
        ("0%", 1, 10**9, False),
        (0, 1, 1, False),
        ("0", 1, 10**9, False),
        (3, 3, 3, True),
        (3, 4, 10**9, False),
    ],
)
def test_the_bound_of_bad_records(limit, bad, records, is_allowed):
    if is_allowed:
        summary(bad, records).check(limit)
    else:
        with pytest.raises(NoRetry, match=f"max_bad_records is {limit} and {bad} of {records} "):
            summary(bad, records).check(limit)


@pytest.mark.parametrize(
    ("reason", "values"),
    [
        ("the column n has the type tinyint, and {} is no whole number", ["300", "-129"]),
        ("the column n has the type bigint, and {} is no whole number", ["'x'", "'a, b'", "7"]),
        ("the column n has the type int in the schema, and there is {}", ["1 2\n3", "x"]),
        ("the column n is NOT NULL, and its value is {}", ["null", "1e9"]),
        ("the column day holds {}, which Spark's type date cannot hold", ["infinity", "-infinity"]),
    ],
)
def test_reasons_that_differ_in_their_value_only_are_one_reason(reason: str, values: list[str]):
    shapes = {re.sub(VALUE_IN_REASON, "", reason.format(value)) for value in values}
    assert len(shapes) == 1
    assert shapes.pop().startswith(reason.partition(" ")[0] + " column")


def test_too_many_bad_records_are_one_sentence_with_the_commonest_reason_and_the_first_places():
    told = BadRecordSummary(bad=5, records=8, reason="no number", times=4, places=["a.csv line 3", "b.csv line 1"])
    with pytest.raises(NoRetry) as raised:
        told.check("50%")
    assert str(raised.value) == (
        "nothing was loaded, because max_bad_records is 50% and 5 of 8 records are bad: no number (4 times; the "
        "first: a.csv line 3, b.csv line 1); correct the source or the options, or raise max_bad_records, and retry the run"
    )


def test_what_is_written_must_be_what_was_counted():
    counted = RecordCounts(good=5, bad_rows=2, bad=7, nulled=0)
    counted.check_written(5, 2, may_drop=False)
    counted.check_written(3, 2, may_drop=True)
    for good, bad, may_drop in ((4, 2, False), (6, 2, False), (6, 2, True), (5, 1, False), (5, 3, True)):
        with pytest.raises(AssetJobError, match="changed while it was read: retry the run") as raised:
            counted.check_written(good, bad, may_drop=may_drop)
        assert not isinstance(raised.value, NoRetry)


def test_columns_are_named_as_spark_names_them_or_refused():
    columns = ["id", "a.b", "Day", "tick`ed"]
    assert columns_named("dedupe_key", ["ID", "a.b", "tick`ed"], columns) == ("id", "a.b", "tick`ed")
    assert columns_named("partition_by", ["a", "A"], ["A", "a"]) == ("a", "A")
    with pytest.raises(
        NoRetry, match=r"dedupe_key names b, but the columns are id, a\.b, Day, tick`ed: correct dedupe_key"
    ):
        columns_named("dedupe_key", ["id", "b"], columns)
