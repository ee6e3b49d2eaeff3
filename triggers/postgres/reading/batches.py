"""Rows as events, and what a poll read as a batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from triggers.base import JsonObject, JsonValue, Position, RejectedItem, TriggerBatch, TriggerEvent
from triggers.event_assets import OWN, EventTarget, divided
from triggers.partition_keys import LONGEST, KeyedItems
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.reading.progress import ReadProgress
from triggers.postgres.reading.sizes import length_of
from triggers.postgres.table.watched_table import WatchedTable
from triggers.shared.postgres.values import ValueType, parse_rows

ItemName: TypeAlias = tuple[str, str]
"""A rejected item's key as JSON text, and its version."""


class RowNames(Protocol):
    """How events of one mode name their rows."""

    @staticmethod
    def key_of(row: Any) -> JsonValue:
        """Return the row's key as `rejected` lists it."""

    @staticmethod
    def members(rows: Sequence[Any]) -> JsonObject:
        """Return the members of an event's payload that name these rows."""

    @staticmethod
    def sizes(rows: Sequence[Any]) -> Sequence[int]:
        """Return the most bytes that each row takes in those members."""


def events_of(
    names: type[RowNames],
    rows: Sequence[Any],
    options: NewRowsOptions,
    watermark: JsonObject,
    types: Mapping[str, ValueType] = {},
    target: EventTarget = OWN,
) -> Iterator[TriggerEvent]:
    """Yield events as large as the options allow. Where columns are configured, a row's `row` is itself as JSON text."""
    batch = options.batch
    sizes = names.sizes(rows)
    if options.columns:
        sizes = [size + length_of(row["row"]) + 2 for size, row in zip(sizes, rows, strict=True)]
    for part in (rows[limits] for limits in batch.parts(sizes, batch.max_rows)):
        payload = {"table": options.table, "column": options.column, **names.members(part)}
        if options.columns:
            payload["rows"] = parse_rows([row["row"] for row in part], types)
        yield TriggerEvent(
            count=len(part), watermark=watermark, payload=payload, partition_key=target.key, asset=target.asset
        )


class BatchBuilder:
    """Builds the batches of one reader, and remembers which items are rejected so that it can settle them."""

    __slots__ = ("_names", "_progress", "_rejected", "_table", "keys")

    def __init__(self, table: WatchedTable, progress: ReadProgress[Any], names: type[RowNames]) -> None:
        self._table = table
        self._progress = progress
        self._names = names
        self.keys = KeyedItems(
            what="row", remedy=f"give the columns of `partition` values of which a key has at most {LONGEST} characters"
        )
        """The rows that had no partition key although one is configured."""
        self._rejected: dict[str, list[RejectedItem]] = {}
        """The rejected items by their keys as JSON text."""

    def remember_rejected(self, items: Iterable[RejectedItem]) -> None:
        """Settle these items when one of their rows is reported after all."""
        for item in items:
            self._rejected.setdefault(json.dumps(item.key), []).append(item)

    def batch(
        self,
        rows: Sequence[Any],
        watermark: JsonObject,
        *,
        caught_up: bool = True,
        rejected: Sequence[RejectedItem] = (),
        tried: Sequence[RejectedItem] = (),
    ) -> TriggerBatch:
        """Return the rows as events, with a position if there is an event or if the progress is worth a write.

        `rejected` are the rows that cannot be reported. `tried` are items that were rejected earlier and were tried again: those
        that are not among `rejected` are reported or gone, so they are settled. No event names those that are rejected again.
        """
        options, types = self._table.options, self._table.facts.types
        events = [
            event
            for target, some in self._divided(rows)
            for event in events_of(self._names, some, options, watermark, types, target)
        ]
        if rejected and not tried:
            last = [event for event in events[-1:] if event.partition_key is None and event.asset is None]
            events = [*events[: len(events) - len(last)], self._naming(rejected, last, watermark)]
        settled = self._settle(rows, rejected, tried)
        position = self._position(has_moved=bool(events or settled or rejected))
        return TriggerBatch(
            events=events, position=position, caught_up=caught_up, rejected=rejected, settled=[*settled.values()]
        )

    def _divided(self, rows: Sequence[Any]) -> Iterator[tuple[EventTarget, Sequence[Any]]]:
        """Yield the rows by asset, and those of one asset by partition key, null last."""
        options = self._table.options
        if not options.dividing_columns:
            yield from [(OWN, rows)] if rows else []
            return
        placed = ((options.target_of(row["parts"]), row) for row in rows)
        keys = None if options.partition is None else self.keys
        yield from divided(placed, options.further_assets, keys, lambda row: json.dumps(self._names.key_of(row)))

    def _settle(
        self, rows: Sequence[Any], rejected: Sequence[RejectedItem], tried: Sequence[RejectedItem]
    ) -> Mapping[ItemName, RejectedItem]:
        """Return the items that are settled, and remember those that are rejected now."""
        reported: list[RejectedItem] = []
        if self._rejected:
            keys = (json.dumps(self._names.key_of(row)) for row in rows)
            reported = [item for key in keys for item in self._rejected.pop(key, ())]
        rejected_again = {_name(item) for item in rejected}
        settled = {_name(item): item for item in (*reported, *tried)}
        self.remember_rejected(rejected)
        return {name: item for name, item in settled.items() if name not in rejected_again}

    def _position(self, *, has_moved: bool) -> Position | None:
        if has_moved or self._progress.is_worth_a_write():
            return self._progress.position()
        return replace(self._progress.position(), silent=True) if self._progress.needs_silent_write() else None

    def _naming(
        self, rejected: Sequence[RejectedItem], last: Sequence[TriggerEvent], watermark: JsonObject
    ) -> TriggerEvent:
        """Return the last event, or an event without rows, with the keys of the rejected items."""
        options = self._table.options
        nothing: JsonObject = {"rows": []} if options.columns else {}
        payload = {"table": options.table, "column": options.column, **self._names.members([]), **nothing}
        [event] = last or [TriggerEvent(count=0, watermark=watermark, payload=payload)]
        return replace(event, payload={**event.payload, "rejected": [item.key for item in rejected]})


def _name(item: RejectedItem) -> ItemName:
    return json.dumps(item.key), item.version
