"""Carries hints between processes by NOTIFY, after the commit of what they are about.

A lost hint costs time, never work, because every process checks everything now and then. With SQLite there is one process.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, get_args

import anyio
import structlog
from anyio.abc import TaskStatus
from sqlalchemy.exc import SQLAlchemyError

from store.database import Database
from store.database.notifications import LONGEST, listening, notify
from store.errors import StoreError
from store.keys import Wake
from watcher.host.loops import Hint, HintKind, HintWord, keep_going

CHANNEL: Final = "asset_watcher_hints"
NOT_BEFORE: Final = 0.01
"""Seconds between two notifications of one process."""
ANSWER_WITHIN: Final = 2.0
"""Seconds within which a listening session hears what another of our sessions sends."""
POLL_EVERY: Final = 1.0
"""Seconds between two checks of everything while nothing can be heard."""
RETRY_LISTENING_AFTER: Final = 30
"""The number of checks after which listening is retried."""
_OF_RUNS: Final[Sequence[HintKind]] = ("queues", "tries", "outbox")
_UNHEARD: Final = (
    "hints of other processes are not received through settings.database.url, so this process checks everything every "
    "second; give an address with no transaction pooler in between"
)

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class HintRelay:
    """Sends hints to other processes, and passes their hints to `deliver`."""

    database: Database
    process_id: str
    deliver: Callable[[Hint], None]
    _outbox: dict[HintWord, frozenset[str]] = field(default_factory=dict)
    _filled: anyio.Event = field(default_factory=anyio.Event)
    _settled: anyio.Event = field(default_factory=anyio.Event)
    _expected: str = ""
    _answered: anyio.Event = field(default_factory=anyio.Event)

    def send(self, hint: Hint) -> None:
        """Send a hint to all other processes soon. Hints of one kind are merged; no names mean all."""
        before = self._outbox.get(hint.what, hint.names)
        self._outbox[hint.what] = before | hint.names if before and hint.names else frozenset()
        self._filled.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send and receive until cancelled; what was given to `send` before is still sent.

        Counts as started once it is known whether other processes are heard.
        """
        if self.database.dialect == "sqlite":
            task_status.started()
            await anyio.sleep_forever()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_all)
            tasks.start_soon(self._receive_all)
            await self._settled.wait()
            task_status.started()

    async def _receive_all(self) -> None:
        while True:
            async with keep_going("hints.listening_failed"):
                await self._listen()
            self._settled.set()
            for _ in range(RETRY_LISTENING_AFTER):
                self._deliver_all()
                await anyio.sleep(POLL_EVERY)

    async def _listen(self) -> None:
        """Listen for as long as a session that hears can be opened."""
        while True:
            async with listening(self.database, CHANNEL, self._receive) as listener:
                if not await self._hears():
                    if not self._settled.is_set():
                        log.warning("hints.unheard", reason=_UNHEARD)
                    return
                log.info("hints.listening", channel=CHANNEL)
                self._settled.set()
                self._deliver_all()  # some may have been lost before
                await listener.wait_until_lost()
            log.warning("hints.session_lost")

    async def _hears(self) -> bool:
        """Return whether the session hears what another of our sessions sends."""
        self._expected, self._answered = uuid.uuid4().hex, anyio.Event()
        await notify(self.database, CHANNEL, [json.dumps({"probe": self._expected})])
        with anyio.move_on_after(ANSWER_WITHIN):
            await self._answered.wait()
        return self._answered.is_set()

    def _receive(self, text: str) -> None:
        try:
            received = json.loads(text)
            if received.get("probe") == self._expected:
                self._answered.set()
            elif received.get("from") not in {None, self.process_id}:
                self.deliver(Hint(what=received["what"], names=frozenset(received["names"])))
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("hints.not_understood", text=text[:200])  # anybody may notify on a channel

    def _deliver_all(self) -> None:
        for what in get_args(HintKind):
            self.deliver(Hint(what=what))

    async def _send_all(self) -> None:
        try:
            while True:
                await self._filled.wait()
                await self._flush()
                await anyio.sleep(NOT_BEFORE)
        finally:
            await self._flush()

    async def _flush(self) -> None:
        """Send what waits, also when cancelled. A hint that cannot be sent is lost; the next check of everything makes up for it."""
        outbox, self._outbox, self._filled = self._outbox, {}, anyio.Event()
        if not outbox:
            return
        with anyio.CancelScope(shield=True):
            try:
                await notify(self.database, CHANNEL, [self._text(what, names) for what, names in outbox.items()])
            except (OSError, SQLAlchemyError, StoreError) as error:
                log.warning("hints.not_sent", error=str(error), kind=type(error).__name__)

    def _text(self, what: HintWord, names: frozenset[str]) -> str:
        hint = {"from": self.process_id, "what": what, "names": sorted(names)}
        text = json.dumps(hint)
        return text if len(text) <= LONGEST else json.dumps({**hint, "names": []})


@dataclass(kw_only=True, eq=False)
class HintExchange:
    """Wakes whoever has something to do after a commit: listeners in this process, and other processes by the relay."""

    relay: HintRelay
    leads: Callable[[], bool]
    """Tells whether this process is the leader, as far as it knows."""
    _listeners: dict[HintWord, list[Callable[[frozenset[str]], None]]] = field(default_factory=dict)
    _witnesses: list[Callable[[], None]] = field(default_factory=list)

    def listen(self, what: HintWord, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` with the names of each hint of this kind from now on. No names mean all."""
        self._listeners.setdefault(what, []).append(listener)

    def watch(self, witness: Callable[[], None]) -> None:
        """Call `witness` at every hint, before its listeners."""
        self._witnesses.append(witness)

    def give(self, hint: Hint) -> None:
        """Deliver a hint here and to other processes. Queues and outbox are the leader's: it keeps those hints."""
        self.deliver(hint)
        if hint.what not in {"queues", "outbox"} or not self.leads():
            self.relay.send(hint)

    def wake(self, whom: Collection[Wake]) -> None:
        """Give the hints that the hooks of a commit asked for."""
        for what in whom:
            self.give(Hint(what=what))

    def deliver(self, hint: Hint) -> None:
        """Deliver a hint in this process only."""
        for witness in self._witnesses:
            witness()
        for listener in self._listeners.get(hint.what, ()):
            listener(hint.names)

    def look_for_runs(self) -> None:
        """Let this process look at every queue, every try and the outbox: it leads now, or there is room for a run."""
        for what in _OF_RUNS:
            self.deliver(Hint(what=what))

    def after_try(self) -> None:
        """Let the leader look for what may start instead of a try that ended."""
        self.look_for_runs()
        if not self.leads():
            self.relay.send(Hint(what="queues"))
            self.relay.send(Hint(what="tries"))
