"""Reads what the metadata database knows of a watcher, so that its events can be judged and its unnamed items explained."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from pydantic_core import from_json
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import now_of
from store.fates import Fate, of_item, of_removed
from store.features.explain import explanations
from store.features.reconcile.event_fates import ReportedEvent
from store.runs import fates
from store.runs.fates import JobRecord
from store.runs.queue import waiting
from triggers.inventories import Inventory, content_text
from watcher.features.explain.beginning import Beginning, beginning_of
from watcher.features.reconcile.comparison import NamedItem
from watcher.features.reconcile.segments import NamedRange
from watcher.triggerer.clients import Hosted


@dataclass(frozen=True, kw_only=True)
class RetentionPeriods:
    """How long events and ended runs are kept."""

    events: timedelta
    runs: timedelta


@dataclass(frozen=True, kw_only=True)
class WatcherEvidence:
    """What decides about events and items of one watcher."""

    beginning: Beginning
    jobs: Mapping[int, Sequence[JobRecord]]
    """The jobs that wait for events of each of these assets."""
    runs_since: datetime
    """Runs that ended earlier may have been removed."""

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
        for number, file in enumerate(extra.get("files", ())):
            own = of_removed(fate, event.removed[number]) if number in event.removed else fate
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
        return [move.at for move in self.beginning.past.moves]


async def evidence_of(
    connection: AsyncConnection, hosted: Hosted, inventory: Inventory[Any], retention: RetentionPeriods
) -> WatcherEvidence:
    """Read the evidence in one snapshot."""
    beginning = await beginning_of(connection, hosted, inventory, retention.events)
    jobs: dict[int, Sequence[JobRecord]] = {}
    for each in beginning.asset_ids:
        scheduled = [job.dag_id for job in await waiting.jobs_scheduled_on(connection, each)]
        deletions = await explanations.deletions_after(connection, each, scheduled, beginning.begun)
        jobs[each] = explanations.records(await fates.unrecorded_to(connection, scheduled), deletions)
    return WatcherEvidence(
        beginning=beginning,
        jobs=jobs,
        runs_since=await now_of(connection) - retention.runs,
    )
