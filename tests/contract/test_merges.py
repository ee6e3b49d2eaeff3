"""The contract of merges: a table is what its changes give, applied once, whatever is repeated, late, stopped or killed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from asset_job.errors import AssetJobError, Fenced, NoRetry, TargetFailed
from asset_job.tables.formats.versioned_table import CommitConflict, VersionedTable
from asset_job.tables.layout import location_of
from asset_job.tables.merge.merged_part import changed_rows, merged_part
from tests.contract.tables import Delta, Kind, append, check_not_superseded
from tests.contract.test_tables import fenced, kind, on_s3_too
from tests.service.conftest import bucket, s3_server
from tests.unit.sdk.test_merge_plans import Change, Source, of_event, runs_of, source_of

__all__ = ["bucket", "fenced", "kind", "s3_server"]

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("big", pa.int64())])
Rows = list[tuple[Any, ...]]


def no_types(ddl: str) -> pa.Schema:
    raise AssertionError(ddl)


def merge(
    table: VersionedTable,
    changes: Sequence[Change],
    *,
    run: int = 1,
    merge_on: Sequence[str] = ("id",),
    schema: pa.Schema | None = SCHEMA,
    partition_by: Sequence[str] = (),
) -> int:
    rows = changed_rows(changes, merge_on, of_event(run, changes), no_types, schema)
    return merged_part(table, rows, partition_by).rows


def _order(row: tuple[Any, ...]) -> list[str]:
    return [str(value) for value in row[:2]]


def contents(kind: Kind, columns: Sequence[str] = SCHEMA.names) -> Rows:
    """The rows as DuckDB and the format's own library read them, which must agree."""
    by = [
        sorted(zip(*(rows[name].to_pylist() for name in columns), strict=True), key=_order)
        for rows in (kind.by_library(), kind.by_duckdb())
    ]
    assert by[0] == by[1]
    return by[0]


def expected(source: Source) -> Rows:
    return sorted((tuple(row[name] for name in SCHEMA.names) for row in source.rows.values()), key=_order)


def insert(key: int, a: int = 0, *, lsn: int = 1, big: int = 0) -> Change:
    row = {"id": key, "a": a, "big": big}
    return {"op": "insert", "key": key, "lsn": f"0/{lsn:X}", "row": row}


@pytest.mark.parametrize("seed", range(6))
def test_replayed_changes_give_exactly_the_table(kind: Kind, seed: int) -> None:
    random = Random(seed)
    source = source_of(random, 60, keys=9)
    runs = runs_of(random, source, 6)
    for number, changes in runs.items():
        merge(kind.table(f"run_{number}", 1), changes, run=number)
        if random.random() < 0.5:
            again = random.randint(1, number)
            merge(kind.table(f"run_{again}", 2 + number), runs[again], run=again)
    assert contents(kind) == expected(source)


def test_runs_in_another_order_give_the_same_table(kind: Kind) -> None:
    merge(
        kind.table("new", 1),
        [insert(1, 5, lsn=20), {"op": "delete", "key": 2, "lsn": "0/21"}, insert(4, lsn=22)],
        run=2,
    )
    merge(kind.table("old", 1), [insert(1, 1, lsn=10), insert(2, lsn=11), insert(3, lsn=12)], run=1)
    assert [row[:2] for row in contents(kind)] == [(1, 5), (3, 0), (4, 0)]


@on_s3_too
def test_inserts_updates_deletes_and_truncates_are_applied(kind: Kind) -> None:
    update = {"op": "update", "key": 5, "old_key": 2, "lsn": "0/9", "row": {"id": 5, "a": 50}, "unchanged": ["big"]}
    merge(kind.table("first", 1), [insert(1), insert(2, big=7), insert(3)])
    assert merge(kind.table("second", 1), [update, {"op": "delete", "key": 3, "lsn": "0/9"}], run=2) == 1
    assert contents(kind) == [(1, 0, 0), (5, 50, 7)]
    merge(kind.table("third", 1), [{"op": "truncate", "lsn": "0/A"}, insert(8, lsn=10)], run=3)
    assert contents(kind) == [(8, 0, 0)]


def in_turn(steps: Iterator[Callable[[], object]]) -> Callable[[], None]:
    """What the daemon does at each question of a try: the next step."""

    def ask() -> None:
        next(steps)()

    return ask


def test_a_try_that_was_stopped_before_its_commit_changes_nothing_after_the_next_one(kind: Kind) -> None:
    merge(kind.table("first", 1), [insert(1), insert(2)])

    def overtaken() -> None:
        merge(kind.table("second", 2), [{"op": "delete", "key": 1, "lsn": "0/5"}], run=2)
        merge(kind.table("third", 1), [insert(1, 9, lsn=6)], run=3)

    stopped = iter([overtaken, check_not_superseded])
    old = kind.table("second", 1, ask=in_turn(stopped))
    with pytest.raises(Fenced, match="try 2 of this run has merged into the table already"):
        merge(old, [{"op": "delete", "key": 1, "lsn": "0/5"}], run=2)
    assert contents(kind) == [(1, 9, 0), (2, 0, 0)]


@pytest.mark.parametrize("changes", [[], [insert(3, lsn=5)]])
def test_a_try_without_effect_stops_its_predecessor_too(kind: Kind, changes: list[Change]) -> None:
    merge(kind.table("first", 1), [insert(1)])
    started = iter([lambda: merge(kind.table("second", 2), changes, run=2), check_not_superseded])
    with pytest.raises(Fenced):
        merge(kind.table("second", 1, ask=in_turn(started)), [insert(2, lsn=5)], run=2)
    assert [row[0] for row in contents(kind)] == [1, *(change["key"] for change in changes)]


def test_a_superseded_try_changes_nothing(kind: Kind, fenced: Callable[[], None]) -> None:
    merge(kind.table("first", 1), [insert(1)])
    with pytest.raises(Fenced):
        merge(kind.table("second", 1, ask=fenced), [{"op": "truncate", "lsn": "0/5"}], run=2)
    assert [row[0] for row in contents(kind)] == [1]


class Killed(BaseException):
    """Ends a driver at once."""


def test_a_driver_that_is_killed_between_stage_and_commit_leaves_the_work_to_the_next_try(kind: Kind) -> None:
    def killed() -> None:
        raise Killed

    merge(kind.table("first", 1), [insert(1), insert(2)])
    changes = [{"op": "delete", "key": 1, "lsn": "0/5"}, insert(3, lsn=5)]
    with pytest.raises(Killed):
        merge(kind.table("second", 1, ask=killed), changes, run=2)
    assert [row[0] for row in contents(kind)] == [1, 2]
    merge(kind.table("second", 2), changes, run=2)
    assert [row[0] for row in contents(kind)] == [2, 3]


def test_a_commit_whose_answer_was_lost_is_repeated_without_effect(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    merge(kind.table("first", 1), [insert(1)])
    table = kind.table("second", 1)
    update = {"op": "update", "key": 2, "old_key": 1, "lsn": "0/5", "row": {"id": 2, "a": 5}, "unchanged": ["big"]}
    publish, lost = type(table).publish, iter([True, False])

    def unanswered(self: Any, *given: Any, **named: Any) -> None:
        publish(self, *given, **named)
        if next(lost):
            raise CommitConflict

    monkeypatch.setattr(type(table), "publish", unanswered)
    merge(table, [update], run=2)
    assert contents(kind) == [(2, 5, 0)]


def test_others_who_write_meanwhile_lose_nothing(kind: Kind) -> None:
    merge(kind.table("first", 1), [insert(1), insert(2)])
    extra = pa.table({"id": [7], "a": [7], "big": [7]}, schema=SCHEMA)
    meanwhile = iter([lambda: append(kind.table("appending", 1), extra), check_not_superseded])
    merge(kind.table("second", 1, ask=in_turn(meanwhile)), [{"op": "delete", "key": 1, "lsn": "0/5"}], run=2)
    assert [row[0] for row in contents(kind)] == [2, 7]
    merge(kind.table("third", 1), [insert(8, lsn=6), {"op": "delete", "key": 2, "lsn": "0/6"}], run=3)
    merge(kind.table("fourth", 1), [{"op": "update", "key": 7, "lsn": "0/7", "row": {"id": 7, "a": 1}}], run=4)
    with pytest.raises(TargetFailed, match="were rewritten by others"):
        append(kind.table("appending", 2), extra)


TYPES = pa.schema(
    [
        ("region", pa.string()),
        ("id", pa.int64()),
        ("price", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("data", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("ok", pa.bool_()),
        ("text", pa.string()),
        ("ratio", pa.float64()),
    ]
)


def wide(region: str, number: int, **more: Any) -> Change:
    row = {
        "region": region,
        "id": number,
        "price": "12345.60",
        "at": "2026-11-20T09:00:00.000001+00:00",
        "day": "2026-11-20",
        "data": "\\x00ff",
        "tags": ["a", None],
        "ok": True,
        "text": "ü",
        "ratio": 0.1,
    }
    return {"op": "insert", "key": [region, number], "lsn": "0/1", "row": {**row, **more}}


@pytest.mark.parametrize("partition_by", [(), ("region",), ("day", "region")])
def test_rows_keep_their_values_when_others_of_their_file_change(kind: Kind, partition_by: Sequence[str]) -> None:
    first = [wide("eu", 1), wide("eu", 2), wide("us", 1, text=None, tags=None, data=None, ratio=-0.0), wide("us", 2)]
    moved = {"op": "update", "key": ["asia", 2], "old_key": ["us", 2], "lsn": "0/3", "row": {"region": "asia", "id": 2}}
    second = [{"op": "delete", "key": ["eu", 1], "lsn": "0/2"}, moved]
    of_keys = {"merge_on": ("region", "id"), "schema": TYPES, "partition_by": partition_by}
    merge(kind.table("first", 1), first, **of_keys)  # type: ignore[arg-type]
    merge(kind.table("second", 1), second, run=2, **of_keys)  # type: ignore[arg-type]
    value = (
        Decimal("12345.60"),
        dt.datetime(2026, 11, 20, 9, 0, 0, 1, tzinfo=dt.UTC),
        dt.date(2026, 11, 20),
        b"\x00\xff",
        ["a", None],
        True,
        "ü",
        0.1,
    )
    bare = (*value[:3], None, None, True, None, -0.0)
    assert contents(kind, TYPES.names) == [("asia", 2, *value), ("eu", 2, *value), ("us", 1, *bare)]


def test_a_table_that_others_have_written_and_partitioned_is_merged_into(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    rows = pa.table({"id": [1, 2, 3], "a": [1, 1, 1], "day": ["a/ü %", "b", "a/ü %"]})
    write_deltalake(folder, rows, partition_by=["day"])
    kind = Delta(location=location_of(str(folder), {}))
    schema = rows.schema
    gone = {"op": "delete", "key": 1, "lsn": "0/1"}
    merge(
        kind.table("first", 1),
        [gone, {**insert(9), "row": {"id": 9, "a": 9, "day": "c"}}],
        schema=schema,
        partition_by=["day"],
    )
    assert contents(kind, schema.names) == [(2, 1, "b"), (3, 1, "a/ü %"), (9, 9, "c")]


@pytest.mark.parametrize(
    ("changes", "options", "error", "sentence"),
    [
        (
            [{"op": "update", "key": 5, "lsn": "0/9", "row": {"id": 5}, "unchanged": ["big"]}],
            {},
            TargetFailed,
            "has no row with the key",
        ),
        (
            [{**insert(3, lsn=9), "row": {"id": 3, "a": "many"}}],
            {},
            NoRetry,
            "the row with the key [3] does not fit the table",
        ),
        ([insert(3, lsn=9)], {"merge_on": ("ids",)}, NoRetry, "merge_on names ids"),
        ([insert(3, lsn=9)], {"partition_by": ["a"]}, TargetFailed, "is partitioned by nothing, not by a"),
        (
            [{**insert(3, lsn=9), "row": {"id": 3, "new": 1}}],
            {"schema": pa.schema([*SCHEMA, ("new", pa.int64())])},
            TargetFailed,
            "has no column new",
        ),
        ([{"id": 3}], {}, AssetJobError, "merge_on takes changes: pass r.triggering_asset_events.changes()"),
        ([insert(3, lsn=9)], {"merge_on": ()}, AssetJobError, "changes are merged by key: name the key's columns"),
    ],
)
def test_what_cannot_be_merged_is_refused_and_changes_nothing(
    kind: Kind, changes: list[Any], options: Any, error: type[Exception], sentence: str
) -> None:
    merge(kind.table("first", 1), [insert(1)])
    with pytest.raises(error) as refused:
        merge(kind.table("second", 1), changes, run=2, **options)
    assert sentence in str(refused.value)
    assert [row[0] for row in contents(kind)] == [1]


def test_new_columns_are_added_when_the_job_says_so(kind: Kind) -> None:
    schema = pa.schema([*SCHEMA, ("new", pa.int64())])
    merge(kind.table("first", 1), [insert(1)])
    merge(
        kind.table("second", 1, evolution="add_columns"),
        [{**insert(2, lsn=2), "row": {"id": 2, "new": 1}}],
        run=2,
        schema=schema,
    )
    assert contents(kind, schema.names) == [(1, 0, 0, None), (2, None, None, 1)]


def test_changes_before_there_is_a_table_are_nothing_if_they_only_delete(kind: Kind) -> None:
    assert merge(kind.table("first", 1), [{"op": "delete", "key": 1, "lsn": "0/1"}]) == 0


def test_what_is_remembered_is_one_file(kind: Kind, tmp_path: Path) -> None:
    for number in range(1, 4):
        merge(kind.table(f"run_{number}", 1), [insert(number, lsn=number)], run=number)
    assert len(list(tmp_path.rglob("_asset_watcher/*"))) == 1


def test_columns_are_inferred_where_nobody_names_their_types(kind: Kind) -> None:
    def types(ddl: str) -> pa.Schema:
        assert ddl == "`a` bigint, `big` string, `id` bigint"
        return pa.schema([("a", pa.int64()), ("big", pa.string()), ("id", pa.int64())])

    rows = changed_rows([{**insert(1), "row": {"id": 1, "a": 2, "big": "0.10"}}], ["id"], {"0/1": 1}, types)
    merged_part(kind.table("first", 1), rows, ())
    assert contents(kind) == [(1, 2, "0.10")]
