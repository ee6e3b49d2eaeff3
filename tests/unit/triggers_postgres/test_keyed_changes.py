"""Simulated histories of rows that move between partition keys: which events name a change, and in what order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.effort import effort
from triggers.base import TriggerEvent
from triggers.changes.codec import DecodedChange
from triggers.changes.events import bytes_of, events_of
from triggers.changes.keyed_changes import KeyedChange, parts_in_order, targets_of_change
from triggers.changes.options import ChangesOptions
from triggers.event_assets import EventTarget
from triggers.partition_keys import KeyedItems

OPTIONS = ChangesOptions.model_validate({"table": "public.t", "partition": {"k": "k"}, "batch": {"max_rows": 3}})
SEVERAL = ChangesOptions.model_validate(
    {
        "table": "public.t",
        "partition": {"k": "k"},
        "batch": {"max_rows": 3},
        "assets": {"column": "kind", "orders": "o", "refunds": ["r", "s"]},
    }
)
ASSET_OF = {"o": "orders", "r": "refunds", "s": "refunds"}
KINDS = ("o", "r", "s", "other", None)
KEYS = ("a", "b", "c", None, "x" * 251)
Values = tuple[str | None, str | None]
"""The kind of a row, and its part of the partition key."""


def expected(values: Values, options: ChangesOptions) -> EventTarget:
    kind, key = values
    asset = None if options.assets is None else ASSET_OF.get(kind or "")
    return EventTarget(asset, None if key is None or len(key) > 250 else key)


@dataclass
class History:
    """The changes of a table as a log has them, and beside each the targets of the events that must name it."""

    random: Random
    sends_old: bool
    """Whether the row before a change is sent, as with `REPLICA IDENTITY FULL`."""
    options: ChangesOptions
    rows: dict[int, Values] = field(default_factory=dict)
    changes: list[KeyedChange] = field(default_factory=list)
    owed: list[set[EventTarget]] = field(default_factory=list)

    def change(self) -> None:
        random, rows, options = self.random, self.rows, self.options
        key, values = random.randrange(6), (random.choice(KINDS), random.choice(KEYS))
        op = random.choices(["insert", "update", "rename", "delete", "truncate"], [6, 8, 2, 3, 1])[0]
        before = rows.get(key)
        if op == "truncate":
            rows.clear()
            every = {EventTarget(asset) for asset in (*options.further_assets, None)}
            self._add({"op": op, "key": None}, DecodedChange(), every)
        elif op == "insert" and key not in rows:
            rows[key] = values
            self._add({"op": op, "key": key}, DecodedChange(parts=self._parts(values)), {expected(values, options)})
        elif op == "delete" and before is not None:
            sent = before if self.sends_old else (None, None)
            del rows[key]
            self._add({"op": op, "key": key}, DecodedChange(parts=self._parts(sent)), {expected(sent, options)})
        elif op in {"update", "rename"} and before is not None:
            member: dict[str, Any] = {"op": "update", "key": key}
            if op == "rename" and (other := random.randrange(6, 9)) not in rows:
                rows[other] = rows.pop(key)
                member |= {"key": other, "old_key": key}
            rows[member["key"]] = values
            old = self._parts(before) if self.sends_old and before != values else None
            left = {expected(before, options)} if self.sends_old else set()
            self._add(
                member,
                DecodedChange(parts=self._parts(values), old_parts=old),
                {expected(values, options), *left},
            )

    def _parts(self, values: Values) -> list[str | None]:
        return [values[1]] if self.options.assets is None else [*values]

    def _add(self, member: dict[str, Any], decoded: DecodedChange, owed: set[EventTarget]) -> None:
        member["number"] = len(self.changes)
        targets = targets_of_change(member["op"], decoded, self.options)
        self.changes.append(KeyedChange(member=member, size=bytes_of(member), targets=targets))
        self.owed.append(owed)


def batches_of(history: History) -> list[list[TriggerEvent]]:
    """The events of a history that was read in portions of some changes."""
    batches, at = [], 0
    while at < len(history.changes):
        portion = history.changes[at : at + history.random.randint(1, 12)]
        for part in parts_in_order(portion, history.options.further_assets):
            keys = KeyedItems(what="change", remedy="")
            batches.append([*events_of(portion[part], keys, history.options, {})])
        at += len(portion)
    return batches


def changes_of(event: TriggerEvent) -> Any:
    return event.payload["changes"]


def rows_of(change: Any) -> list[int]:
    return [change[name] for name in ("old_key", "key") if change.get(name) is not None]


@pytest.mark.parametrize("options", [OPTIONS, SEVERAL], ids=["one asset", "several assets"])
@pytest.mark.parametrize("sends_old", [True, False])
@pytest.mark.parametrize("seed", range(effort(100, 3000)))
def test_events_name_the_changes_of_their_key_and_keep_the_order_of_each_row(
    seed: int, sends_old: bool, options: ChangesOptions
) -> None:
    history = History(Random(seed), sends_old, options)
    for _ in range(60):
        history.change()
    batches = batches_of(history)
    events = [event for batch in batches for event in batch]

    named: list[set[EventTarget]] = [set() for _ in history.changes]
    for event in events:
        assert event.count == len(changes_of(event)) <= 3
        here = EventTarget(event.asset, event.partition_key)
        for change in changes_of(event):
            number = change["number"]
            assert here not in named[number], "each target has it once"
            named[number].add(here)
            assert change.get("moved_to", change.get("moved_from", "")) != here.key
            assert change.get("moved_to_asset", change.get("moved_from_asset", "")) != here.asset
    assert named == history.owed

    order = (*options.further_assets, None)
    for batch in batches:
        places = [(order.index(event.asset), event.partition_key is None, event.partition_key or "") for event in batch]
        assert places == sorted(places), "in a batch: assets, and keys, null last"

    for asset in order:
        assert_in_order([event for event in events if event.asset == asset])
    assert_in_order(events)


def assert_in_order(events: Sequence[TriggerEvent]) -> None:
    """Assert that whoever reads these events gets each row's changes in their order, the last copy of each counted."""
    last = {change["number"]: at for at, event in enumerate(events) for change in changes_of(event)}
    once = [c for at, event in enumerate(events) for c in changes_of(event) if last[c["number"]] == at]
    for row in range(9):
        numbers = [c["number"] for c in once if c["op"] == "truncate" or row in rows_of(c)]
        assert numbers == sorted(numbers)


def test_an_update_that_moves_a_row_says_so_in_both_events() -> None:
    member: Any = {"op": "update", "key": 7, "lsn": "0/1"}
    targets = targets_of_change("update", DecodedChange(parts=["b"], old_parts=["a"]), OPTIONS)
    change = KeyedChange(member=member, size=bytes_of(member), targets=targets)
    events = [*events_of([change], KeyedItems(what="change", remedy=""), OPTIONS, {})]
    assert [(event.partition_key, changes_of(event), event.payload["keys"]) for event in events] == [
        ("a", [{**member, "moved_to": "b"}], [7]),
        ("b", [{**member, "moved_from": "a"}], [7]),
    ]


def test_an_update_that_moves_a_row_to_another_asset_says_so_in_the_events_of_both() -> None:
    member: Any = {"op": "update", "key": 7, "lsn": "0/1"}
    moved = DecodedChange(parts=["r", "a"], old_parts=["other", "a"])
    change = KeyedChange(member=member, size=0, targets=targets_of_change("update", moved, SEVERAL))
    events = [*events_of([change], KeyedItems(what="change", remedy=""), SEVERAL, {})]
    assert [(event.asset, event.partition_key, changes_of(event)) for event in events] == [
        ("refunds", "a", [{**member, "moved_from_asset": None}]),
        (None, "a", [{**member, "moved_to_asset": "refunds"}]),
    ]


def test_rows_that_move_forward_need_no_further_batch() -> None:
    """A table whose rows go from one day to the next is read as fast as others."""
    changes = [
        KeyedChange(
            member={"op": "update", "key": row},
            size=10,
            targets=[EventTarget(key=f"day-{day}"), EventTarget(key=f"day-{day + 1}")],
        )
        for row in range(5)
        for day in range(4)
    ]
    assert len([*parts_in_order(changes, ())]) == 1
    back = [
        KeyedChange(member={"op": "update", "key": 1}, size=10, targets=[EventTarget(key=key)])
        for key in ("b", "a", "a", "b")
    ]
    assert [*parts_in_order(back, ())] == [slice(0, 1), slice(1, 4)]


def test_a_change_without_a_key_is_counted() -> None:
    keys = KeyedItems(what="change", remedy="")
    changes = [KeyedChange(member={"op": "delete", "key": number}, size=10) for number in (3, 4)]
    assert {event.partition_key for event in events_of(changes, keys, OPTIONS, {})} == {None}
    [finding] = keys.findings
    assert finding.message == "2 changes have no partition key; the first: 3"
