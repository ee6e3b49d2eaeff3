"""The life of one watcher: claim the position, check the source, commit batch after batch, retry after every failure.

starting -> running            the first batch came; its position, if any, is committed
failing -> unstable            the same, and it has begun to fail at least twice within the hour; running when it has not any more
starting, running -> waiting   another client keeps the source for itself; retried every 2 s, and not a failure
any of these -> failing        something raised; retried with backoff, 1 s to 5 min, failing until it runs again
starting -> blocked            the source is not the one that the position was made from; `watcher rewind` decides
failing -> paused              `pause_after_failures` polls failed in a row; a person resumes it
any -> stopped                 the triggerer released the watcher

Whatever a trigger raises or leaves undone is its watcher's failure, also what is no `Exception`, and a cancellation that
nobody here requested. A trigger that blocks the event loop cannot be stopped here: `watcher.host.watchdog` names it.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import anyio
import structlog
from anyio.lowlevel import checkpoint

from store.database import Database
from store.detection.positions import HeldPosition, LoadedPosition
from store.errors import CommitUnknown, PositionLost
from triggers.base import StoredPosition, TriggerBatch, refuse_errors
from triggers.errors import ConfigurationError, SourceChanged, SourceUnavailable
from triggers.hosting import Parks, SharesPolls
from watcher.host.containment import is_cancelled, sentence
from watcher.host.health import WatcherReport
from watcher.triggerer.claims import Claims
from watcher.triggerer.clients import Clients, Hosted, open_trigger
from watcher.triggerer.committing import Committer, end_of_undo, identity_of, kept, stored
from watcher.triggerer.failures import WatcherFailures
from watcher.triggerer.limits import LATER
from watcher.triggerer.open_triggers import OpenTrigger
from watcher.triggerer.rejected_items import RejectedItems
from watcher.triggerer.source_change import what_changed
from watcher.triggerer.states import States
from watcher.triggerer.status import WatcherStatus

RECLAIM_AFTER: Final = 1.0
"""Seconds before a position is claimed again that another triggerer holds."""
WORTH_PARKING: Final = 10.0
"""The shortest rest, in seconds, for which a trigger is parked. A shorter one keeps its task."""
_END: Final[Any] = object()

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class _Parked:
    """A trigger without a task, which waits to be woken. `release` gives back the client that it keeps open."""

    trigger: OpenTrigger
    parking: Parks
    identity: str
    until: float
    release: Callable[[], None]


@dataclass(kw_only=True, eq=False, slots=True)
class Supervisor:
    """Runs one watcher for one triggerer, until cancelled. Nothing that the watcher raises leaves this class."""

    hosted: Hosted
    owner: str
    database: Database
    committer: Committer
    clients: Clients
    poll_timeout: timedelta
    report: WatcherReport = field(default_factory=WatcherReport)
    failures: WatcherFailures = field(init=False)
    trigger: OpenTrigger | None = None
    """The trigger that was opened last."""
    _status: WatcherStatus = field(init=False)
    _attempt: anyio.CancelScope | None = None
    _parked: _Parked | None = None
    _doing: str = ""
    _committing: bool = False
    _held: HeldPosition | None = None
    _kept: StoredPosition | None = None
    """The position to which an undo of the last rewind returns."""
    _claimed: LoadedPosition | None = None
    _claims: Claims | None = None
    _on_wake: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        self._status = WatcherStatus(watcher=self.hosted.name, report=self.report)
        self.failures = WatcherFailures(
            database=self.database, owner=self.owner, status=self._status, pause_after=self.hosted.pause_after
        )

    def host(
        self, claimed: LoadedPosition, claims: Claims, states: States, on_wake: Callable[[str], None] | None = None
    ) -> None:
        """Begin at this position, which was claimed for the watcher.

        `on_wake` is called with the watcher's name and makes a task that runs it again.
        """
        self._claimed, self._claims, self._status.states, self._on_wake = claimed, claims, states, on_wake

    async def run(self) -> None:
        """Run in a task of its own until cancelled, or until the trigger is parked: `on_wake` then asks for another task.

        In the end the caller calls `discard_parked` and releases the position.
        """
        structlog.contextvars.bind_contextvars(watcher=self.hosted.name, asset=self.hosted.asset)  # of this task
        while True:
            try:
                with anyio.CancelScope() as self._attempt:
                    await (self._claim_and_watch() if self._parked is None else self._resume(self._parked))
                self._refuse_delay()
                if self._parked is not None:
                    self._attempt = None
                    return
            except (PositionLost, CommitUnknown) as error:
                log.warning("watcher.position_lost", error=str(error))
            except BaseException as error:
                if is_cancelled() and isinstance(error, anyio.get_cancelled_exc_class()):
                    raise
                await self._rest(await self.failures.take(error))

    def compare(self, stored: HeldPosition | None) -> None:
        """Compare the position with the one stored for this process: start again if it was rewound or taken over."""
        if self._held is None or self._committing:
            return
        if stored is None or stored.epoch > self._held.epoch or stored.version > self._held.version:
            ours = stored is not None and stored.epoch == self._held.epoch
            log.info("watcher.rewound" if ours else "watcher.position_lost", watcher=self.hosted.name)
            self._held = None
            if self._attempt is not None:
                self._attempt.cancel()
            self.wake()

    @property
    def parked_until(self) -> float:
        """The time, by the event loop's clock, at which a parked trigger resumes; infinite while it is not parked."""
        return math.inf if self._parked is None else self._parked.until

    def wake(self) -> None:
        """Resume the parked trigger: there may be something for it."""
        if self._on_wake is not None:
            self._on_wake(self.hosted.name)

    def discard_parked(self) -> None:
        """Discard the parked trigger, if any, and release its client. Never raises."""
        if (parked := self._parked) is not None:
            self._parked = None
            try:
                parked.parking.unpark(for_good=True)
            except BaseException as error:
                log.exception("watcher.not_unparked", watcher=self.hosted.name, error=sentence(error))
            parked.release()

    def _begin(self, doing: str) -> None:
        """Let the attempt end when this step takes longer than `poll_timeout` and a bit: a trigger's own limit comes first.

        A trigger in a process of its own has its limits there.
        """
        self._doing = doing
        if self.hosted.trigger.is_here:
            self._allow(self.poll_timeout.total_seconds() * LATER)

    def _allow(self, seconds: float) -> None:
        if self._attempt is not None:
            self._attempt.deadline = anyio.current_time() + seconds

    def _refuse_delay(self) -> None:
        attempt = self._attempt
        if attempt is not None and attempt.cancelled_caught and anyio.current_time() >= attempt.deadline:
            raise SourceUnavailable(
                f"{self._doing} took longer than {self.poll_timeout.total_seconds():g} s; find out why the source is slow, "
                "or raise settings.triggerer.poll_timeout"
            )

    async def _claim_and_watch(self) -> None:
        self._held, self._committing = None, False
        loaded, self._claimed = self._claimed or await self._claim(), None
        if loaded is None:  # another triggerer has it until it releases the position or dies
            await anyio.sleep(RECLAIM_AFTER)
            return
        self._held = loaded.held
        self._status.rejected = RejectedItems(self.hosted.name, loaded.rejected)
        self._kept = kept(loaded)
        self.report.has_position = known = loaded.state is not None
        if self.failures.is_clear and self.report.state != "waiting":  # else it fails, or waits, until it runs again
            self._status.show("starting")
        self._begin("making the trigger")
        async with open_trigger(self.hosted, self.clients, self.poll_timeout, has_position=known) as trigger:
            self._begin("the trigger's check")
            identity = await self._checked(trigger, loaded)
            self.trigger = self.report.trigger = trigger
            self.report.shared_polls = trigger.ability(SharesPolls)
            batches, held = trigger.events(stored(loaded), kept=self._kept), loaded.held
            del loaded  # it may be large
            await self._watch(trigger, batches, held, identity)

    async def _resume(self, parked: _Parked) -> None:
        """Continue with the parked trigger. If its position moved meanwhile, discard it: another one begins."""
        if self._held is None:
            self.discard_parked()
            return
        self._parked = None
        try:
            parked.parking.unpark(for_good=False)
            await self._watch(parked.trigger, parked.trigger.events(None), self._held, parked.identity, parked.release)
        finally:
            if self._parked is None:
                parked.release()

    async def _checked(self, trigger: OpenTrigger, loaded: LoadedPosition) -> str:
        """Check the source and return its identity, which is the position's. Raises `SourceChanged` if it is another."""
        self._status.note(findings := await trigger.check())
        refuse_errors(findings)
        identity = await identity_of(trigger, loaded)
        if (change := await what_changed(trigger, loaded, identity)) is not None:
            raise SourceChanged(change)
        return identity

    async def _claim(self) -> LoadedPosition | None:
        return None if self._claims is None else await self._claims.claim(self.hosted)

    async def _watch(
        self,
        trigger: OpenTrigger,
        batches: AsyncGenerator[TriggerBatch, None],
        held: HeldPosition,
        identity: str,
        release: Callable[[], None] | None = None,
    ) -> None:
        """Commit batches until the trigger is parked. `release` gives back the client if a parked trigger kept it open."""
        async with aclosing(batches):
            self._begin("the first batch")
            batch = await anext(batches, _END)
            self._allow(math.inf)
            while batch is not _END:
                held = await self._commit(trigger, held, identity, batch)
                is_whole, batch = batch.whole_since is not None, None  # it may be large
                self.failures.clear()
                await checkpoint()  # other watchers get their turn also beside a trigger that never waits
                if is_whole and self._park(trigger, identity, release):
                    return
                batch = await anext(batches, _END)
        raise ConfigurationError("the trigger stopped yielding; `events` must go on without end")

    def _park(self, trigger: OpenTrigger, identity: str, release: Callable[[], None] | None) -> bool:
        """Park the trigger if it only waits to be woken for a while. Without a task it takes a third of the memory."""
        parking = trigger.parking
        if self._on_wake is None or parking is None or (seconds := parking.park(self.wake)) is None:
            return False
        if seconds >= WORTH_PARKING:
            release = release or self.clients.hold(self.hosted.connection, trigger.client)
        if seconds < WORTH_PARKING or release is None:
            parking.unpark(for_good=False)
            return False
        until = anyio.current_time() + seconds
        self._parked = _Parked(trigger=trigger, parking=parking, identity=identity, until=until, release=release)
        return True

    async def _commit(
        self, trigger: OpenTrigger, held: HeldPosition, identity: str, batch: TriggerBatch
    ) -> HeldPosition:
        with structlog.contextvars.bound_contextvars(poll_id=secrets.token_hex(6)):
            if self._status.rejected is not None:
                self._status.rejected.refuse_too_many(batch)
            self._committing = True
            ends_undo = end_of_undo(trigger, self._kept, batch)
            held = await self.committer.commit(self.hosted, held, identity, batch, ends_undo)
            self._kept = self._kept if ends_undo is None else None
            self._held, self._committing = held, False
            self._note_poll(held, batch)
            self.committer.log.debug("watcher.polled", caught_up=batch.caught_up)
        return held

    def _note_poll(self, held: HeldPosition, batch: TriggerBatch) -> None:
        """Note a durable batch for health and metrics."""
        self.report.polled_at = time.monotonic()
        self.report.history.note(batch)
        self.report.has_position |= batch.position is not None
        if batch.whole_since is not None:
            self._status.blocking = None
        rejected = self._status.rejected
        if (rejected is not None and rejected.take(batch)) or batch.findings is not None:
            self._status.note(batch.findings)
        self.report.up_to = None if batch.up_to is None else (held.version, batch.up_to)
        if batch.whole_since is not None:
            self.report.whole_since = batch.whole_since
            seconds = self.report.polled_at - batch.whole_since
            self.committer.metrics.observe_poll((self.hosted.name, self.hosted.asset), seconds)

    async def _rest(self, pause: timedelta) -> None:
        with anyio.CancelScope() as self._attempt:  # a rewind ends the waiting
            await self.failures.pause(pause)
