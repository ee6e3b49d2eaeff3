"""Simulated histories of rows that move between partition keys: which events name a change, and in what order."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from tests.effort import effort
from triggers.base import TriggerEvent
from triggers.partition_keys import KeyedItems
from triggers.postgres.log.codec import DecodedChange
from triggers.postgres.log.events import bytes_of, events_of
from triggers.postgres.log.keyed_changes import KeyedChange, keys_of_change, parts_in_order
from triggers.postgres.options import NewRowsOptions

OPTIONS = NewRowsOptions.model_validate(
    {"table": "public.t", "mode": "log", "partition": {"k": "k"}, "batch": {"max_rows": 3}}
)
KEYS = ("a", "b", "c", None, "x" * 251)


def expected_key(value: str | None) -> str | None:
    return None if value is None or len(value) > 250 else value


@dataclass
class History:
    """The changes of a table as a log has them, and beside each the keys of the events that must name it."""

    random: Random
    sends_old: bool
    """Whether the row before a change is sent, as with `REPLICA IDENTITY FULL`."""
    rows: dict[int, str | None] = field(default_factory=dict)
    changes: list[KeyedChange] = field(default_factory=list)
    owed: list[set[str | None]] = field(default_factory=list)

    def change(self) -> None:
        random, rows = self.random, self.rows
        key, value = random.randrange(6), random.choice(KEYS)
        op = random.choices(["insert", "update", "rename", "delete", "truncate"], [6, 8, 2, 3, 1])[0]
        before = rows.get(key)
        if op == "truncate":
            rows.clear()
            self._add({"op": op, "key": None}, DecodedChange(), {None})
        elif op == "insert" and key not in rows:
            rows[key] = value
            self._add({"op": op, "key": key}, DecodedChange(key=key, parts=[value]), {expected_key(value)})
        elif op == "delete" and key in rows:
            sent = rows.pop(key) if self.sends_old else rows.pop(key) and None
            self._add({"op": op, "key": key}, DecodedChange(key=key, parts=[sent]), {expected_key(sent)})
        elif op in {"update", "rename"} and key in rows:
            member: dict[str, Any] = {"op": "update", "key": key}
            if op == "rename" and (other := random.randrange(6, 9)) not in rows:
                rows[other] = rows.pop(key)
                member |= {"key": other, "old_key": key}
            rows[member["key"]] = value
            old = [before] if self.sends_old and before != value else None
            left = {expected_key(before)} if self.sends_old else set()
            self._add(member, DecodedChange(parts=[value], old_parts=old), {expected_key(value), *left})

    def _add(self, member: dict[str, Any], decoded: DecodedChange, owed: set[str | None]) -> None:
        member["number"] = len(self.changes)
        self.changes.append(KeyedChange(member=member, size=bytes_of(member), keys=keys_of_change(decoded)))
        self.owed.append(owed)


def batches_of(history: History) -> list[list[TriggerEvent]]:
    """The events of a history that was read in portions of some changes."""
    batches, at = [], 0
    while at < len(history.changes):
        portion = history.changes[at : at + history.random.randint(1, 12)]
        for part in parts_in_order(portion):
            keys = KeyedItems(what="change", remedy="")
            batches.append([*events_of(portion[part], keys, OPTIONS, {})])
        at += len(portion)
    return batches


def changes_of(event: TriggerEvent) -> Any:
    return event.payload["changes"]


def rows_of(change: Any) -> list[int]:
    return [change[name] for name in ("old_key", "key") if change.get(name) is not None]


@pytest.mark.parametrize("sends_old", [True, False])
@pytest.mark.parametrize("seed", range(effort(150, 3000)))
def test_events_name_the_changes_of_their_key_and_keep_the_order_of_each_row(seed: int, sends_old: bool) -> None:
    history = History(Random(seed), sends_old)
    for _ in range(60):
        history.change()
    batches = batches_of(history)
    events = [event for batch in batches for event in batch]

    named: list[set[str | None]] = [set() for _ in history.changes]
    for event in events:
        assert event.count == len(changes_of(event)) <= 3
        for change in changes_of(event):
            number = change["number"]
            assert event.partition_key not in named[number], "each key has it once"
            named[number].add(event.partition_key)
            assert change.get("moved_to", change.get("moved_from", "")) != event.partition_key
    assert named == history.owed

    for batch in batches:
        places = [(event.partition_key is None, event.partition_key or "") for event in batch]
        assert places == sorted(places), "in a batch: keys, null last"

    final = {change["number"]: at for at, event in enumerate(events) for change in changes_of(event)}
    once = [c for at, event in enumerate(events) for c in changes_of(event) if final[c["number"]] == at]
    for row in range(9):
        numbers = [c["number"] for c in once if c["op"] == "truncate" or row in rows_of(c)]
        assert numbers == sorted(numbers), "in the order of the row's changes, whoever reads all events"


def test_an_update_that_moves_a_row_says_so_in_both_events() -> None:
    member: Any = {"op": "update", "key": 7, "lsn": "0/1"}
    keys = keys_of_change(DecodedChange(parts=["b"], old_parts=["a"]))
    change = KeyedChange(member=member, size=bytes_of(member), keys=keys)
    events = [*events_of([change], KeyedItems(what="change", remedy=""), OPTIONS, {})]
    assert [(event.partition_key, changes_of(event), event.payload["keys"]) for event in events] == [
        ("a", [{**member, "moved_to": "b"}], [7]),
        ("b", [{**member, "moved_from": "a"}], [7]),
    ]


def test_rows_that_move_forward_need_no_further_batch() -> None:
    """A table whose rows go from one day to the next is read as fast as others."""
    changes = [
        KeyedChange(member={"op": "update", "key": row}, size=10, keys=(f"day-{day}", f"day-{day + 1}"))
        for row in range(5)
        for day in range(4)
    ]
    assert len([*parts_in_order(changes)]) == 1
    back = [KeyedChange(member={"op": "update", "key": 1}, size=10, keys=(key,)) for key in ("b", "a", "a", "b")]
    assert [*parts_in_order(back)] == [slice(0, 1), slice(1, 4)]


def test_a_change_without_a_key_is_counted() -> None:
    keys = KeyedItems(what="change", remedy="")
    changes = [KeyedChange(member={"op": "delete", "key": number}, size=10) for number in (3, 4)]
    assert {event.partition_key for event in events_of(changes, keys, OPTIONS, {})} == {None}
    [finding] = keys.findings
    assert finding.message == "2 changes have no partition key; the first: 3"
