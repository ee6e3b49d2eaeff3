"""A table whose source has partition keys, or several assets, is merged by runs of one of them each: against a dict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from asset_job.errors import TargetFailed
from asset_job.events import TriggeringAssetEvents
from asset_job.tables.merge.changes import net_changes
from tests.unit.sdk.test_merge_plans import Target
from triggers.changes.codec import DecodedChange
from triggers.changes.events import bytes_of, events_of
from triggers.changes.keyed_changes import KeyedChange, parts_in_order, targets_of_change
from triggers.changes.options import ChangesOptions
from triggers.partition_keys import KeyedItems

BY_KEY = ChangesOptions.model_validate({"table": "public.t", "partition": {"k": "a"}})
BY_ASSET = ChangesOptions.model_validate({"table": "public.t", "assets": {"column": "a", "of_y": "y", "of_x": "x"}})
Row = dict[str, Any]


@dataclass
class PartitionedSource:
    """A table with the columns id, a and big, whose `a` divides its rows; the server sends the row before a change, or not."""

    random: Random
    sends_old: bool
    options: ChangesOptions = BY_KEY
    rows: dict[int, Row] = field(default_factory=dict)
    changes: list[KeyedChange] = field(default_factory=list)

    def do(self) -> None:
        random, rows = self.random, self.rows
        key, other, value = random.randint(1, 4), random.randint(1, 4), random.choice("xyz")
        truncates = self.options is BY_ASSET  # an event of each asset has it, and of the keys only one
        op = random.choices(["insert", "update", "rename", "delete", "truncate"], [5, 6, 3, 3, truncates])[0]
        member: dict[str, Any] = {"op": op, "key": key, "lsn": f"0/{len(self.changes) + 1:X}"}
        if op == "truncate":
            rows.clear()
            self._add({**member, "key": None}, DecodedChange())
        elif op == "insert" and key not in rows:
            rows[key] = {"id": key, "a": value, "big": random.randint(0, 99)}
            self._add({**member, "row": dict(rows[key])}, DecodedChange(parts=[value]))
        elif op == "delete" and key in rows:
            old = rows.pop(key)
            self._add(member, DecodedChange(parts=[old["a"] if self.sends_old else None]))
        elif op in {"update", "rename"} and key in rows and (op == "update" or other not in rows):
            old = rows.pop(key)
            new = key if op == "update" else other
            keeps = random.random() < 0.3 and not self.sends_old
            rows[new] = {"id": new, "a": value, "big": old["big"] if keeps else random.randint(0, 99)}
            sent = {name: each for name, each in rows[new].items() if not (keeps and name == "big")}
            member |= {"op": "update", "key": new, "row": sent, **({"old_key": key} if new != key else {})}
            member |= {"unchanged": ["big"]} if keeps else {}
            moved = [old["a"]] if self.sends_old and old["a"] != value else None
            self._add(member, DecodedChange(parts=[value], old_parts=moved))

    def _add(self, member: Row, decoded: DecodedChange) -> None:
        targets = targets_of_change(member["op"], decoded, self.options)
        self.changes.append(KeyedChange(member=member, size=bytes_of(member), targets=targets))

    def events(self) -> Iterator[Row]:
        """Events as a run gets them, with ids as the store gives them."""
        at = number = 0
        while at < len(self.changes):
            portion = self.changes[at : at + self.random.randint(1, 8)]
            at += len(portion)
            for part in parts_in_order(portion, self.options.further_assets):
                for event in events_of(portion[part], KeyedItems(what="change", remedy=""), self.options, {}):
                    number += 1
                    extra = {"watcher": "w", **event.payload}
                    asset = event.asset or "t"
                    yield {"id": number, "partition_key": event.partition_key, "extra": extra, "asset": asset}


def sent(events: Sequence[Row]) -> TriggeringAssetEvents:
    by_asset: dict[str, list[Row]] = {}
    for event in events:
        name = event.get("asset", "t")
        asset = {"id": 1, "name": name, "uri": f"x-test:{name}"}
        by_asset.setdefault(name, []).append({**event, "asset": asset, "timestamp": "2026-11-20T00:00:00Z"})
    return TriggeringAssetEvents(by_asset)


def source_of(seed: int, *, sends_old: bool, options: ChangesOptions = BY_KEY) -> PartitionedSource:
    source = PartitionedSource(Random(seed), sends_old, options)
    while len(source.changes) < 14:
        source.do()
    return source


@dataclass
class MergedByRuns(Target):
    """A target whose runs have events of their own ids."""

    ids: dict[str, int] = field(default_factory=dict)

    def take(self, run: int, events: Sequence[Row]) -> None:
        triggering = sent(events)
        self.ids = dict(triggering.ids_by_lsn)
        self.merge(run, triggering.changes())

    def net(self, run: int, changes: Sequence[Row]) -> Any:
        del run
        return net_changes(changes, ["id"], self.ids)


@pytest.mark.parametrize("options", [BY_KEY, BY_ASSET], ids=["keys", "assets"])
def test_one_run_of_all_events_gives_exactly_the_table(options: ChangesOptions) -> None:
    for seed in range(800):
        for sends_old in (True, False):
            source, target = source_of(seed, sends_old=sends_old, options=options), MergedByRuns()
            events = [*source.events()]
            target.take(1, events)
            assert target.by_id() == source.rows, (seed, sends_old)
            lsns = [change["lsn"] for change in sent(events).changes()]
            assert len(lsns) == len({*lsns}), "each change once"


@pytest.mark.parametrize("options", [BY_KEY, BY_ASSET], ids=["keys", "assets"])
def test_a_run_for_each_key_or_asset_gives_exactly_the_table_in_any_order(options: ChangesOptions) -> None:
    """With the whole row before each change nothing is refused."""
    for seed in range(800):
        source = source_of(seed, sends_old=True, options=options)
        of_each: dict[tuple[str | None, str], list[Row]] = {}
        for event in source.events():
            of_each.setdefault((event["partition_key"], event["asset"]), []).append(event)
        runs = list(of_each.values())
        source.random.shuffle(runs)
        target = MergedByRuns()
        for run, events in enumerate(runs):
            target.take(run, events)
        assert target.by_id() == source.rows, (seed, json.dumps(runs))


def test_runs_of_keys_without_the_row_before_give_the_table_or_are_refused() -> None:
    complete = 0
    for seed in range(800):
        source, target = source_of(seed, sends_old=False), MergedByRuns()
        events = [*source.events()]
        try:
            for run, event in enumerate(events):
                target.take(run, [event])
        except TargetFailed:
            continue
        complete += 1
        assert target.by_id() == source.rows, seed
    assert complete > 600


def test_a_row_that_moved_with_its_primary_key_keeps_the_columns_that_only_the_table_has() -> None:
    """Both runs have the change, and each may be the first to apply it."""
    move = {"op": "update", "key": 8, "old_key": 7, "lsn": "0/2", "row": {"id": 8, "a": "b"}}
    later = {"op": "update", "key": 8, "lsn": "0/3", "row": {"id": 8, "a": "b"}}
    left = {"id": 1, "partition_key": "a", "extra": {"changes": [{**move, "moved_to": "b"}]}}
    come = {"id": 2, "partition_key": "b", "extra": {"changes": [{**move, "moved_from": "a"}, later]}}
    for events in ([left, come], [come, left]):
        target = MergedByRuns(rows={"[7]": {"id": 7, "a": "a", "big": 5}})
        for run, event in enumerate(events):
            target.take(run, [event])
        assert target.by_id() == {8: {"id": 8, "a": "b", "big": 5}}
