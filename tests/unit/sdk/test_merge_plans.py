"""What merges leave of a table, whatever the order and the number of times in which runs are applied: against a dict."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from asset_job.errors import NoRetry, TargetFailed
from asset_job.tables.merge import merge_plan
from asset_job.tables.merge.changes import NetChanges, net_changes
from asset_job.tables.merge.merge_plan import MergeMemory, plan_merge

Row = dict[str, Any]
Change = dict[str, Any]


@dataclass
class Source:
    """A table of a database, which writes down its changes. It knows nothing of merges."""

    rows: dict[int, Row] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def do(self, op: str, key: int, other: int, value: int, *, keeps: bool) -> None:
        lsn = f"0/{len(self.changes) // 2 + 1:X}"  # two changes a transaction
        if op == "truncate":
            self.rows.clear()
            self.changes.append({"op": "truncate", "lsn": lsn})
        elif op == "delete" and key in self.rows:
            del self.rows[key]
            self.changes.append({"op": "delete", "key": key, "lsn": lsn})
        elif op == "insert" and key not in self.rows:
            self.rows[key] = {"id": key, "a": value, "big": value}
            self.changes.append({"op": "insert", "key": key, "lsn": lsn, "row": dict(self.rows[key])})
        elif op in {"update", "move"} and key in self.rows and (op == "update" or other not in self.rows):
            new = key if op == "update" else other
            row = self.rows.pop(key)
            self.rows[new] = {"id": new, "a": value, "big": row["big"] if keeps else value}
            sent = {name: each for name, each in self.rows[new].items() if not (keeps and name == "big")}
            change = {"op": "update", "key": new, "lsn": lsn, "row": sent, "unchanged": ["big"] if keeps else []}
            self.changes.append({**change, "old_key": key} if new != key else change)


def source_of(random: Random, changes: int, *, keys: int = 3) -> Source:
    source = Source()
    while len(source.changes) < changes:
        op = random.choices(["insert", "update", "move", "delete", "truncate"], [6, 6, 3, 3, 1])[0]
        key, other = random.randint(1, keys), random.randint(1, keys)
        source.do(op, key, other, random.randint(0, 99), keeps=random.random() < 0.5)
    return source


def of_event(number: int, changes: Sequence[Change]) -> dict[str, int]:
    """All changes in one event with this id."""
    return {each["lsn"]: number for each in changes if "lsn" in each}


@dataclass
class Target:
    """A table that does what plans say, as simply as possible."""

    rows: dict[str, Row] = field(default_factory=dict)
    memory: MergeMemory = field(default_factory=MergeMemory)
    recorded: set[int] = field(default_factory=set)

    def merge(self, run: int, changes: Sequence[Change]) -> None:
        plan = plan_merge(
            self.net(run, changes),
            self.memory,
            recorded=run in self.recorded,
            target="the table",
        )
        before, after = self.rows, {k: row for k, row in self.rows.items() if not plan.empties or k in plan.newer}
        for text, change in plan.writes.items():
            after.pop(text, None)
            if change.row is not None:
                base = before.get(json.dumps(list(change.base)), {}) if change.base else {}
                if missing := change.inherited - base.keys():
                    raise TargetFailed(f"the row lacks {missing}")
                after[text] = {**dict.fromkeys(("id", "a", "big")), **base, **change.row}
        self.rows, self.memory = after, MergeMemory.from_bytes(plan.memory.to_bytes())
        self.recorded.add(run)

    def net(self, run: int, changes: Sequence[Change]) -> NetChanges:
        return net_changes(changes, ["id"], of_event(run, changes))

    def by_id(self) -> dict[int, Row]:
        return {row["id"]: row for row in self.rows.values()}


def runs_of(random: Random, source: Source, runs: int) -> dict[int, list[Change]]:
    cuts = sorted(random.sample(range(1, len(source.changes)), runs - 1))
    ends = [0, *cuts, len(source.changes)]
    return {number: source.changes[low:high] for number, (low, high) in enumerate(itertools.pairwise(ends), 1)}


SEEDS = range(1500)


def test_runs_in_their_order_give_exactly_the_table_and_repeated_ones_change_nothing() -> None:
    for seed in SEEDS:
        random = Random(seed)
        source, target = source_of(random, 12), Target()
        runs = runs_of(random, source, 4)
        for number in runs:
            target.merge(number, runs[number])
            before = target.by_id()
            for again in random.sample(range(1, number + 1), random.randint(0, number)):
                target.merge(again, runs[again])
                assert target.by_id() == before, seed
        assert target.by_id() == source.rows, seed


def test_runs_in_any_order_give_exactly_the_table_or_are_refused() -> None:
    complete = 0
    for seed in SEEDS:
        random = Random(seed)
        source, target = source_of(random, 8), Target()
        runs = runs_of(random, source, 3)
        waiting, refused = random.sample(list(runs), 3), 0
        while waiting and refused < len(waiting):
            number = waiting.pop(0)
            before = target.by_id()
            try:
                target.merge(number, runs[number])
                refused = 0
            except TargetFailed:
                assert target.by_id() == before
                waiting.append(number)
                refused += 1
        if not waiting:
            complete += 1
            assert target.by_id() == source.rows, seed
    assert complete > len(SEEDS) * 0.9


def test_a_table_that_has_forgotten_keys_refuses_what_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_plan, "MOST_KEYS", 1)
    complete = 0
    for seed in SEEDS:
        random = Random(seed)
        source, target = source_of(random, 8), Target()
        runs = runs_of(random, source, 3)
        for number in random.sample(list(runs), 3):
            with contextlib.suppress(TargetFailed):
                target.merge(number, runs[number])
        before = target.by_id()
        for number in target.recorded:
            target.merge(number, runs[number])
            assert target.by_id() == before, seed
        if len(target.recorded) == len(runs):
            complete += 1
            assert target.by_id() == source.rows, seed
    assert 0 < complete < len(SEEDS)


def change(**members: Any) -> Change:
    return {"op": "insert", "key": 1, "lsn": "0/1", "row": {"id": 1}, **members}


@pytest.mark.parametrize(
    ("given_change", "merge_on", "sentence"),
    [
        (change(row=None), ["id"], "has no row: name the table's columns by the watcher's `columns`"),
        (change(key=[1, 2]), ["id"], "the events' keys have 2 columns: correct merge_on"),
        (change(row={"id": 2}), ["id"], "the row with the key [1] has another id"),
        (change(op="upsert"), ["id"], "a change has the op 'upsert'"),
    ],
)
def test_changes_that_cannot_be_merged_are_refused(given_change: Change, merge_on: list[str], sentence: str) -> None:
    with pytest.raises(NoRetry) as refused:
        net_changes([given_change], merge_on, of_event(1, [given_change]))
    assert sentence in str(refused.value)


def test_lsns_are_ordered_as_numbers() -> None:
    first, second = change(lsn="0/FFFFFFFF"), change(op="delete", lsn="10/0")
    late = Target()
    late.merge(2, [second])
    late.merge(1, [first])
    assert late.by_id() == {}


def test_overlapping_transactions_are_merged_in_the_order_of_their_events() -> None:
    """A transaction that commits last has written its changes before that of another: its LSNs are lower."""
    target = Target()
    target.merge(1, [change(key=1, lsn="0/10", row={"id": 1, "a": 1, "big": 1})])
    target.merge(2, [change(op="update", key=1, lsn="0/30", row={"id": 1, "a": 2}, unchanged=["big"])])
    target.merge(3, [change(key=2, lsn="0/20", row={"id": 2, "a": 3, "big": 3})])
    assert target.by_id() == {1: {"id": 1, "a": 2, "big": 1}, 2: {"id": 2, "a": 3, "big": 3}}


@pytest.mark.parametrize(("event", "lsn"), [(9, "0/5"), (1, "0/20")])
def test_a_restored_source_or_metadata_database_is_named(event: int, lsn: str) -> None:
    target = Target(memory=MergeMemory(keys={"[1]": (5, 0x10)}))
    with pytest.raises(
        TargetFailed, match=r"the key \[1\] that is newer by its LSN or by its event, and older by the other"
    ):
        target.merge(event, [change(lsn=lsn)])
