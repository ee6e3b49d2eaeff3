"""Reads what the metadata database knows of a watcher, so that its events can be judged and its unnamed items explained."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

import structlog
from pydantic_core import from_json
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import watcher_assets
from store.database.paging import now_of
from store.detection import starts
from store.detection.starts import PositionMove, WatcherPast
from store.fates import Fate, of_item
from store.runs import explanations, fates, waiting
from store.runs.event_fates import ReportedEvent
from store.runs.fates import JobRecord
from triggers.base import refuse_errors
from triggers.inventories import Inventory, NumberedInventory, content_text
from watcher.host.containment import sentence
from watcher.triggerer.clients import Clients, Hosted, open_trigger
from watcher.triggerer.reconciliation.comparison import NamedItem, moment
from watcher.triggerer.reconciliation.segments import NamedRange

_ABOVE_ALL_IDS: Final = 2**63
log = structlog.get_logger()


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
    jobs: Mapping[int, Sequence[JobRecord]]
    """The jobs that wait for events of each of these assets."""
    runs_since: datetime
    """Runs that ended earlier may have been removed."""
    passed_before: int | None
    kept_since: int | None
    fate_of_cleaned: Fate
    doubts: Sequence[str]
    """Why some item may be judged wrongly, in sentences."""

    def fate_of(self, event: ReportedEvent) -> Fate:
        """Return what became of an event at its jobs together: it is loaded if one of them has loaded it."""
        if Fate.LOADED in event.at_jobs.values():
            return Fate.LOADED
        elsewhere = [job for job in self.jobs[event.asset_id] if job.dag_id not in event.at_jobs]
        unrecorded = [job.fate_of(event.id, event.timestamp, self.runs_since) for job in elsewhere]
        return of_item([*event.at_jobs.values(), *unrecorded])

    def named_by(self, event: ReportedEvent) -> Iterator[NamedItem]:
        """Yield the items that an event names."""
        extra: Mapping[str, Any] = from_json(event.extra)
        generation, fate = self._generation_of(event), self.fate_of(event)
        files, cleaning = extra.get("files", ()), event.cleaning
        for number, file in enumerate(files):
            is_removed = cleaning is not None and fate is Fate.LOADED and cleaning.has_removed(number, len(files))
            own = self.fate_of_cleaned if is_removed else fate
            yield NamedItem(str(file.get("key") or file.get("path")), event.id, content_text(file), generation, own)

    def ranges_of(self, event: ReportedEvent) -> Iterator[NamedRange]:
        """Yield the ranges of numbers that an event names."""
        fate, generation = self.fate_of(event), self._generation_of(event)
        for low, high in from_json(event.extra).get("ranges", ()):
            yield NamedRange(low, high, event.id, generation, fate)

    def _generation_of(self, event: ReportedEvent) -> int:
        return bisect(self._moved_at, event.timestamp)

    @cached_property
    def _moved_at(self) -> Sequence[datetime]:
        return [move.at for move in self.past.moves]


async def evidence_of(
    connection: AsyncConnection, hosted: Hosted, inventory: Inventory[Any], retention: RetentionPeriods
) -> WatcherEvidence:
    """Read the evidence in one snapshot."""
    past, now = await starts.past_of(connection, hosted.name), await now_of(connection)
    asset_ids = await watcher_assets.assets_of(connection, past.names)
    begun = min([await explanations.begun_at(connection, each) for each in asset_ids])
    jobs: dict[int, Sequence[JobRecord]] = {}
    for each in asset_ids:
        scheduled = [job.dag_id for job in await waiting.jobs_scheduled_on(connection, each)]
        deletions = await explanations.deletions_after(connection, each, scheduled, begun)
        jobs[each] = explanations.records(await fates.unrecorded_to(connection, scheduled), deletions)
    events_since = now - retention.events
    start: Any = inventory.start
    move, doubts = past.last_move, list[str]()
    if move is not None:
        start = inventory.place_of(move.to or "")
    if start == "all":
        passed_before = None
    elif start == "now":
        passed_before, doubts = await _passed_before(
            connection, hosted.asset_id, asset_ids, past.names, move, inventory
        )
    else:
        passed_before = start
    return WatcherEvidence(
        past=past,
        asset_ids=asset_ids,
        jobs=jobs,
        runs_since=now - retention.runs,
        passed_before=passed_before,
        kept_since=moment(events_since) if begun < events_since else None,
        fate_of_cleaned=hosted.fate_of_cleaned,
        doubts=doubts,
    )


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """Bounds of what a watcher owes an event for: what each item of its source is that no event names, by `store.fates.without_event`."""

    passed_before: int | None
    kept_since: int | None


async def inventory_of(hosted: Hosted, clients: Clients) -> Inventory[Any] | None:
    """Return how a watcher's trigger shows its source. None: it cannot, or its source does not answer."""
    try:
        made = open_trigger(hosted, clients, timedelta(minutes=5), has_position=True, dry_run=True)
        async with made as trigger:
            refuse_errors(await trigger.check())
            return trigger.inventory()
    except Exception as error:  # noqa: BLE001  a plug-in may raise anything, and the question has an answer without it
        log.info("watcher.not_listed", watcher=hosted.name, error=sentence(error))
        return None


async def beginning_of(connection: AsyncConnection, evidence: WatcherEvidence, inventory: Inventory[Any]) -> Beginning:
    """Return the bounds for one item; of rows by id, numbers below the oldest event's may be forgotten."""
    kept_since = evidence.kept_since
    if kept_since is not None and isinstance(inventory, NumberedInventory):
        extra = await starts.oldest_extra(connection, evidence.asset_ids, evidence.past.names)
        lows = [low for low, _ in from_json(extra or "{}").get("ranges", ())]
        kept_since = min(lows, default=_ABOVE_ALL_IDS)
    return Beginning(passed_before=evidence.passed_before, kept_since=kept_since)


async def _passed_before(
    connection: AsyncConnection,
    asset_id: int,
    asset_ids: Sequence[int],
    names: Collection[str],
    move: PositionMove | None,
    inventory: Inventory[Any],
) -> tuple[int | None, list[str]]:
    """Return the moment before which a start at `now` passes over what is there, and what is doubtful about it.

    The watcher's watermark stands under the asset.
    """
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
