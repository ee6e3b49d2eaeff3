"""Transactions: changes of an asset's entries take effect together and once, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from asset_job import AssetJobError, InvalidValue, StoreConflict
from tests.unit.sdk.execution_server import LANDING, ORDERS
from tests.unit.sdk.places import Place


class JobFailed(Exception):
    pass


@contextmanager
def ends_with(kind: type[Exception]) -> Iterator[None]:
    """A transaction of which the last line or the end of the block raises."""
    with pytest.raises(kind):
        yield


def fail() -> None:
    raise JobFailed


@pytest.fixture(autouse=True)
def outlets(place: Place) -> None:
    place.outlets = [ORDERS, LANDING]


def test_changes_take_effect_together_at_the_end_of_the_block(place: Place) -> None:
    place.store("orders", "old", 1)
    place.store("orders", "older", 1)
    place.store("orders", "total_runs", 4)
    with place.run() as r:
        with r.asset_store["orders"].transaction() as t:
            t.increment("total_runs")
            t.increment("rows", 2.5)
            t["watermark"] = "2026-11-20"
            t.delete("old")
            del t["older"]
            assert place.stored("orders") == {"old": 1, "older": 1, "total_runs": 4}
        assert t.values == {"total_runs": 5, "rows": 2.5}
    assert place.stored("orders") == {"total_runs": 5, "rows": 2.5, "watermark": "2026-11-20"}


def test_an_exception_in_the_block_sends_nothing(place: Place) -> None:
    with ends_with(JobFailed), place.run() as r, r.asset_store["orders"].transaction() as t:
        t["a"] = 1
        t.increment("n", 1)
        fail()
    assert place.stored("orders") == {}


def test_skipping_in_the_block_sends_nothing(place: Place) -> None:
    with place.run() as r, r.asset_store["orders"].transaction() as t:
        t["a"] = 1
        r.skip()
    assert place.stored("orders") == {}


def test_a_changed_key_is_read_with_the_value_that_it_will_have(place: Place) -> None:
    place.store("orders", "total_runs", 4)
    with place.run() as r, r.asset_store["orders"].transaction() as t:
        t["a"] = {"n": [1]}
        t.get("a")["n"].append(2)
        assert t.get("a") == {"n": [1]}
        t.delete("a")
        assert (t.get("a"), t.get("a", default=0)) == (None, 0)
        t.increment("total_runs", 2)
        t.increment("total_runs", 3)
        assert t.get("total_runs") == 9
        t.increment("new")
        assert t.get("new", default=7) == 1


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([("set", 1), ("increment", 2)], 3),
        ([("increment", 2), ("set", 1)], 1),
        ([("delete",), ("increment", 2)], 2),
        ([("set", 1), ("delete",)], None),
        ([("delete",), ("set", 1)], 1),
        ([("increment", 2), ("delete",)], None),
        ([("increment", 2), ("increment", -3)], 9),
    ],
)
def test_the_last_of_several_changes_of_a_key_counts(place: Place, changes: list[Any], left: int | None) -> None:
    place.store("orders", "k", 10)
    with place.run() as r:
        with r.asset_store["orders"].transaction() as t:
            for name, *value in changes:
                {"set": t.__setitem__, "increment": t.increment, "delete": t.delete}[name]("k", *value)
            assert t.get("k") == left
        assert r.asset_store["orders"].get("k") == left


def test_a_key_that_somebody_changed_after_it_was_read_is_a_conflict(place: Place) -> None:
    place.store("orders", "watermark", 1)
    with place.run() as r:
        with ends_with(StoreConflict), r.asset_store["orders"].transaction() as t:
            t["watermark"] = t.get("watermark") + 1
            t.increment("total_runs")
            place.store("orders", "watermark", 7)
        assert place.stored("orders") == {"watermark": 7}
        with r.asset_store["orders"].transaction() as t:
            t["watermark"] = t.get("watermark") + 1
    assert place.stored("orders") == {"watermark": 8}


def test_a_key_that_was_created_after_it_was_read_is_a_conflict(place: Place) -> None:
    with place.run() as r, ends_with(StoreConflict), r.asset_store["orders"].transaction() as t:
        t["made"] = t.get("made", "by us")
        place.store("orders", "made", "by somebody else")
    assert place.stored("orders") == {"made": "by somebody else"}


def test_a_key_that_was_deleted_and_created_again_is_a_conflict(place: Place) -> None:
    with place.run() as r:
        r.asset_store["orders"].set("k", 1)
        with ends_with(StoreConflict), r.asset_store["orders"].transaction() as t:
            t["k"] = t.get("k")
            r.asset_store["orders"].delete("k")
            r.asset_store["orders"].set("k", 1)


def test_a_key_has_the_same_value_throughout_the_block(place: Place) -> None:
    place.store("orders", "k", [1])
    with place.run() as r, ends_with(StoreConflict), r.asset_store["orders"].transaction() as t:
        t.get("k").append(2)
        place.store("orders", "k", [3])
        assert t.get("k") == [1]


def test_increments_alone_never_conflict(place: Place) -> None:
    with place.run() as r, r.asset_store["orders"].transaction() as t:
        t.increment("n", 2)
        place.store("orders", "n", 40)
    assert place.stored("orders") == {"n": 42}


def test_a_retry_does_not_increment_again_but_sets_again(place: Place) -> None:
    def work(try_number: int) -> None:
        for name in ("orders", "orders", "landing"):
            with r.asset_store[name].transaction() as t:
                t.increment("total", 1)
                t["by_try"] = try_number

    with ends_with(JobFailed), place.run() as r:
        work(1)
        fail()
    with place.run() as r:
        work(2)
    assert place.stored("orders") == {"total": 2, "by_try": 2}
    assert place.stored("landing") == {"total": 1, "by_try": 2}


def test_a_retry_returns_the_present_values(place: Place) -> None:
    for found in (1, 1, None):
        with suppress(JobFailed), place.run() as r:
            if found is None:
                r.asset_store["orders"].delete("total")
            with r.asset_store["orders"].transaction() as t:
                t.increment("total")
            assert t.values == {"total": found}
            fail()


def test_a_failed_block_keeps_its_number(place: Place) -> None:
    """Otherwise a retry that meets no conflict would increment twice."""
    with ends_with(JobFailed), place.run() as r:
        with ends_with(StoreConflict), r.asset_store["orders"].transaction() as t:
            t.increment("total", t.get("step", 1))
            place.store("orders", "step", 1)
        with pytest.raises(ValueError, match="passing"), r.asset_store["orders"].transaction() as t:
            raise ValueError("passing")
        with r.asset_store["orders"].transaction() as t:
            t.increment("total", t.get("step", 1))
        fail()
    with place.run() as r, r.asset_store["orders"].transaction() as t:
        t.increment("total", t.get("step", 1))
    assert place.stored("orders")["total"] == 1


def test_a_block_without_changes_uses_up_a_number(place: Place) -> None:
    """A retry may find the changes of the first try done. The numbers of later transactions must not depend on that."""

    def work() -> None:
        with r.asset_store["orders"].transaction() as t:
            if "made" not in r.asset_store["orders"].keys():  # noqa: SIM118 - no mapping
                t["made"] = True
        with r.asset_store["orders"].transaction() as t:
            t.increment("total")

    with ends_with(JobFailed), place.run() as r:
        work()
        fail()
    with place.run() as r:
        work()
    assert place.stored("orders")["total"] == 1


@pytest.mark.parametrize("n", ["1", True, None, [1], float("inf")])
def test_only_numbers_can_be_incremented(place: Place, n: Any) -> None:
    with place.run() as r:
        with r.asset_store["orders"].transaction() as t:
            with pytest.raises(InvalidValue):
                t.increment("n", n)
            t["text"] = "1"
            with pytest.raises(InvalidValue, match="'text' cannot be incremented, because '1' is not a number"):
                t.increment("text")
        assert place.stored("orders") == {"text": "1"}


def test_a_value_that_is_not_json_keeps_the_earlier_change(place: Place) -> None:
    with place.run() as r, r.asset_store["orders"].transaction() as t:
        t["a"] = 1
        with pytest.raises(InvalidValue, match="delete the key instead"):
            t["a"] = None
    assert place.stored("orders") == {"a": 1}


def test_an_ended_transaction_rejects_changes(place: Place) -> None:
    with place.run() as r:
        with r.asset_store["orders"].transaction() as t:
            t["a"] = 1
        for act in (lambda: t.get("a"), lambda: t.delete("a"), lambda: t.increment("n"), lambda: t.__setitem__("a", 2)):
            with pytest.raises(AssetJobError, match="the transaction has ended"):
                act()
    assert place.stored("orders") == {"a": 1}
