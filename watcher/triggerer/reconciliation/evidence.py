"""Reads what the metadata database knows of a watcher, so that its events can be judged and its unnamed items explained."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from pydantic_core import from_json
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watcher_assets
from store.database.paging import now_of
from store.detection import starts
from store.detection.starts import PositionMove, WatcherPast
from store.runs import explanations, waiting
from store.runs.event_fates import EventWithFate
from store.runs.explanations import QueueDeletion
from store.runs.runs import DELETED
from triggers.inventories import Inventory, NumberedInventory, content_text
from watcher.triggerer.reconciliation.comparison import FateOfEvent, NamedItem, moment
from watcher.triggerer.reconciliation.segments import NamedRange


@dataclass(frozen=True, kw_only=True)
class RetentionPeriods:
    """How long events and ended runs are kept."""

    events: timedelta
    runs: timedelta


@dataclass(frozen=True, kw_only=True)
class WatcherEvidence:
    """What decides about events and items of one watcher."""

    past: WatcherPast
    asset_ids: Sequence[int]
    """The assets of which it has events."""
    last_dequeued: datetime | None
    """When people last took events off a queue of the assets' jobs."""
    runs_since: datetime
    """Runs that ended earlier may have been removed."""
    passed_before: int | None
    kept_since: int | None
    doubts: Sequence[str]
    """Why some item may be judged wrongly, in sentences."""

    def fate_of(self, event: EventWithFate) -> FateOfEvent:
        if "success" in event.runs:
            return "loaded"
        if "running" not in event.runs and "failed" in event.runs:
            return "failed"
        if event.runs - {DELETED} or event.is_queued:
            return "open"
        if DELETED in event.runs or (self.last_dequeued is not None and event.timestamp <= self.last_dequeued):
            return "dequeued"
        return "past_retention" if event.timestamp < self.runs_since else "open"

    def named_by(self, event: EventWithFate) -> Iterator[NamedItem]:
        """Yield the items that an event names."""
        extra: Mapping[str, Any] = from_json(event.extra)
        generation, fate = self._generation_of(event), self.fate_of(event)
        for file in extra.get("files", ()):
            yield NamedItem(str(file.get("key") or file.get("path")), event.id, content_text(file), generation, fate)

    def ranges_of(self, event: EventWithFate) -> Iterator[NamedRange]:
        """Yield the ranges of numbers that an event names."""
        fate, generation = self.fate_of(event), self._generation_of(event)
        for low, high in from_json(event.extra).get("ranges", ()):
            yield NamedRange(low, high, event.id, generation, fate)

    def _generation_of(self, event: EventWithFate) -> int:
        return bisect(self._moved_at, event.timestamp)

    @cached_property
    def _moved_at(self) -> Sequence[datetime]:
        return [move.at for move in self.past.moves]


async def evidence_of(
    connection: AsyncConnection, watcher: str, asset_id: int, inventory: Inventory[Any], retention: RetentionPeriods
) -> WatcherEvidence:
    """Read the evidence in one snapshot. The watcher's watermark stands under the asset."""
    past, now = await starts.past_of(connection, watcher), await now_of(connection)
    asset_ids = await watcher_assets.assets_of(connection, past.names)
    begun = min([await explanations.begun_at(connection, each) for each in asset_ids])
    deletions: list[QueueDeletion] = []
    for each in asset_ids:
        scheduled = [job.dag_id for job in await waiting.jobs_scheduled_on(connection, each)]
        deletions += await explanations.deletions_after(connection, each, scheduled, begun)
    events_since = now - retention.events
    start: Any = inventory.start
    move, doubts = past.last_move, list[str]()
    if move is not None:
        start = inventory.place_of(move.to or "")
    if start == "all":
        passed_before = None
    elif start == "now":
        passed_before, doubts = await _passed_before(connection, asset_id, asset_ids, past.names, move, inventory)
    else:
        passed_before = start
    return WatcherEvidence(
        past=past,
        asset_ids=asset_ids,
        last_dequeued=max((deletion.at for deletion in deletions), default=None),
        runs_since=now - retention.runs,
        passed_before=passed_before,
        kept_since=moment(events_since) if begun < events_since else None,
        doubts=doubts,
    )


async def _passed_before(
    connection: AsyncConnection,
    asset_id: int,
    asset_ids: Sequence[int],
    names: Collection[str],
    move: PositionMove | None,
    inventory: Inventory[Any],
) -> tuple[int | None, list[str]]:
    """Return the moment before which a start at `now` passes over what is there, and what is doubtful about it."""
    since = None if move is None else move.at
    for watermark in await starts.watermarks_after(connection, asset_id, names, since):
        if (began := inventory.begins_at(watermark)) is not None:
            return began, []
    first = await starts.first_event_at(connection, asset_ids, names, since) or await now_of(connection)
    if isinstance(inventory, NumberedInventory):
        return None, [
            "the history of the watermark does not go back to the watcher's start, so rows that were there before count as lost"
        ]
    doubt = (
        "the history of the watermark does not go back to the watcher's start, so what was written before"
        f" {first.replace(microsecond=0, tzinfo=None).isoformat()}Z and no event names counts as before the start"
    )
    return moment(first), [doubt]
