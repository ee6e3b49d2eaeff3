"""The guarantees of a run for its job, with a daemon and in a local folder."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from asset_job import (
    NEVER_EXPIRE,
    Alias,
    Asset,
    AssetJobError,
    AssetJobSkip,
    InvalidValue,
    Metadata,
)
from tests.unit.sdk.execution_server import ALIAS, LANDING, ORDERS, event
from tests.unit.sdk.places import InAFolder, Place

# The block


def test_leaving_the_block_reports_success(place: Place) -> None:
    with place.run():
        assert place.finished() is None
    assert place.finished() == {"state": "success", "outlet_events": [], "message": ""}


def test_an_exception_reports_failure_and_propagates(place: Place) -> None:
    place.outlets = [ORDERS]
    with pytest.raises(ZeroDivisionError), place.run() as r:
        r.outlet_events["orders"].extra = {"row_count": 1 / 0}
    message = "ZeroDivisionError: division by zero"
    assert place.finished() == {"state": "failed", "outlet_events": [], "message": message}


@pytest.mark.parametrize(("code", "state"), [(0, "success"), (None, "success"), (3, "failed"), ("no", "failed")])
def test_sys_exit_is_a_success_without_a_code(place: Place, code: Any, state: str) -> None:
    with pytest.raises(SystemExit), place.run():
        sys.exit(code)
    assert (place.finished() or {})["state"] == state


def test_a_long_message_is_cut(place: Place) -> None:
    with pytest.raises(RuntimeError), place.run():
        raise RuntimeError("x" * 100_000)
    assert len((place.finished() or {})["message"]) == 2000


def test_skipping_ends_the_block_quietly(place: Place) -> None:
    with place.run() as r:
        r.skip("nothing new")
    assert place.finished() == {"state": "skipped", "outlet_events": [], "message": "nothing new"}


def test_raising_the_skip_exception_skips(place: Place) -> None:
    with place.run():
        raise AssetJobSkip
    assert (place.finished() or {})["state"] == "skipped"


# What triggered the run


def test_a_run_has_the_conf_and_times_of_its_request(place: Place) -> None:
    times = ("logical_date", "data_interval_start", "data_interval_end")
    days = [datetime(2026, 11, day, tzinfo=UTC) for day in (20, 19, 20)]
    place.asked = {"conf": {"day": "ü", "big": 2**70}, **dict(zip(times, map(datetime.isoformat, days), strict=True))}
    with place.run() as r:
        assert r.conf == {"day": "ü", "big": 2**70}
        assert [r.logical_date, r.data_interval_start, r.data_interval_end] == days


def test_a_run_has_its_partition_key(place: Place) -> None:
    place.asked = {"partition_key": "2026-11-20"}
    with place.run() as r:
        assert r.partition_key == "2026-11-20"


def test_a_run_of_events_has_an_empty_conf_and_no_times(place: Place) -> None:
    with place.run() as r:
        assert (r.conf, r.logical_date, r.data_interval_start, r.data_interval_end) == ({}, None, None, None)
        assert r.partition_key is None


def test_events_are_a_mapping_with_the_oldest_first(place: Place) -> None:
    late, early = "2026-11-20T09:00:00.5Z", "2026-11-20T09:00:00+00:00"
    place.events = {
        "landing": [event(3, "landing", late), event(2, "landing", early), event(1, "landing", early)],
        "inbox": [event(4, "inbox", early)],
    }
    with place.run() as r:
        events = r.triggering_asset_events
        assert list(events) == ["landing", "inbox"]
        assert len(events) == 2
        assert [event.id for event in events["landing"]] == [1, 2, 3]
        assert events["landing"][0].timestamp == datetime(2026, 11, 20, 9, tzinfo=UTC)
        assert (events["inbox"][0].asset, events["inbox"][0].uri) == ("inbox", "file:///data/inbox")
        assert events["inbox"][0].source_watcher == "inbox_files"
        assert events["inbox"][0].extra == {}
        with pytest.raises(KeyError):
            events["orders"]


def test_files_ranges_and_rows_come_in_the_order_of_their_events(place: Place) -> None:
    first, second, third = (f"2026-11-20T09:00:0{second}Z" for second in (1, 2, 3))
    place.events = {
        "landing": [
            event(1, "landing", first, files=[{"key": "a"}, {"key": "b"}]),
            event(5, "landing", third, files=[{"key": "d"}]),
        ],
        "inbox": [event(3, "inbox", second, files=[{"key": "c"}])],
        "customers": [event(4, "customers", second, ranges=[[11, 12], [14, 14]], rows=[{"id": 11}])],
    }
    with place.run() as r:
        events = r.triggering_asset_events
        assert [file["key"] for file in events.files()] == ["a", "b", "c", "d"]
        assert [file["key"] for file in events.files("landing")] == ["a", "b", "d"]
        assert events.files("orders") == []
        assert events.ranges() == [(11, 12), (14, 14)]
        assert events.rows() == [{"id": 11}]


def test_an_event_names_the_run_that_created_it(tmp_path: Path) -> None:
    """test_an_alias_is_where_its_events_come_from tests the same of the API."""
    place = InAFolder(tmp_path)
    source = {"dag_id": "x", "run_id": "r", "data_interval_start": None, "data_interval_end": None}
    made = {
        **event(1, "orders", "2026-11-20T09:00:00Z"),
        "source_dag_run": source,
        "source_task_instance": {"task_id": "t"},
    }
    place.events = {"orders": [made]}
    with place.run() as r:
        (one,) = r.triggering_asset_events["orders"]
        assert one.source_dag_run == source
        assert one.source_task_instance == {"task_id": "t"}


def test_past_events_are_a_sequence_of_an_assets_or_an_aliass(place: Place) -> None:
    place.inlets = [LANDING, ALIAS]
    place.past_events = {
        "landing": [event(number, "landing", f"2026-11-20T09:0{number}:00Z", n=number) for number in range(5)],
        "daily_outputs": [event(9, "orders", "2026-11-20T09:00:00Z")],
    }
    with place.run() as r:
        past = r.inlet_events["landing"]
        assert (past[-1].extra["n"], past[-2].extra["n"], past[0].extra["n"], past[3].extra["n"]) == (4, 3, 0, 3)
        assert [one.id for one in past] == [0, 1, 2, 3, 4]
        assert [one.id for one in past[-2:]] == [3, 4]
        assert len(past) == 5
        with pytest.raises(IndexError, match="only 5 events"):
            past[5]
        with pytest.raises(IndexError):
            past[-6]
        for alias in ("daily_outputs", Alias(name="daily_outputs")):
            assert [one.id for one in r.inlet_events[alias]] == [9]


# Outlet events


def test_outlet_events_are_sent_with_the_success(place: Place) -> None:
    place.inlets, place.outlets = [LANDING], [ORDERS, ALIAS]
    with place.run() as r:
        r.outlet_events["orders"].extra = {"row_count": 3, "at": datetime(2026, 1, 1, tzinfo=UTC)}
        alias = r.outlet_events["daily_outputs"]
        alias.add("s3://lake/day=1", {"n": 1})
        alias.add(Asset(uri="s3://lake/day=2", name="day_2"))
        alias.add("landing")
    assert (place.finished() or {})["outlet_events"] == [
        {"asset": "orders", "extra": {"row_count": 3, "at": "2026-01-01T00:00:00+00:00"}},
        {"alias": "daily_outputs", "asset": {"name": "", "uri": "s3://lake/day=1"}, "extra": {"n": 1}},
        {"alias": "daily_outputs", "asset": {"name": "day_2", "uri": "s3://lake/day=2"}, "extra": {}},
        {"alias": "daily_outputs", "asset": {"name": "landing", "uri": "s3://landing/orders"}, "extra": {}},
    ]


def test_metadata_adds_events_in_one_call(place: Place) -> None:
    place.outlets = [ORDERS, ALIAS]
    with place.run() as r:
        r.outlet_events["orders"].extra = {"rows": 1}
        r.outlet_events.add(Metadata("orders", {"files": 2}))
        r.outlet_events.add(Metadata("s3://lake/x", {"n": 1}, alias="daily_outputs"))
        with pytest.raises(AssetJobError, match="nobodys is not an outlet"):
            r.outlet_events.add(Metadata("nobodys"))
    assert (place.finished() or {})["outlet_events"] == [
        {"asset": "orders", "extra": {"rows": 1, "files": 2}},
        {"alias": "daily_outputs", "asset": {"name": "", "uri": "s3://lake/x"}, "extra": {"n": 1}},
    ]


def test_an_outlet_is_named_by_its_name_its_uri_or_as_an_asset(place: Place) -> None:
    place.inlets, place.outlets = [LANDING], [ORDERS, ALIAS]
    uri = ORDERS["uri"]
    with place.run() as r:
        r.outlet_events[uri].extra["by_uri"] = 1
        r.outlet_events[Asset(uri=uri)].extra["as_an_asset"] = 2
        r.outlet_events[Asset(name="orders", uri="")].extra["by_its_name"] = 3
        r.outlet_events.add(Metadata(Asset(uri=uri), {"metadata": 4}))
        r.outlet_events[Alias(name="daily_outputs")].add("s3://lake/x")
        with pytest.raises(AssetJobError, match="landing is not an outlet"):
            r.outlet_events[Asset(uri=LANDING["uri"])].extra = {}
    assert (place.finished() or {})["outlet_events"] == [
        {"asset": "orders", "extra": {"by_uri": 1, "as_an_asset": 2, "by_its_name": 3, "metadata": 4}},
        {"alias": "daily_outputs", "asset": {"name": "", "uri": "s3://lake/x"}, "extra": {}},
    ]


def test_the_other_accessors_take_an_asset(place: Place) -> None:
    inbox = Asset(uri="file:///data/inbox")
    place.inlets, place.outlets = [{"name": "inbox", "uri": inbox.uri}], [ORDERS]
    place.events = {"inbox": [event(1, "inbox", "2026-11-20T09:00:00Z", files=[{"key": "a"}])]}
    place.past_events = {"inbox": [event(2, "inbox", "2026-11-20T09:00:00Z")]}
    with place.run() as r:
        assert [one.id for one in r.triggering_asset_events[inbox]] == [1]
        assert r.triggering_asset_events[inbox.uri] == r.triggering_asset_events["inbox"]
        assert [file["key"] for file in r.triggering_asset_events.files(inbox)] == ["a"]
        assert r.inlet_events[inbox][-1].id == 2
        r.asset_store[Asset(uri=ORDERS["uri"])].set("a", 1)
        assert r.asset_store["orders"].get("a") == 1


def test_an_event_of_an_asset_that_is_not_an_outlet_is_rejected(place: Place) -> None:
    place.inlets, place.outlets = [LANDING], [ORDERS]
    with place.run() as r:
        with pytest.raises(AssetJobError, match="landing is not an outlet of this job: add it to the job's `outlets`"):
            r.outlet_events["landing"].extra = {}
        with pytest.raises(AssetJobError, match="orders is an asset and not an alias"):
            r.outlet_events["orders"].add("s3://x")


# The asset store


@pytest.mark.parametrize("key", ["total_runs", "a/b", "ü & ?=#%", "..", "x" * 512])
def test_a_value_is_read_until_it_is_deleted(place: Place, key: str) -> None:
    place.outlets = [ORDERS]
    with place.run() as r:
        store = r.asset_store["orders"]
        assert store.get(key) is None
        assert store.get(key, default=0) == 0
        store.set(key, {"n": [1, 2.5, "ü", True, None]})
        assert store.get(key) == {"n": [1, 2.5, "ü", True, None]}
        assert store.keys() == [key]
        store.delete(key)
        assert store.get(key, "gone") == "gone"
        assert store.keys() == []


def test_the_task_store_lists_its_keys(place: Place) -> None:
    with place.run() as r:
        for key in ("b", "a/b", "ü"):
            r.task_store.set(key, 1)
        r.task_store.delete("b")
        assert r.task_store.keys() == ["a/b", "ü"]


def test_an_asset_entry_exists_in_the_next_run(place: Place) -> None:
    place.outlets = [ORDERS]
    with place.run() as r:
        r.asset_store["orders"].set("watermark", 7)
    with place.run() as r:
        assert r.asset_store["orders"].get("watermark") == 7


def test_clear_deletes_all_entries_of_one_asset(place: Place) -> None:
    place.inlets, place.outlets = [LANDING], [ORDERS]
    with place.run() as r:
        for name in ("landing", "orders"):
            r.asset_store[name].set("a", name)
        r.asset_store["landing"].clear()
        assert r.asset_store["landing"].keys() == []
        assert r.asset_store["orders"].get("a") == "orders"


def test_the_only_asset_needs_no_name(place: Place) -> None:
    place.inlets, place.outlets = [ORDERS], [ORDERS, ALIAS]
    with place.run() as r:
        r.asset_store.set("a", 1)
        assert (r.asset_store.get("a"), r.asset_store.keys()) == (1, ["a"])
        r.asset_store.delete("a")
        assert r.asset_store["orders"].get("a") is None
        with r.asset_store.transaction() as t:
            t["b"] = 2
        assert r.asset_store["orders"].get("b") == 2
        r.asset_store.clear()
        assert r.asset_store.get("b", default="gone") == "gone"


@pytest.mark.parametrize(
    ("outlets", "known"), [([LANDING, ORDERS], "landing, orders"), ([ALIAS], "no asset among its inlets and outlets")]
)
def test_with_several_assets_a_name_is_required(place: Place, outlets: list[dict[str, str]], known: str) -> None:
    place.outlets = outlets
    with place.run() as r:
        with pytest.raises(AssetJobError, match=f"this job has {known}"):
            r.asset_store.get("a")
        with pytest.raises(AssetJobError, match=f"this job has {known}"):
            r.asset_store.transaction()


def test_times_are_stored_as_iso_text(place: Place) -> None:
    place.outlets = [ORDERS]
    with place.run() as r:
        r.asset_store.set("at", {"completed_at": datetime(2026, 11, 20, 9, tzinfo=UTC)})
        assert r.asset_store.get("at") == {"completed_at": "2026-11-20T09:00:00+00:00"}
        assert r.now().utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "None cannot be stored as 'a': delete the key instead"),
        (float("nan"), "the value of 'a' is not JSON"),
        ({"x": {1, 2}}, "the value of 'a' is not JSON: set cannot be stored"),
    ],
)
def test_a_value_that_is_not_json_is_rejected_at_once(place: Place, value: Any, sentence: str) -> None:
    place.outlets = [ORDERS]
    with place.run() as r:
        r.asset_store.set("a", "before")
        for store in (r.asset_store, r.task_store):
            with pytest.raises(InvalidValue, match=sentence):
                store.set("a", value)
        assert (r.asset_store.get("a"), r.task_store.get("a")) == ("before", None)


# The task store


@pytest.mark.parametrize("key", ["spark_app_id", "a/b?c#d", "ü"])
def test_task_entries_exist_in_the_next_try(place: Place, key: str) -> None:
    with pytest.raises(RuntimeError), place.run() as r:  # noqa: PT012 - a try that fails late
        r.task_store.set(key, [1], retention=NEVER_EXPIRE)
        assert r.task_store.get(key) == [1]
        r.task_store.delete(key)
        assert r.task_store.get(key, 0) == 0
        r.task_store.set(key, 2, retention=timedelta(days=1))
        raise RuntimeError
    with place.run() as r:
        assert r.task_store.get(key) == 2
        r.task_store.clear()
        assert r.task_store.get(key) is None


@pytest.mark.parametrize("retention", [7, "1 day", True])
def test_a_retention_that_is_not_a_time_is_rejected(place: Place, retention: Any) -> None:
    with place.run() as r, pytest.raises(InvalidValue, match="give a timedelta, NEVER_EXPIRE, or nothing"):
        r.task_store.set("a", 1, retention=retention)
