"""Which partitions become runs: the rules for one group, and how keys are divided into parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.keys import Batching
from store.partition_keys import Completeness, QueuedKey, divided, group_of, joined
from watcher.features.partitions import item_counts
from watcher.features.partitions.compared_items import DistinctItems, NamedFiles
from watcher.features.partitions.completeness import missing_values
from watcher.features.partitions.groups import LATE, WHOLE, DuePartitions, GroupsOfNow, due_partitions, grouped
from watcher.scheduling.planning.plans import Waits

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
BOTH = {"all": ["a", "b"]}
MINUTE = timedelta(minutes=1)


def queued(asset: str, key: str | None, event: int, *, parts: Sequence[str] = (), ago: timedelta = MINUTE) -> QueuedKey:
    return QueuedKey(
        asset=asset,
        references={asset},
        parts=parts,
        key=key,
        events=1,
        first_event=event,
        last_event=event,
        oldest=NOW - ago,
        newest=NOW - ago,
    )


def decided(
    rows: Sequence[QueuedKey],
    schedule: Any = "a",
    *,
    unfinished: Sequence[str] = (),
    closed: Sequence[str | None] = (),
    items: Mapping[str | None, int] | None = None,
    **more: Any,
) -> DuePartitions:
    batching = Batching(mode="per_partition", **more)
    waits = Waits(condition=schedule)
    known = GroupsOfNow(groups=grouped(rows, batching), unfinished={*unfinished}, closed={*closed}, items=items or {})
    return due_partitions(known, waits, batching, NOW)


def due_keys(*arguments: Any, **more: Any) -> list[str | None]:
    return [each.group.key for each in decided(*arguments, **more).due]


@pytest.mark.parametrize(
    ("key", "parts", "by", "group"),
    [
        ("2026|eu", (), None, "2026|eu"),
        (None, (), None, None),
        (None, ("day",), ("day",), None),
        ("2026|eu", ("day", "region"), None, "2026|eu"),
        ("2026|eu", ("day", "region"), ("day",), "2026"),
        ("2026|eu", ("day", "region"), ("region", "day"), "eu|2026"),
        ("2026|", ("day", "region"), ("day",), "2026"),
        ("2026|", ("day", "region"), None, None),
        ("| ", ("day", "region"), ("region",), None),
        ("2026", ("day", "region"), ("day",), None),
        ("2026|eu", (), ("day",), None),
        (r"a\|b|eu", ("day", "region"), ("day",), r"a\|b"),
        (r"a|b|eu", ("day", "region"), ("day",), None),
        (r"a\\|eu", ("day", "region"), ("day",), r"a\\"),
    ],
)
def test_the_group_of_an_event_has_the_values_of_the_parts(
    key: str | None, parts: Sequence[str], by: Sequence[str] | None, group: str | None
) -> None:
    assert group_of(key, parts, by) == group


@given(st.lists(st.text("a|\\ "), min_size=1, max_size=4))
def test_a_key_is_divided_into_the_values_that_it_joins(values: list[str]) -> None:
    assert divided(joined(values)) == values


def test_a_condition_is_judged_within_each_key() -> None:
    rows = [queued("a", "x", 1), queued("b", "y", 2), queued("a", None, 3), queued("b", None, 4), queued("a", "y", 5)]
    assert due_keys(rows, BOTH) == ["y", None]
    assert due_keys(rows[:1], BOTH) == []


def test_the_completing_event_is_that_of_the_group() -> None:
    rows = [queued("a", "x", 1), queued("b", "x", 4), queued("b", "y", 2), queued("a", "y", 3)]
    assert [(each.group.key, each.completed_by, each.to) for each in decided(rows, BOTH).due] == [
        ("x", 4, 4),
        ("y", 3, 3),
    ]


def test_a_group_waits_for_the_end_of_its_run() -> None:
    rows = [queued("a", "x", 1), queued("a", "y", 2)]
    assert due_keys(rows, unfinished=["x"]) == ["y"]


def test_each_group_collects_by_itself() -> None:
    rows = [queued("a", "x", 1, ago=MINUTE), queued("a", "y", 2, ago=3 * MINUTE), queued("a", "y", 3, ago=2 * MINUTE)]
    at_once = decided(rows, debounce=2 * MINUTE, max_wait=10 * MINUTE)
    assert [each.group.key for each in at_once.due] == ["y"]
    assert at_once.check_again_in == MINUTE
    rows.append(queued("a", "y", 4, ago=timedelta(0)))
    assert due_keys(rows, debounce=2 * MINUTE, max_wait=10 * MINUTE) == []
    assert due_keys(rows, debounce=2 * MINUTE, max_wait=3 * MINUTE) == ["y"]


def test_what_the_schedule_does_not_wait_for_goes_with_its_group_or_after_max_wait_by_itself() -> None:
    kept = queued("z", "x", 1, ago=4 * MINUTE)
    (with_group,) = decided([kept, queued("a", "x", 2)]).due
    assert (with_group.completed_by, with_group.came_before, len(with_group.group.rows)) == (2, None, 2)
    waiting = decided([kept, queued("a", "y", 2)], BOTH, max_wait=5 * MINUTE)
    assert (waiting.due, waiting.check_again_in) == ([], MINUTE)
    (alone,) = decided([kept, queued("a", "x", 2)], BOTH, max_wait=3 * MINUTE).due
    assert (alone.came_before, alone.group.rows) == (NOW - 3 * MINUTE, [kept])
    assert due_keys([kept], None, max_wait=3 * MINUTE) == ["x"], "by the clock alone"
    assert due_keys([kept], unfinished=["x"], max_wait=3 * MINUTE) == []


PARTS = ("day", "region")
BOTH_REGIONS = Completeness(part="region", values=("eu", "us"))


def test_a_partition_is_complete_once_each_asset_has_all_values() -> None:
    rows = [
        queued("a", "1|eu", 1, parts=PARTS),
        queued("a", "1|us", 4, parts=PARTS),
        queued("b", "1", 2, parts=("day",)),
        queued("a", "2|eu", 3, parts=PARTS),
        queued("a", "2|asia", 5, parts=PARTS),
        queued("b", "2", 6, parts=("day",)),
    ]
    batch = {"by": ("day",), "complete": BOTH_REGIONS, "max_events": 1}
    (due,) = decided(rows, BOTH, **batch).due
    assert (due.group.key, due.completed_by, due.is_whole, due.said) == ("1", 4, True, WHOLE)
    assert missing_values("a", grouped(rows, Batching(by=("day",)))[1].rows, BOTH_REGIONS) == " with region us"
    at_least = Completeness(part="region", values=("eu", "us", "asia"), at_least=2)
    assert due_keys(rows, BOTH, **{**batch, "complete": at_least}) == ["1", "2"]


def test_what_comes_after_the_run_of_a_partition_is_late_and_needs_nothing_else() -> None:
    batch = {"by": ("day",), "complete": BOTH_REGIONS}
    rows = [queued("a", "1|asia", 1, parts=PARTS)]
    assert due_keys(rows, BOTH, **batch) == []
    (due,) = decided(rows, BOTH, closed=["1"], **batch).due
    assert (due.is_whole, due.said) == (False, LATE)
    assert due_keys(rows, BOTH, closed=["1"], debounce=2 * MINUTE, **batch) == [], "it collects like others"


def test_so_many_items_complete_a_partition() -> None:
    rows = [queued("a", "1", 1)]
    assert due_keys(rows, complete=Completeness(items=3), items={"1": 2}) == []
    assert due_keys(rows, complete=Completeness(items=3), items={"1": 3}) == ["1"]


def test_an_incomplete_partition_is_run_as_it_is_when_its_time_is_over() -> None:
    batch = {"by": ("day",), "complete": BOTH_REGIONS, "run_after": 3 * MINUTE}
    rows = [queued("a", "1|eu", 1, parts=PARTS, ago=2 * MINUTE), queued("b", "1|eu", 2, parts=PARTS, ago=MINUTE)]
    waiting = decided(rows, BOTH, **batch)
    assert (waiting.due, waiting.check_again_in) == ([], MINUTE)
    (due,) = decided([*rows, queued("a", "1|us", 3, parts=PARTS, ago=4 * MINUTE)], BOTH, **batch).due
    assert (due.to, due.is_whole, due.said) == (3, True, {"partition_complete": False})
    kept = decided([queued("z", "1|eu", 5, parts=PARTS, ago=4 * MINUTE)], BOTH, **batch)
    assert kept.due == [], "the schedule waits for none of its events"
    late = decided([queued("b", "1|eu", 4, parts=PARTS)], BOTH, closed=["1"], **batch)
    assert [each.said for each in late.due] == [LATE]


def test_a_marker_completes_a_partition() -> None:
    rows = [queued("a", "1", 1)]
    assert due_keys(rows, complete=Completeness(marker="_SUCCESS"), items={"1": 0}) == []
    assert due_keys(rows, complete=Completeness(marker="_SUCCESS"), items={"1": 1}) == ["1"]


@pytest.mark.parametrize("glob", ["**/_SUCCESS", "_SUCCESS", "day=*/_SUCCESS", "in/day=1/_S*"])
@pytest.mark.parametrize("file", [{"bucket": "b", "key": "in/day=1/_SUCCESS"}, {"path": "/in/day=1/_SUCCESS"}])
def test_a_marker_is_a_file_whose_name_ends_as_the_glob_says(glob: str, file: Mapping[str, str]) -> None:
    items = item_counts.comparing(Completeness(marker=glob))()
    items.add(
        "a", 1, '{"files": [{"key": "in/day=1/part"}, {"key": "in/day=1/x_SUCCESS"}], "keys": ["in/day=1/_SUCCESS"]}'
    )
    assert items.count == 0
    items.add("a", 2, json.dumps({"files": [file]}))
    assert items.count == 1


def with_manifests(*events: Mapping[str, Any]) -> NamedFiles:
    """Compare what events have, for a job that waits for `*.list`."""
    items = item_counts.comparing(Completeness(manifest="*.list"))()
    assert isinstance(items, NamedFiles)
    for number, event in enumerate(events):
        items.add("a", number, json.dumps(event))
    return items


def files(*keys: str) -> Mapping[str, Any]:
    return {"files": [{"bucket": "b", "key": f"in/{key}"} for key in keys]}


def manifest(name: str, *names: str) -> Mapping[str, Any]:
    return {**files(name), "last": True, "manifests": {f"s3://b/in/{name}": names}}


@pytest.mark.parametrize(
    ("events", "lacks"),
    [
        ([files("a", "b")], None),
        ([files("a", "b"), manifest("m.list", "a", "s3://b/in/b")], ""),
        ([manifest("m.list")], ""),
        (
            [files("a", "x.list"), manifest("m.list", "a", "x.list")],
            "the names in `s3://b/in/x.list`, which its watcher",
        ),
        ([files("m.list")], "the names in `s3://b/in/m.list`, which its watcher did not read"),
        ([files("m.list"), manifest("m.list")], ""),
        ([manifest("m.list"), files("m.list")], "the names in `s3://b/in/m.list`"),
        ([manifest("m.list", "a", "b")], "2 of the 2 files that `s3://b/in/m.list` names: `a`, `b`"),
        ([manifest("m.list", "a", "b"), files("b")], "1 of the 2 files that `s3://b/in/m.list` names: `a`"),
        ([manifest("m.list", "a", "b"), files("b"), manifest("m.list", "b")], ""),
        ([manifest("m.list", "b"), files("b"), manifest("m.list", "a", "b")], "1 of the 2 files"),
        ([manifest("m.list"), manifest("n.list", "a")], "1 of the 1 files that `s3://b/in/n.list` names: `a`"),
        ([manifest("m.list", "c"), manifest("n.list", "a")], "names: `c` and 1 of the 1 files that"),
        (
            [manifest("m.list", *"abcdefgh")],
            "8 of the 8 files that `s3://b/in/m.list` names: `a`, `b`, `c`, `d`, `e` and 3 more",
        ),
        ([manifest("m.txt", "a")], None),
        ([manifest("m.list", "/data/a"), {"files": [{"path": "/conf/../data/a"}]}], ""),
        ([{"files": 3, "manifests": 4}], None),
        (
            [{"files": [{"bucket": "b", "key": "m.list"}], "manifests": {"s3://b/m.list": "a"}}],
            "the names in `s3://b/m.list`",
        ),
    ],
)
def test_a_partition_is_whole_once_all_files_have_come_that_its_manifests_name(
    events: Sequence[Mapping[str, Any]], lacks: str | None
) -> None:
    items = with_manifests(*events)
    assert items.count == (lacks == "")
    assert (lacks or "") in items.lacks
    assert bool(items.lacks) == bool(lacks)


def test_many_incomplete_manifests_are_counted() -> None:
    items = with_manifests(*(manifest(f"{number}.list", "a") for number in range(8)))
    assert items.lacks.endswith("names: `a` and 3 more manifests")
    assert items.lacks.count("1 of the 1 files") == 5


@pytest.mark.parametrize(
    ("events", "count"),
    [
        (['{"files": [{"key": "a", "etag": "1"}, {"key": "b"}]}', '{"files": [{"key": "a", "etag": "2"}]}'], 2),
        (['{"files": [{"key": "a", "bucket": "x"}, {"key": "a", "bucket": "y"}]}'], 2),
        (['{"ranges": [[1, 10], [20, 20]]}', '{"ranges": [[5, 12], [2, 3]]}'], 13),
        (['{"keys": [1, "1", [1, 2]]}', '{"keys": [[1, 2], 3], "deleted": [7]}'], 4),
        (["{}", '{"n": 1}'], 2),
        (['{"files": []}', '{"files": 3}', '{"ranges": [[1], ["a", 2], [1, true]]}'], 0),
    ],
)
def test_each_file_and_row_counts_once_whatever_its_versions(events: Sequence[str], count: int) -> None:
    items, others = DistinctItems(), DistinctItems()
    for number, extra in enumerate(events):
        items.add("a", number, extra)
        others.add("a", number, extra)
        others.add("b", number, extra)
    assert (items.count, others.count) == (count, 2 * count)
