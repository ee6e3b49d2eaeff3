"""Reconciles a watcher: lists its source as it is now, reads its events as they are now, and compares both. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import anyio
from anyio.to_thread import run_sync

from store.database import Database
from store.detection import position_rows, positions
from store.errors import InvalidValue
from store.features.reconcile import event_fates
from store.features.reconcile.event_fates import ReportedEvent
from triggers.base import StoredPosition, refuse_errors
from triggers.inventories import ListedInventory, Lists, NumberedInventory
from watcher.features.reconcile.comparison import (
    SEVEREST_FIRST,
    ComparisonRules,
    Difference,
    compare,
    moment,
)
from watcher.features.reconcile.evidence import RetentionPeriods, WatcherEvidence, evidence_of
from watcher.features.reconcile.numbered import NumberedComparison
from watcher.features.reconcile.result import FoundDifference, Reconciled, ReconcileProgress, ReconcileRange
from watcher.features.reconcile.scratch import ScratchFile, scratch_file
from watcher.features.reconcile.segments import UnnamedRules, segments
from watcher.host.containment import leaves
from watcher.triggerer.clients import Clients, Hosted, open_trigger
from watcher.triggerer.committing import identity_of, stored
from watcher.triggerer.open_triggers import OpenTrigger

MOST_EVENTS: Final = 10_000
"""The most events that are read at once."""
MOST_CHARACTERS: Final = 4_000_000
"""About as many characters of events are read at once, if they are larger than the ones before they may be more."""


@dataclass(frozen=True, kw_only=True)
class Reconciler:
    """Compares one watcher's source with its events. `folder` is where both sides are sorted."""

    database: Database
    clients: Clients
    retention: RetentionPeriods
    folder: Path

    async def reconcile(self, hosted: Hosted, asked: ReconcileRange, progress: ReconcileProgress) -> Reconciled:
        """Compare. Raises `InvalidValue` for a trigger that cannot list its source, and what the source raises."""
        made = open_trigger(hosted, self.clients, timedelta(minutes=5), has_position=True, dry_run=True)
        async with made as trigger:
            refuse_errors(await trigger.check())
            lists = trigger.ability(Lists)
            inventory = None if lists is None else lists.inventory()
            if not isinstance(inventory, ListedInventory | NumberedInventory):
                why = "its trigger cannot list its source"
                if not hosted.trigger.is_here:
                    why = "its trigger runs in a process of its own; write `isolation: none`"
                raise InvalidValue(f"{hosted.name} cannot be reconciled: {why}")
            doubts = await self._doubts(trigger, hosted)
            with scratch_file(self.folder) as scratch:
                if isinstance(inventory, NumberedInventory):
                    return await self._numbered(hosted, inventory, asked, progress, scratch, doubts)
                return await self._listed(hosted, inventory, asked, progress, scratch, doubts)

    async def _doubts(self, trigger: OpenTrigger, hosted: Hosted) -> Sequence[str]:
        async with self.database.reading() as connection:
            loaded = await positions.read_without_rows(connection, hosted.name)
        if loaded is None or loaded.source_identity is None:
            return ["the watcher has no position yet"]
        if await identity_of(trigger, loaded) == loaded.source_identity:
            return []
        return ["the position belongs to another source or selection, until `watcher rewind` decides"]

    async def _listed(
        self,
        hosted: Hosted,
        inventory: ListedInventory[StoredPosition],
        asked: ReconcileRange,
        progress: ReconcileProgress,
        scratch: ScratchFile,
        doubts: Sequence[str],
    ) -> Reconciled:
        async with self.database.reading() as connection:
            last_event = await event_fates.last_event(connection)
        began = await self._list(hosted.name, inventory, progress, scratch)
        async with self.database.reading() as connection:
            evidence = await evidence_of(connection, hosted, inventory, self.retention)
        add = partial(_add_items, scratch, evidence)
        await self._read_events(evidence, progress, add)
        rules = ComparisonRules(
            began=began,
            last_event=last_event,
            passed_before=evidence.beginning.passed_before,
            kept_since=evidence.beginning.kept_since,
            since=moment(asked.since),
            until=moment(asked.until),
            selects=inventory.selects,
        )
        result = await run_sync(_counted, scratch, rules, asked.limit)
        result.doubts, result.beginning = [*doubts, *evidence.beginning.doubts], evidence.beginning
        return result

    async def _numbered(
        self,
        hosted: Hosted,
        inventory: NumberedInventory[StoredPosition],
        asked: ReconcileRange,
        progress: ReconcileProgress,
        scratch: ScratchFile,
        doubts: Sequence[str],
    ) -> Reconciled:
        """Compare by ranges of numbers. The position is read first: what it is past is named by the events read after it."""
        if asked.since is not None or asked.until is not None:
            raise InvalidValue(f"the rows of {hosted.name} have ids and no times; leave out `since` and `until`")
        async with self.database.reading() as connection:
            loaded = await positions.read(connection, hosted.name)
            evidence = await evidence_of(connection, hosted, inventory, self.retention)
        position = None if loaded is None else stored(loaded)
        rejected = [] if position is None else [item.key for item in position.rejected if isinstance(item.key, int)]
        limits = await inventory.limits(rejected)
        await self._read_events(evidence, progress, partial(_add_ranges, scratch, evidence))
        limits, waiting = limits or (0, -1), inventory.waiting(position)
        rules = UnnamedRules(
            limits=limits,
            waiting=waiting or (),
            passed_below=evidence.beginning.passed_before if waiting is not None else limits[1] + 1,
            forgotten_below=evidence.beginning.kept_since,
        )
        comparison = NumberedComparison(inventory=inventory, without=rejected, limit=asked.limit, progress=progress)
        comparison.reject(rejected)
        result = await comparison.compare(segments(scratch.ranges(), rules))
        result.doubts = [*doubts, *evidence.beginning.doubts, *_broken(hosted.name, comparison.lowest_lost)]
        result.beginning = evidence.beginning
        return result

    async def _list(
        self, name: str, inventory: ListedInventory[StoredPosition], progress: ReconcileProgress, scratch: ScratchFile
    ) -> int:
        """List the source, and return when that began, by the source's clock."""

        async def position_of(members: Collection[int]) -> StoredPosition | None:
            async with self.database.reading() as connection:
                loaded = await positions.read_without_rows(connection, name)
                rows = await position_rows.members_of(connection, name, members)
            position = None if loaded is None else stored(loaded)
            return None if position is None else StoredPosition(state=position.state, rows=rows)

        began: int | None = None
        pages = inventory.pages(position_of)
        async with aclosing(pages):
            async for clock, items in pages:
                began = clock if began is None else began
                await run_sync(scratch.add_listed, items)
                progress.listed += len(items)
        assert began is not None  # noqa: S101  every listing has a page
        return began

    async def _read_events(
        self,
        evidence: WatcherEvidence,
        progress: ReconcileProgress,
        add: Callable[[Sequence[ReportedEvent]], None],
    ) -> None:
        """Read the events after the source, so that they name all that the position had passed when it was listed.

        The next ones are read while those before them are added.
        """
        for asset_id in evidence.beginning.asset_ids:
            events = await self._events_after(evidence, asset_id, 0, MOST_EVENTS // 100)
            while events:
                characters = sum(len(event.extra) for event in events)
                size = max(1, min(MOST_EVENTS, MOST_CHARACTERS * len(events) // characters))
                try:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(run_sync, add, events)
                        progress.events += len(events)
                        events = await self._events_after(evidence, asset_id, events[-1].id, size)
                except ExceptionGroup as group:
                    raise leaves(group)[0] from None

    async def _events_after(
        self, evidence: WatcherEvidence, asset_id: int, after: int, size: int
    ) -> Sequence[ReportedEvent]:
        async with self.database.reading() as connection:
            return await event_fates.events_after(
                connection, asset_id, evidence.beginning.past.names, after, limit=size
            )


def _broken(watcher: str, lowest: int | None) -> Sequence[str]:
    """Return why a comparison of rows by id is not exact if the position is past ids that no event names, from `lowest` on."""
    if lowest is None:
        return ()
    broken = f"from id {lowest} on the position is past ids that no event names, so a condition of exact detection was broken"
    again = f"`watcher rewind {watcher} --to {lowest - 1}` reports what lies above again"
    return [f"{broken} (docs/postgres.md), or their event was deleted; {again}"]


def _add_items(scratch: ScratchFile, evidence: WatcherEvidence, events: Sequence[ReportedEvent]) -> None:
    scratch.add_named(chain.from_iterable(map(evidence.named_by, events)))


def _add_ranges(scratch: ScratchFile, evidence: WatcherEvidence, events: Sequence[ReportedEvent]) -> None:
    scratch.add_ranges(chain.from_iterable(map(evidence.ranges_of, events)))


def _counted(scratch: ScratchFile, rules: ComparisonRules, limit: int) -> Reconciled:
    """Compare both sides. The first items of each kind are named, as many as the limit allows, the severest kinds first."""
    result = Reconciled()
    items: dict[Difference, list[FoundDifference]] = {kind: [] for kind in SEVEREST_FIRST}
    for name, difference, in_source, is_reported, is_loaded in compare(scratch.listed(), scratch.named(), rules):
        result.source += in_source
        result.reported += is_reported
        result.loaded += is_loaded
        if difference is not None:
            result.differences[difference] += 1
            if len(items[difference]) < limit:
                items[difference].append(FoundDifference(item=name, kind=difference))
    result.items = [item for kind in SEVEREST_FIRST for item in items[kind]][:limit]
    return result
