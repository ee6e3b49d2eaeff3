"""One watcher's life: claim the position, check the source, commit batch after batch, come back after every failure.

starting -> running            the first batch came; its position, if any, is committed
starting, running -> waiting   somebody else keeps the source for himself; tried again every 2 s, and no failure
starting, running -> failing   something raised; again with backoff, 1 s to 5 min, failing until it runs again
starting -> blocked            the source is not the one the position was made from; `watcher rewind` decides
failing -> paused              `pause_after_failures` polls failed in a row; a person resumes it
any -> stopped                 the triggerer let go of the watcher

Whatever a trigger raises or leaves undone is its watcher's failure: also what is no `Exception`, and a cancellation that
nobody here asked for. What keeps the event loop for itself cannot be helped here: `watcher.host.watchdog` names it.
"""

from __future__ import annotations

import json
import math
import random
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import anyio
import structlog
from anyio.lowlevel import checkpoint

from store.catalog import watchers
from store.catalog.watchers import WatcherState
from store.database import Database
from store.detection.positions import HeldPosition, LoadedPosition
from store.errors import CommitUnknown, PositionLost, StoreError
from store.processes import audit
from triggers.base import BaseEventTrigger, Finding, IncrementalTrigger, StoredPosition, TriggerBatch, refuse_errors
from triggers.errors import ConfigurationError, SourceBusy, SourceChanged, SourceUnavailable, TriggerError
from triggers.hints import backoff
from watcher.host.containment import is_cancelled, sentence
from watcher.host.health import WatcherReport
from watcher.triggerer.claims import Claims
from watcher.triggerer.clients import Clients, Hosted, open_trigger
from watcher.triggerer.committing import Committer, identity_json, kept, stored, told_since
from watcher.triggerer.isolation.trigger import ForeignTrigger, IsolatedTrigger
from watcher.triggerer.rejected_items import RejectedItems
from watcher.triggerer.states import States

CLAIM_AGAIN: Final = 1.0
LONGEST_PAUSE: Final = timedelta(minutes=5)
LATER: Final = 1.2
LONGEST_WAIT: Final = timedelta(seconds=2)
"""Between two tries of a source that somebody keeps for himself."""
WORTH_PARKING: Final = 10.0
"""Seconds: who goes on sooner keeps its task."""
_END: Final[Any] = object()

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class _Parked:
    """A trigger that waits to be woken, without a task; `let_go` of the client that it keeps open."""

    trigger: IncrementalTrigger[Any, Any]
    identity: str
    until: float
    let_go: Callable[[], None]


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
    has_given_up: bool = False
    """The watcher is paused by its failures; the caller stops it, and leaves what its row says."""
    _failures: int = 0
    _failed_polls: int = 0
    """Of those, without those of our own database, and those that wait for a person's decision."""
    _attempt: anyio.CancelScope | None = None
    _parked: _Parked | None = None
    _doing: str = ""
    _committing: bool = False
    _held: HeldPosition | None = None
    _rejected: RejectedItems = field(init=False)
    _kept: StoredPosition | None = None
    """What an undo of the last rewind goes back to."""
    _found: Sequence[Finding] = ()
    """By the trigger, to be looked at."""
    _claimed: LoadedPosition | None = None
    _claims: Claims | None = None
    _states: States | None = None
    _on_wake: Callable[[str], None] | None = None

    def host(
        self, claimed: LoadedPosition, claims: Claims, states: States, on_wake: Callable[[str], None] | None = None
    ) -> None:
        """From this position, which was claimed for it. `on_wake`, called with its name, makes a task that runs it again."""
        self._claimed, self._claims, self._states, self._on_wake = claimed, claims, states, on_wake

    async def run(self) -> None:
        """Until cancelled, in a task of its own, or until the trigger is parked: `on_wake` asks for another task then.

        The caller calls `let_go` in the end, and releases the position.
        """
        structlog.contextvars.bind_contextvars(watcher=self.hosted.name, asset=self.hosted.asset)  # of this task
        while True:
            try:
                with anyio.CancelScope() as self._attempt:
                    await (self._claim_and_watch() if self._parked is None else self._go_on(self._parked))
                self._refuse_delay()
                if self._parked is not None:
                    self._attempt = None
                    return
            except (PositionLost, CommitUnknown) as error:
                log.warning("watcher.position_lost", error=str(error))
            except BaseException as error:
                if is_cancelled() and isinstance(error, anyio.get_cancelled_exc_class()):
                    raise
                await self._fail(error)

    def look_again(self, stored: HeldPosition | None) -> None:
        """The position as this process holds it by the database: start again if a rewind moved it, or another has it."""
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
        """The moment, of the event loop's clock, at which it is to go on; infinite while it is not parked."""
        return math.inf if self._parked is None else self._parked.until

    def wake(self) -> None:
        """Somebody has something for the trigger that is parked."""
        if self._on_wake is not None:
            self._on_wake(self.hosted.name)

    def let_go(self) -> None:
        """Of the trigger that is parked, if it is: nobody goes on with it. Raises nothing."""
        if (parked := self._parked) is not None:
            self._parked = None
            try:
                parked.trigger.unpark(for_good=True)
            except BaseException as error:
                log.exception("watcher.not_unparked", watcher=self.hosted.name, error=sentence(error))
            parked.let_go()

    def _begin(self, doing: str) -> None:
        """What is left undone when `poll_timeout` and a bit are over ends the attempt: a trigger's own limit comes first.

        One in a process of its own has its limits there.
        """
        self._doing = doing
        if not isinstance(self.hosted.trigger, ForeignTrigger):
            self._allow(self.poll_timeout.total_seconds() * LATER)

    def _allow(self, seconds: float) -> None:
        if self._attempt is not None:
            self._attempt.deadline = anyio.current_time() + seconds

    def _refuse_delay(self) -> None:
        attempt = self._attempt
        if attempt is not None and attempt.cancelled_caught and anyio.current_time() >= attempt.deadline:
            raise SourceUnavailable(
                f"{self._doing} took longer than {self.poll_timeout.total_seconds():g} s; look why the source is slow, "
                "or raise settings.triggerer.poll_timeout"
            )

    async def _claim_and_watch(self) -> None:
        self._held, self._committing = None, False
        loaded, self._claimed = self._claimed or await self._again(), None
        if loaded is None:  # another triggerer has it; it is ours when that one releases it or dies
            await anyio.sleep(CLAIM_AGAIN)
            return
        self._held = loaded.held
        self._rejected = RejectedItems(self.hosted.name, loaded.rejected)
        self._kept = kept(loaded)
        self.report.has_position = loaded.state is not None
        if not self._failures and self.report.state != "waiting":  # else it fails, or waits, until it runs again
            self._show("starting")
        self._begin("making the trigger")
        async with open_trigger(self.hosted, self.clients, self.poll_timeout) as trigger:
            self._begin("the trigger's check")
            identity = await self._checked(trigger, loaded)
            self.report.trigger = trigger
            batches, held = trigger.events(stored(loaded)), loaded.held
            del loaded  # it may be large
            await self._watch(trigger, batches, held, identity)

    async def _go_on(self, parked: _Parked) -> None:
        """With the trigger that was parked, unless its position moved meanwhile: then with another."""
        if self._held is None:
            self.let_go()
            return
        self._parked = None
        try:
            parked.trigger.unpark(for_good=False)
            await self._watch(parked.trigger, parked.trigger.events(None), self._held, parked.identity, parked.let_go)
        finally:
            if self._parked is None:
                parked.let_go()

    async def _checked(self, trigger: BaseEventTrigger[Any, Any], loaded: LoadedPosition) -> str:
        """The identity of the source that the trigger watches, which is the position's."""
        findings = await trigger.check()
        self._note(findings)
        refuse_errors(findings)
        identity = identity_json(trigger.source_identity())
        if loaded.source_identity is not None and loaded.source_identity != identity:
            raise SourceChanged(_changes(self.hosted.name, loaded.source_identity, identity))
        return identity

    async def _again(self) -> LoadedPosition | None:
        return None if self._claims is None else await self._claims.claim(self.hosted)

    async def _watch(
        self,
        trigger: BaseEventTrigger[Any, Any],
        batches: AsyncGenerator[TriggerBatch, None],
        held: HeldPosition,
        identity: str,
        let_go: Callable[[], None] | None = None,
    ) -> None:
        """Until the trigger is parked; `let_go` of its client, if that is held so that it may be."""
        if isinstance(trigger, IsolatedTrigger) and self._kept is not None:
            await trigger.keep(self._kept)
        async with aclosing(batches):
            self._begin("the first batch")
            batch = await anext(batches, _END)
            self._allow(math.inf)
            while batch is not _END:
                held = await self._commit(trigger, held, identity, batch)
                is_whole, batch = batch.whole_since is not None, None  # it may be large
                if self.report.state != "running":
                    self.has_given_up = False
                    self._show("running")
                self._failures = self._failed_polls = 0
                await checkpoint()  # also with a trigger that never waits, the others get their turn
                if is_whole and self._park(trigger, identity, let_go):
                    return
                batch = await anext(batches, _END)
        raise ConfigurationError("the trigger stopped yielding; `events` must go on without end")

    def _park(self, trigger: BaseEventTrigger[Any, Any], identity: str, let_go: Callable[[], None] | None) -> bool:
        """If it only waits to be woken, for a while: without a task it takes a third of the memory."""
        if self._on_wake is None or not isinstance(trigger, IncrementalTrigger):
            return False
        seconds = trigger.park(self.wake)
        if seconds is None:
            return False
        if seconds >= WORTH_PARKING:
            let_go = let_go or self.clients.hold(self.hosted.connection, trigger.client)
        if seconds < WORTH_PARKING or let_go is None:
            trigger.unpark(for_good=False)
            return False
        until = anyio.current_time() + seconds
        self._parked = _Parked(trigger=trigger, identity=identity, until=until, let_go=let_go)
        return True

    def _end_of_undo(self, trigger: BaseEventTrigger[Any, Any], batch: TriggerBatch) -> str | None:
        """Why the last rewind cannot be undone once this batch is committed, if it can be so far and not then."""
        if self._kept is None or not (batch.events or batch.rejected):
            return None
        if self._kept.state and trigger.retold(self._kept, batch):
            return None
        return told_since(batch, knows=trigger.knows_what_is_retold)

    async def _commit(
        self, trigger: BaseEventTrigger[Any, Any], held: HeldPosition, identity: str, batch: TriggerBatch
    ) -> HeldPosition:
        with structlog.contextvars.bound_contextvars(poll_id=secrets.token_hex(6)):
            self._rejected.refuse_too_many(batch)
            self._committing = True
            ends_undo = self._end_of_undo(trigger, batch)
            held = await self.committer.commit(self.hosted, held, identity, batch, ends_undo)
            self._kept = self._kept if ends_undo is None else None
            self._held, self._committing = held, False
            self._note_poll(held, batch)
            self.committer.log.debug("watcher.polled", caught_up=batch.caught_up)
        return held

    def _note_poll(self, held: HeldPosition, batch: TriggerBatch) -> None:
        """Of a batch that is durable."""
        self.report.polled_at = time.monotonic()
        self.report.history.note(batch)
        self.report.has_position |= batch.position is not None
        if self._rejected.take(batch) or batch.findings is not None:
            self._note(self._found if batch.findings is None else batch.findings)
        self.report.up_to = None if batch.up_to is None else (held.version, batch.up_to)
        if batch.whole_since is not None:
            self.report.whole_since = batch.whole_since
            seconds = self.report.polled_at - batch.whole_since
            self.committer.metrics.observe_poll((self.hosted.name, self.hosted.asset), seconds)

    def _note(self, by_trigger: Sequence[Finding]) -> None:
        """Shown as long as they are found, in whatever state the watcher is."""
        self._found = tuple(finding for finding in by_trigger if finding.level != "ok")
        known = {(finding["check"], finding["message"]) for finding in self.report.findings}
        findings = [*self._found, *self._rejected.findings]
        if not self.report.note(findings):
            return
        for finding in findings:
            if (finding.check, finding.message) not in known:
                log.warning("watcher.finding", **vars(finding))
        self._record()

    async def _fail(self, error: BaseException) -> None:
        if isinstance(error, SourceBusy):
            if self.report.error != str(error):
                log.warning("watcher.waiting", error=str(error))
            self._show("waiting", str(error), failures=0)
            await self._rest(LONGEST_WAIT)
            return
        self._failures += 1
        self.report.history.fail(sentence(error))
        blocked, words = isinstance(error, SourceChanged), sentence(error)
        pause = backoff(self._failures, random.random, longest=LONGEST_PAUSE)
        expected = isinstance(error, (TriggerError, StoreError, OSError))
        log.error(
            "watcher.blocked" if blocked else "watcher.failed",
            error=words,
            kind=type(error).__name__,
            failures=self._failures,
            retry_in=round(pause.total_seconds(), 1),
            exc_info=not expected,
        )
        self._show("blocked" if blocked else "failing", words, failures=self._failures)
        self._failed_polls += not blocked and not isinstance(error, StoreError)
        if self.hosted.pause_after is not None and self._failed_polls >= self.hosted.pause_after:
            await self._give_up(words)
        await self._rest(pause)

    async def _give_up(self, words: str) -> None:
        """Pause the watcher; if the database does not answer, the next failure tries again."""
        name, failures = self.hosted.name, self._failed_polls
        why = f"{failures} polls in a row failed, so that it was paused; mend it and `watcher resume {name}`. The last: {words}"
        detail = {"failures": failures, "error": words}
        if self._states is not None:
            await self._states.forget(name)
        try:
            async with self.database.transaction() as connection:
                paused = await watchers.give_up(connection, self.owner, name, error=why, error_count=failures)
                if paused:
                    await audit.record(connection, "watcher", "watcher.pause", name, detail)
        except StoreError as error:
            log.warning("watcher.not_paused", error=str(error))
            self._record()
            return
        self.has_given_up = paused
        if paused:
            self._failed_polls = 0  # for a person who resumes it before it is let go
            log.error("watcher.gave_up", failures=failures)
            self._show("failing", why, failures=failures)

    async def _rest(self, pause: timedelta) -> None:
        with anyio.CancelScope() as self._attempt:  # a rewind ends the waiting
            await anyio.sleep(pause.total_seconds())

    def _show(self, state: str, error: str | None = None, *, failures: int = 0) -> None:
        if state != self.report.state:
            log.info("watcher.state", state=state)
        self.report.show(state, error, failures)
        self._record()

    def _record(self) -> None:
        report = self.report
        if self._states is not None and report.state:
            state = WatcherState(
                state=report.state, error=report.error, error_count=report.error_count, findings=report.findings_json
            )
            self._states.show(self.hosted.name, state)


def _changes(watcher: str, stored: str, configured: str) -> str:
    """One sentence that names what changed in the source."""
    before, now = json.loads(stored), json.loads(configured)
    if isinstance(before, dict) and isinstance(now, dict):
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        what = ", ".join(f"{name} was {before.get(name)!r} and is {now.get(name)!r}" for name in names)
    else:
        what = f"it was {before!r} and is {now!r}"
    return f"the source changed: {what}; configure it as it was, or decide with `watcher rewind {watcher} --to …`"
