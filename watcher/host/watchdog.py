"""A thread that notices a blocked event loop, names the task that blocks it, and ends a process that cannot stop.

The thread also receives signals, so that SIGTERM is heard whatever the event loop does. The daemon's tasks do the rest of
stopping, within the grace period that begins here.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from watcher.host.metrics import Metrics

ASK_EVERY: Final = 0.25
BLOCKED_AFTER: Final = 1.0
"""Seconds without an answer of the event loop after which the blocking task is named."""
REMEMBERED: Final = 300.0
"""Seconds for which health reports a block that is over."""
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
HEARD: Final = (*STOPPING, signal.SIGHUP)
WATCHER_TASK: Final = "watcher "
"""The prefix of the names of tasks that run a watcher."""

log = structlog.get_logger()

Signals = MemoryObjectReceiveStream[signal.Signals]


@dataclass(frozen=True, kw_only=True)
class Block:
    """A time in which one task blocked the event loop. `watcher` is empty when it was no watcher's task."""

    task: str
    watcher: str
    since: float
    seconds: float


@dataclass(kw_only=True, eq=False)
class Watchdog:
    """Watches the event loop in which `watching` is entered."""

    grace: timedelta
    metrics: Metrics
    on_hangup: Callable[[], None] = lambda: None
    """Called on the event loop at a SIGHUP."""
    _asked_at: float | None = None
    _block: Block | None = None
    _past: Block | None = None
    _end_by: float | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self) -> Iterator[Signals]:
        """Watch until the block ends, and yield the SIGTERMs and SIGINTs that come. Call it in the main thread, on the running loop."""
        send, receive = anyio.create_memory_object_stream[signal.Signals](16)
        ours, wakeup = socket.socketpair()
        wakeup.setblocking(False)
        loop, main = asyncio.get_running_loop(), threading.get_ident()
        thread = threading.Thread(target=self._watch, args=(loop, main, ours, send), name="watchdog", daemon=True)
        handlers = {number: signal.signal(number, lambda *_: None) for number in HEARD}
        before = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        thread.start()
        try:
            yield receive
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._over.set()
            wakeup.close()
            receive.close()

    def end_within_grace(self) -> None:
        """Give the process `grace` to stop from now on. A kill at any time loses nothing; a hanging stop helps nobody."""
        if self._end_by is None:
            self._end_by = time.monotonic() + self.grace.total_seconds()

    @property
    def recent_block(self) -> Block | None:
        """The newest block of the last minutes, for health, or None."""
        past = self._past
        return past if past is not None and time.monotonic() < past.since + past.seconds + REMEMBERED else None

    def _watch(
        self,
        loop: asyncio.AbstractEventLoop,
        main: int,
        received: socket.socket,
        signals: MemoryObjectSendStream[signal.Signals],
    ) -> None:
        with received:
            while not self._over.is_set():
                if select.select([received], [], [], ASK_EVERY)[0]:
                    self._receive(loop, received.recv(64), signals)
                if self._over.is_set() or loop.is_closed():
                    return
                self._ask(loop, main)
                if self._end_by is not None and time.monotonic() > self._end_by:
                    _end(loop, main)

    def _receive(
        self, loop: asyncio.AbstractEventLoop, numbers: bytes, signals: MemoryObjectSendStream[signal.Signals]
    ) -> None:
        for number in numbers:
            if number in STOPPING:
                self.end_within_grace()
                loop.call_soon_threadsafe(_send, signals, signal.Signals(number))
            elif number == signal.SIGHUP:
                loop.call_soon_threadsafe(self.on_hangup)

    def _ask(self, loop: asyncio.AbstractEventLoop, main: int) -> None:
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            loop.call_soon_threadsafe(self._answer)
        elif now - self._asked_at > BLOCKED_AFTER and self._block is None:
            task, watcher = _culprit(loop)
            self._block = Block(task=task, watcher=watcher, since=self._asked_at, seconds=0.0)
            about = {"watcher": watcher} if watcher else {}
            (log.error if watcher else log.warning)(
                "loop.blocked",
                task=task,
                stack=_stack(main),
                remedy="it must await instead of blocking; isolation: process keeps a trigger from blocking others",
                **about,
            )

    def _answer(self) -> None:
        asked_at, self._asked_at = self._asked_at, None
        if asked_at is None:
            return
        lag = time.monotonic() - asked_at
        self.metrics.loop_lag.observe(lag)
        block, self._block = self._block, None
        if block is not None:
            self._past = Block(task=block.task, watcher=block.watcher, since=block.since, seconds=lag)
            self.metrics.blocked.labels(block.watcher).inc(lag)
            log.warning("loop.free", task=block.task, seconds=round(lag, 1))


def _send(signals: MemoryObjectSendStream[signal.Signals], number: signal.Signals) -> None:
    try:
        signals.send_nowait(number)
    except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # nobody waits for a signal any more


def _culprit(loop: asyncio.AbstractEventLoop) -> tuple[str, str]:
    """Return the running task and its watcher, known by the task's name or by its log context."""
    task = asyncio.current_task(loop)
    if task is None:
        return "a callback", ""
    name = task.get_name()
    if name.startswith(WATCHER_TASK):
        return name, name.removeprefix(WATCHER_TASK)
    context: Mapping[Any, Any] = getattr(task, "get_context", dict)()  # Python 3.12
    bound = {variable.name: value for variable, value in context.items()}
    return name, str(bound.get("structlog_watcher", ""))


def _stack(thread: int) -> list[str]:
    frame = sys._current_frames().get(thread)  # noqa: SLF001  the standard library's way to ask
    return [] if frame is None else [line.strip() for line in traceback.format_stack(frame)[-12:]]


def _end(loop: asyncio.AbstractEventLoop, main: int) -> None:
    def tell() -> None:
        names = sorted(task.get_name() for task in asyncio.all_tasks(loop))
        watchers = [name for name in names if name.startswith(WATCHER_TASK)]
        log.error("daemon.stop_overdue", task=_culprit(loop)[0], watchers=watchers, stack=_stack(main))

    telling = threading.Thread(target=tell, daemon=True)  # a log that hangs must not keep the process
    telling.start()
    telling.join(timeout=2)
    os._exit(1)


async def force_shutdown(signals: Signals, workers: TaskGroup) -> None:
    """Stop waiting for jobs at a second signal."""
    await signals.receive()
    workers.cancel_scope.cancel()
