"""Removes some files of one event: what is in hand is recorded before its source is asked, and what came of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from pydantic_core import from_json
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.database.paging import now_of
from store.detection.positions import HeldPosition
from store.features.clean_source import cleanings, removed_files
from store.features.clean_source.cleanings import Cleaning, EventFiles, FilesInHand
from store.features.clean_source.owed_jobs import owed_events
from store.processes import audit
from triggers.cleaning import LoadedFile, SourceCleaner
from watcher.features.clean_source.decision import (
    SHORTEST_STAY,
    CleaningDecision,
    decide,
    held_up,
    next_numbers,
    passed,
)
from watcher.features.clean_source.shared_files import NOT_SHARED, EventInHand, may_go, shared_files
from watcher.triggerer.clients import Hosted

FILES_AT_ONCE: Final = 50
"""The most files that are in hand at the same time: so many are looked for again after a kill."""

log = structlog.get_logger()


class NotEligible(Exception):
    """The files of an event may not go any more: somebody cleared a run, or another process has the watcher."""


@dataclass(frozen=True, kw_only=True)
class WatcherToClean:
    """A watcher that runs here, and what cleans its source."""

    hosted: Hosted
    held: HeldPosition
    cleaner: SourceCleaner

    async def fence(self, connection: AsyncConnection) -> None:
        """Lock the watcher's position. Raises `NotEligible` if another process has it."""
        if not await cleanings.is_held(connection, self.held):
            raise NotEligible

    async def decision(self, connection: AsyncConnection, cleaning: Cleaning) -> CleaningDecision:
        """Decide whether the files of an event may go, as it stands in this transaction."""
        owed = await owed_events(connection, {cleaning.event_id: cleaning.owed})
        event = owed[cleaning.event_id]
        return decide(event.jobs, event.at_jobs, self.cleaner.after, await now_of(connection))


@dataclass(frozen=True, kw_only=True)
class EventFilesCleaner:
    """Removes the next files of one event. `watchers` returns all that are configured, `count` is called with what was removed."""

    database: Database
    watcher: WatcherToClean
    cleaning: Cleaning
    named: EventFiles
    files: Sequence[Mapping[str, Any]]
    watchers: Callable[[], Collection[Hosted]]
    count: Callable[[int], None]

    @classmethod
    async def of(
        cls,
        database: Database,
        watcher: WatcherToClean,
        event_id: int,
        watchers: Callable[[], Collection[Hosted]],
        count: Callable[[int], None],
    ) -> EventFilesCleaner:
        """Read an event and how far its cleaning has come."""
        async with database.reading() as connection:
            cleaning = await cleanings.get(connection, event_id)
            named = await cleanings.files_of(connection, event_id)
        files = from_json(named.extra).get("files", ())
        return cls(
            database=database,
            watcher=watcher,
            cleaning=cleaning,
            named=named,
            files=files,
            watchers=watchers,
            count=count,
        )

    async def clean(self) -> None:
        """Take the next files in hand, or those that a kill has left there, and remove them.

        Raises `NotEligible`, after what was in hand is put down, and `TriggerError`: then it stays in hand.
        """
        in_hand, may_begin = self.cleaning.in_hand, True
        if in_hand is None:
            in_hand = await self._look()
            if in_hand.files:
                await self._record(in_hand)
        else:
            may_begin = await self._may_go_on(in_hand)
        self.watcher.cleaner.note(in_hand.names, "begun")
        if in_hand.files and self.watcher.cleaner.target is not None and not in_hand.is_copied:
            if not may_begin:
                await self._put_down(in_hand)
            in_hand = await self._copied(in_hand)
        outcomes = await self._removed(in_hand, begin=may_begin) if in_hand.files else {}
        await self._conclude(in_hand, outcomes)

    async def _look(self) -> FilesInHand:
        """Look for the next files of the pass, and whether anything else needs them."""
        cleaner, numbers = self.watcher.cleaner, next_numbers(self.cleaning, len(self.files), FILES_AT_ONCE)
        place = await cleaner.place()
        looks = dict(zip(numbers, await cleaner.find(self._loaded(numbers)), strict=True))
        contents = {number: self.files[number] for number, look in looks.items() if look.outcome == "done"}
        event = EventInHand(
            id=self.cleaning.event_id, hosted=self.watcher.hosted, contents=contents, after=cleaner.after
        )
        async with self.database.reading() as connection:
            now = await now_of(connection)
            shared = await shared_files(connection, event, self.watchers(), now) if contents else NOT_SHARED
        outcomes: dict[int, str] = {number: look.outcome for number, look in looks.items() if look.outcome != "done"}
        outcomes |= dict.fromkeys(shared.wanted, "shared")
        files = {number: look.names for number, look in looks.items() if number not in outcomes}
        others = {number: each for number, each in shared.others.items() if number in files}
        return FilesInHand(place=place, files=files, outcomes=outcomes, others=others)

    async def _may_go_on(self, in_hand: FilesInHand) -> bool:
        """Return whether what a kill has left in hand may still go; what was begun is finished anyway."""
        if await self.watcher.cleaner.place() != in_hand.place:
            await self._put_down(in_hand)
        async with self.database.transaction() as connection:
            await self.watcher.fence(connection)
            decision = await self._decision(connection, in_hand)
        return decision.verdict == "clean"

    async def _decision(self, connection: AsyncConnection, in_hand: FilesInHand) -> CleaningDecision:
        """Decide whether these files may go: by their event, and by the others that name them. No run starts meanwhile."""
        await removed_files.exclude_runs(connection)
        decision = await self.watcher.decision(connection, self.cleaning)
        if decision.verdict == "clean" and in_hand.others:
            after, now = self.watcher.cleaner.after, await now_of(connection)
            event_ids = {each.event_id for others in in_hand.others.values() for each in others}
            if not all(await may_go(connection, event_ids, after, now)):
                return CleaningDecision(verdict="wait", reason="shared", look_at=now + SHORTEST_STAY)
        return decision

    async def _record(self, in_hand: FilesInHand, before: FilesInHand | None = None) -> None:
        """Record what is in hand from here on, instead of `before`. Raises `NotEligible` if the files may not go any more."""
        moves = self.watcher.cleaner.target is not None
        async with self.database.transaction() as connection:
            await self.watcher.fence(connection)
            decision = await self._decision(connection, in_hand)
            if before is not None:
                await removed_files.forget(connection, before.rows(self.cleaning.event_id).keys())
            if decision.verdict == "clean":
                changed, look_at = replace(self.cleaning, in_hand=in_hand), await now_of(connection)
                await cleanings.change(connection, changed, look_at)
                rows = in_hand.rows(self.cleaning.event_id).keys()
                await removed_files.take_interest(connection, rows)
                await removed_files.take_in_hand(connection, rows, moves=moves)
            else:
                await cleanings.change(connection, held_up(self.cleaning, decision), decision.look_at)
        if decision.verdict != "clean":
            self.watcher.cleaner.note(in_hand.names, "given_up")
            raise NotEligible

    async def _put_down(self, in_hand: FilesInHand) -> None:
        """Record that nothing is in hand any more, and raise `NotEligible`. The files are looked for anew."""
        async with self.database.transaction() as connection:
            await self.watcher.fence(connection)
            look_at = await now_of(connection) + SHORTEST_STAY
            await removed_files.forget(connection, in_hand.rows(self.cleaning.event_id).keys())
            await cleanings.change(connection, replace(self.cleaning, in_hand=None), look_at)
        self.watcher.cleaner.note(in_hand.names, "given_up")
        raise NotEligible

    async def _copied(self, in_hand: FilesInHand) -> FilesInHand:
        """Copy the files to the target, and record that. Only what was copied stays in hand."""
        numbers = [*in_hand.files]
        loaded = self._loaded(numbers)
        copies = dict(zip(numbers, await self.watcher.cleaner.copy(loaded), strict=True))
        found = dict(zip(numbers, await self.watcher.cleaner.find_copies(loaded), strict=True))
        files = {number: names for number, names in in_hand.files.items() if copies[number] == "done"}
        places = {number: place for number in files if (place := found[number]) is not None}
        refused = {number: outcome for number, outcome in copies.items() if number not in files}
        left = [name for number in refused for name in in_hand.files[number]]
        outcomes = {**in_hand.outcomes, **refused}
        copied = replace(in_hand, files=files, outcomes=outcomes, is_copied=True, places=places)
        await self._record(copied, before=in_hand)
        self.watcher.cleaner.note(left, "given_up")
        return copied

    async def _removed(self, in_hand: FilesInHand, *, begin: bool) -> Mapping[int, str]:
        """Remove the files in hand from the source. What a source says that was exchanged meanwhile is not believed."""
        cleaner, numbers = self.watcher.cleaner, [*in_hand.files]
        outcomes = await cleaner.remove(self._loaded(numbers), begin=begin)
        if await cleaner.place() != in_hand.place:
            await self._put_down(in_hand)
        return dict(zip(numbers, outcomes, strict=True))

    async def _conclude(self, in_hand: FilesInHand, outcomes: Mapping[int, str]) -> None:
        """Record what came of all files that were taken together."""
        cleaner = self.watcher.cleaner
        removed = [number for number, outcome in outcomes.items() if outcome == "done"]
        names = [name for number in removed for name in in_hand.files[number]]
        after = passed(self.cleaning, {**in_hand.outcomes, **outcomes}, len(self.files))
        await self._store(after, names, in_hand, removed)
        cleaner.note(names, "done")
        cleaner.note({*in_hand.names} - {*names}, "given_up")
        self.count(len(removed))
        if removed:
            log.info("source.cleaned", event_id=after.event_id, files=len(removed), to=cleaner.target)

    async def _store(
        self, after: Cleaning, names: Collection[int], in_hand: FilesInHand, removed: Collection[int]
    ) -> None:
        watcher, event_id = self.watcher, self.cleaning.event_id
        unknown = None if watcher.cleaner.target is None else removed_files.UNKNOWN_PLACE
        places = {row: in_hand.places.get(number, unknown) for row, number in in_hand.rows(event_id, removed).items()}
        async with self.database.transaction() as connection:
            await watcher.fence(connection)
            await removed_files.forget(connection, in_hand.rows(event_id).keys())
            await removed_files.take_interest(connection, places.keys())
            await removed_files.conclude(connection, places)
            look_at, wait = await now_of(connection), max(watcher.cleaner.after, SHORTEST_STAY)
            due_at = {"waiting": look_at, "staying": look_at + wait, "done": None}[after.state]
            await cleanings.change(connection, after, due_at)
            await cleanings.forget_versions(connection, watcher.hosted.name, names)
            if after.state != "waiting" and after.removed:
                detail = {"event_id": after.event_id, "files": after.removed, "to": watcher.cleaner.target}
                await audit.record(connection, "watcher", "source.clean", watcher.hosted.name, detail)

    def _loaded(self, numbers: Sequence[int]) -> Sequence[LoadedFile]:
        ticket = self.named.event_id[:32]
        return [LoadedFile(ticket=f"{ticket}-{number}", content=self.files[number]) for number in numbers]
