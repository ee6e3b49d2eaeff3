"""Live changes for streams: one reader of the database for all clients of a process, and none while no client listens.

No task polls: the client that wakes first, after an interval or at a hint, reads and hands the changes to the others.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

import anyio
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.runs.actions.changes import ChangeFeed, ChangeSet
from triggers.shared.delays import sleep_for
from watcher.host.loops import keep_going

ChangeType: TypeAlias = Literal["asset_event", "run", "try", "watcher", "store"]
TYPES: Final[tuple[ChangeType, ...]] = get_args(ChangeType)
MOST_KEPT: Final = 10_000
"""ChangeFeed that are kept for clients that reconnect."""
MOST_PENDING: Final = 1_000_000
"""Characters that may be pending for a slow client before its stream ends."""
POLL_INTERVAL: Final = 1.0
"""Seconds between two polls of the database without a hint."""
SHORTEST_INTERVAL: Final = 0.5
"""Seconds between two polls at least, however many hints come."""
FORGOTTEN_AFTER: Final = 60.0
"""Seconds without a poll after which cursors expire: the next client starts a new reader."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of one resource. `data` is JSON in the shape that REST has for it."""

    type: ChangeType
    data: str
    asset_id: int | None = None
    dag_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChangeFilter:
    """The changes that a client listens to. None accepts every asset, or every job."""

    types: Collection[ChangeType] = TYPES
    asset_id: int | None = None
    dag_id: str | None = None

    def takes(self, change: Change) -> bool:
        return (
            change.type in self.types
            and self.asset_id in (None, change.asset_id)
            and self.dag_id in (None, change.dag_id)
        )


Shown: TypeAlias = Callable[[AsyncConnection, ChangeSet], Awaitable[list[Change]]]
"""Turns the rows of a poll into changes."""


@dataclass(kw_only=True, eq=False)
class _Listener:
    selection: ChangeFilter
    pending: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, text: str) -> None:
        self.pending.append(text)
        self.size += len(text)

    def take(self) -> str:
        text = "".join(self.pending)
        self.pending.clear()
        self.size = 0
        return text


@dataclass(kw_only=True, eq=False)
class LiveChanges:
    """The live changes of one process.

    A cursor consists of the reader's name and the change's number. After a period without clients a new reader is started.
    """

    most_kept: int = MOST_KEPT
    most_pending: int = MOST_PENDING
    _reader: ChangeFeed | None = None
    _name: str = ""
    _number: int = 0
    _kept: deque[tuple[int, Change]] = field(default_factory=deque)
    _listeners: set[_Listener] = field(default_factory=set)
    _polled_at: float = 0.0
    _polling: anyio.Lock = field(default_factory=anyio.Lock)
    _woken: anyio.Event = field(default_factory=anyio.Event)
    _handed_out: anyio.Event = field(default_factory=anyio.Event)

    def wake(self) -> None:
        """Note that something may have changed. It costs nothing while no client listens."""
        if self._listeners:
            self._woken.set()

    async def follow(
        self, database: Database, shown: Shown, selection: ChangeFilter, last: str | None, stopping: anyio.Event
    ) -> AsyncGenerator[str, None]:
        """Yield server-sent events from now on, or from the change after the cursor `last` on. The first step never waits.

        Yields an empty text when a poll found nothing new. Ends with `stopping`, and for a client that is too far behind.
        """
        await self._poll(database, shown, after=SHORTEST_INTERVAL)
        with self._joined(selection) as listener:
            if last is not None:
                self._replay(listener, last)
            while not stopping.is_set() and listener.size <= self.most_pending:
                yield listener.take()
                await self._rest(stopping)
                await self._poll(database, shown, after=SHORTEST_INTERVAL if self._woken.is_set() else POLL_INTERVAL)

    async def _rest(self, stopping: anyio.Event) -> None:
        """Wait until a poll is due, a hint comes, another client's poll has found changes, or the process ends."""
        with anyio.move_on_after(POLL_INTERVAL):
            async with anyio.create_task_group() as tasks:
                for event in (stopping, self._woken, self._handed_out):
                    tasks.start_soon(_end_at, event, tasks.cancel_scope)
        if self._woken.is_set() and not stopping.is_set():
            await sleep_for(self._polled_at + SHORTEST_INTERVAL - anyio.current_time())

    async def _poll(self, database: Database, shown: Shown, *, after: float) -> None:
        """Poll the database, except when the last poll was less than `after` seconds ago."""
        async with self._polling:
            now = anyio.current_time()
            if self._reader is not None and now - self._polled_at < after:
                return
            if self._woken.is_set():
                self._woken = anyio.Event()
            reader, self._reader = self._reader, None  # a reader that fails is not used again
            async with keep_going("changes.look_failed"), database.reading() as connection:
                if reader is None or now - self._polled_at > FORGOTTEN_AFTER:
                    reader = await ChangeFeed.begin(connection)
                    self._restart()
                else:
                    self._hand_out(await shown(connection, await reader.poll(connection)))
                self._reader = reader
            self._polled_at = anyio.current_time()

    def _restart(self) -> None:
        self._name, self._number = uuid.uuid4().hex[:12], 0
        self._kept.clear()
        for listener in self._listeners:
            listener.add(self._reset)

    @property
    def _reset(self) -> str:
        """The event after which a client has to read everything again that it shows."""
        return f"event: reset\nid: {self._name}-{self._number}\ndata: {{}}\n\n"

    def _hand_out(self, changes: Collection[Change]) -> None:
        for change in changes:
            self._number += 1
            self._kept.append((self._number, change))
            if len(self._kept) > self.most_kept:
                self._kept.popleft()
            for listener in self._listeners:
                if listener.selection.takes(change):
                    listener.add(self._text(self._number, change))
        if changes:
            self._handed_out.set()
            self._handed_out = anyio.Event()

    def _replay(self, listener: _Listener, last: str) -> None:
        """Add the changes after the cursor, or a reset if the cursor has expired or they are too many."""
        name, _, number = last.partition("-")
        first = self._kept[0][0] if self._kept else self._number + 1
        if name != self._name or not number.isdecimal() or not first - 1 <= int(number) <= self._number:
            listener.add(self._reset)
            return
        for place, change in self._kept:
            if place > int(number) and listener.selection.takes(change):
                listener.add(self._text(place, change))
        if listener.size > self.most_pending:  # its stream would end, and it would come back with the same cursor
            listener.take()
            listener.add(self._reset)

    def _text(self, number: int, change: Change) -> str:
        return f"event: {change.type}\nid: {self._name}-{number}\ndata: {change.data}\n\n"

    @contextmanager
    def _joined(self, selection: ChangeFilter) -> Iterator[_Listener]:
        listener = _Listener(selection=selection)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)


async def _end_at(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
