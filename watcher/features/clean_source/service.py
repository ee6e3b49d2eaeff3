"""Cleans the sources of the watchers that this process hosts, a few files at a time.

Only watchers that run are cleaned, by the process that has their position, with the clients they use. What a kill leaves in hand
is finished by whoever hosts the watcher next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus
from pydantic_core import from_json

from store.database import Database
from store.detection import positions
from store.detection.positions import HeldPosition
from store.features.clean_source import cleanings, removed_files
from store.features.clean_source.cleanings import Cleaning
from triggers.base import Finding
from triggers.cleaning import Cleans, LoadedFile
from triggers.errors import SourceUnavailable, TriggerError
from triggers.retries import backoff
from watcher.configuration.services import ServiceContext
from watcher.features.clean_source.decision import held_up
from watcher.features.clean_source.event_files import FILES_AT_ONCE, EventFilesCleaner, NotEligible, WatcherToClean
from watcher.features.clean_source.reasons import finding_of
from watcher.host.containment import Service
from watcher.host.health import Health
from watcher.host.loops import keep_going
from watcher.host.metrics import Metrics
from watcher.triggerer.clients import Hosted

LOOK_EVERY: Final = 5.0
"""Seconds between two looks at all watchers."""
EVENTS_AT_ONCE: Final = 50
"""The most events of a watcher that one look decides on."""
PATIENCE: Final = 60.0
"""Seconds for the files in hand: for so long at most holds what was decided about them."""
LONGEST_PAUSE: Final = timedelta(hours=1)

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class _Pause:
    """The failures in a row of a watcher's cleaning, and the time, by `time.monotonic`, before which it is not retried."""

    failures: int = 0
    until: float = 0.0


@dataclass(kw_only=True, eq=False)
class SourceCleaning:
    """Cleans for the process `owner`. `hosted` returns the configured watchers."""

    database: Database
    owner: str
    health: Health
    metrics: Metrics
    hosted: Callable[[], Mapping[str, Hosted]]
    _pauses: dict[str, _Pause] = field(default_factory=dict)
    _begun: dict[str, Hosted] = field(default_factory=dict)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Clean until cancelled."""
        task_status.started()
        while True:
            has_more = False
            async with keep_going("cleaning.failed"):
                has_more = await self.look()
            if not has_more:
                await anyio.sleep(LOOK_EVERY)

    async def look(self) -> bool:
        """Look once at each watcher that runs here. Return whether there is more to do at once."""
        names = [name for name, hosted in self.hosted().items() if hosted.facts.cleaned_after is not None]
        if not names:
            return False
        async with self.database.reading() as connection:
            held = await positions.held_by(connection, self.owner)
        has_more = False
        for name in names:
            watcher = self._running(name, held.get(name))
            if watcher is not None and self._pauses.setdefault(name, _Pause()).until <= monotonic():
                has_more |= await self._contained(watcher)
        return has_more

    def _running(self, name: str, held: HeldPosition | None) -> WatcherToClean | None:
        report, hosted = self.health.watchers.get(name), self.hosted().get(name)
        if report is None or hosted is None or held is None or report.state not in {"running", "unstable"}:
            return None
        if report.trigger is None or report.trigger.options is not hosted.options:
            return None  # it was made by an earlier configuration
        cleans = report.trigger.ability(Cleans)
        cleaner = None if cleans is None else cleans.cleaner()
        return None if cleaner is None else WatcherToClean(hosted=hosted, held=held, cleaner=cleaner)

    async def _contained(self, watcher: WatcherToClean) -> bool:
        """Clean some of a watcher's files. A failure becomes a finding, and a pause that grows."""
        name, pause = watcher.hosted.name, self._pauses[watcher.hosted.name]
        with structlog.contextvars.bound_contextvars(watcher=name, asset=watcher.hosted.asset):
            try:
                has_more = await self._clean(watcher)
            except NotEligible:
                return False
            except TriggerError as error:
                pause.failures += 1
                seconds = backoff(pause.failures, random.random, longest=LONGEST_PAUSE).total_seconds()
                pause.until = monotonic() + seconds
                log.warning("cleaning.failed", error=str(error), retry_in=round(seconds, 1))
                message, _, remedy = str(error).partition("; ")
                watcher.cleaner.show(Finding.warning("clean_source", f"files are not cleaned: {message}", remedy))
                return False
        self._pauses[name] = _Pause()
        if not has_more:
            await self._show_what_stays(watcher)
        return has_more

    async def _show_what_stays(self, watcher: WatcherToClean) -> None:
        async with self.database.reading() as connection:
            staying = await cleanings.staying(connection, watcher.hosted.name)
        watcher.cleaner.show(finding_of(staying, watcher.cleaner.target))

    async def _clean(self, watcher: WatcherToClean) -> bool:
        """Decide on the events that are due, until one's files may go. Return whether there is more to do at once."""
        name = watcher.hosted.name
        if self._begun.get(name) is not watcher.hosted:
            async with self.database.transaction() as connection:
                await cleanings.bring_forward(connection, name, watcher.cleaner.after)
            self._begun[name] = watcher.hosted
        await self._find_copies(watcher)
        async with self.database.reading() as connection:
            due = await cleanings.due(connection, name, limit=EVENTS_AT_ONCE)
        for cleaning in sorted(due, key=lambda each: each.in_hand is None):
            if cleaning.in_hand is not None or await self._may_go(watcher, cleaning):
                await self._remove(watcher, cleaning)
                return True
        return len(due) == EVENTS_AT_ONCE

    async def _find_copies(self, watcher: WatcherToClean) -> None:
        """Look for the places of files that an earlier release has moved; what is not there was deleted."""
        while True:
            async with self.database.reading() as connection:
                sought = await removed_files.sought(connection, watcher.hosted.name, limit=FILES_AT_ONCE)
            if not sought:
                return
            loaded = [
                LoadedFile(
                    ticket=f"{each.event_id[:32]}-{each.file.number}",
                    content=from_json(each.extra)["files"][each.file.number],
                )
                for each in sought
            ]
            places = await watcher.cleaner.find_copies(loaded)
            async with self.database.transaction() as connection:
                await watcher.fence(connection)
                found = {each.file: place for each, place in zip(sought, places, strict=True)}
                await removed_files.forget(connection, found.keys())
                await removed_files.conclude(connection, found)

    async def _may_go(self, watcher: WatcherToClean, cleaning: Cleaning) -> bool:
        """Decide on an event. If its files may not go, store why, and when to look again."""
        async with self.database.transaction() as connection:
            await watcher.fence(connection)
            decision = await watcher.decision(connection, cleaning)
            if decision.verdict != "clean":
                await cleanings.change(connection, held_up(cleaning, decision), decision.look_at)
        return decision.verdict == "clean"

    async def _remove(self, watcher: WatcherToClean, cleaning: Cleaning) -> None:
        count = partial(self.metrics.count_cleaned, (watcher.hosted.name, watcher.hosted.asset))
        with anyio.move_on_after(PATIENCE) as scope:
            files = await EventFilesCleaner.of(
                self.database, watcher, cleaning.event_id, lambda: self.hosted().values(), count
            )
            await files.clean()
        if scope.cancelled_caught:
            raise SourceUnavailable(
                f"the source took longer than {PATIENCE:g} s to remove some files; find out why it is slow"
            )


def build(context: ServiceContext) -> Service:
    """Build what moves or deletes the files that all jobs have loaded."""
    host = context.host
    cleaning = SourceCleaning(
        database=host.database,
        owner=host.process.id,
        health=host.health,
        metrics=host.metrics,
        hosted=context.hosted,
    )
    return cleaning.run
