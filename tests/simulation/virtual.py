"""Virtual time: an event loop whose clock jumps to the next timer, and everything else that a program reads from its machine.

Simulated processes share the loop. Which one a piece of code belongs to is in its context, so each has a clock of its own, can be
frozen, and can be dropped without being resumed.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import random
import selectors
import time
from asyncio import events, format_helpers
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar
from datetime import UTC, date, datetime, tzinfo
from heapq import heapify, heappop, heappush
from random import Random
from typing import Any, Final, Protocol
from zlib import crc32

import anyio
from anyio._backends._asyncio import AsyncIOBackend
from anyio.lowlevel import checkpoint

real_time: Final = time.perf_counter
"""The real seconds, taken before they are replaced."""
EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
"""The time at which every history begins."""
SLOW: Final = 0.02
"""The share of what happens at an edge that takes long."""


class Simulated(Protocol):
    """A simulated process, as its clock and the loop know it."""

    offset: float
    """Seconds by which its clock is ahead."""
    is_dead: bool
    held: list[asyncio.Handle] | None
    """What it would have done while it is frozen; None while it is not."""


BUSY: Final = 100
"""The rounds of the loop without a wait after which each takes time: a scope that is cancelled spins until what it shields ends."""
SPINNING: Final = 0.002
"""The seconds that such a round takes."""

PROCESS: Final[ContextVar[Simulated | None]] = ContextVar("simulated process", default=None)
"""The process that a piece of code belongs to. None: the world outside."""


class _Timeless(selectors.SelectSelector):
    """A selector that waits for nothing: it lets the time pass that the loop would have waited."""

    now = 0.0
    _busy = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen again in this history")
        self._busy = 0 if timeout > 0 else self._busy + 1
        self.now += max(timeout, SPINNING if self._busy > BUSY else 0)
        return []


def _may_run(handle: asyncio.Handle) -> bool:
    process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
    if process is None:
        return True
    if process.held is not None and not process.is_dead:
        process.held.append(handle)
    return process.held is None and not process.is_dead


_FEW: Final = 100
"""The timers below which cancelled ones stay among them, as asyncio has it."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that never waits. Tasks of a frozen process wait for its end, those of a dead one are never resumed."""

    def __init__(self, seed: int) -> None:
        self._timeless = _Timeless()
        super().__init__(self._timeless)
        self.random = Random(seed)
        self.ahead = 0.0
        """Seconds by which the clocks of the world are ahead of the loop: time that passed while nothing ran."""
        self.pace = 1.0
        """How slow everything at the edges is."""
        self.trace: list[str] = []
        self.digest = 0
        """Of everything that happened so far."""
        self._tasks: list[asyncio.Task[Any]] = []
        self.set_task_factory(self._kept)  # type: ignore[arg-type]
        self.set_exception_handler(lambda _loop, context: self.note("loop", str(context.get("message"))))

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None  # no thread ever wakes it

    def _close_self_pipe(self) -> None: ...

    def time(self) -> float:
        return self._timeless.now

    def _run_once(self) -> None:
        """Make a round of the loop: asyncio's own, in the same order, with nothing in it that a selector or debugging needs."""
        loop: Any = self
        scheduled, ready = loop._scheduled, loop._ready
        if len(scheduled) > _FEW and loop._timer_cancelled_count / len(scheduled) > 0.5:
            for timer in scheduled:
                timer._scheduled = not timer._cancelled
            loop._scheduled = scheduled = [timer for timer in scheduled if not timer._cancelled]
            heapify(scheduled)
            loop._timer_cancelled_count = 0
        else:
            while scheduled and scheduled[0]._cancelled:
                loop._timer_cancelled_count -= 1
                heappop(scheduled)._scheduled = False
        if ready or loop._stopping:
            self._timeless.select(0)
        else:
            self._timeless.select(max(0, scheduled[0]._when - self._timeless.now) if scheduled else None)
        until = self._timeless.now + loop._clock_resolution
        while scheduled and scheduled[0]._when < until:
            timer = heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled and _may_run(handle):
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException:  # noqa: BLE001  the loop goes on, as asyncio's does
                    source = format_helpers._format_callback_source(handle._callback, handle._args)
                    self.note("loop", f"Exception in callback {source}")

    def _kept(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        """Make a task that stays until the history ends: dropping one would close it, and run what a crash does not run."""
        task = asyncio.Task(coroutine, loop=loop, **options)
        self._tasks.append(task)
        return task

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = events.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._timeless.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        timer = events.TimerHandle(when, callback, args, self, context)
        heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # noqa: ARG002  it has none
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  who waits for it raises it
            future.set_exception(error)
        return future

    def thaw(self, process: Simulated) -> None:
        """Let a frozen process go on: everything at once that it missed, in order."""
        held, process.held = process.held or [], None
        self._ready.extend(held)  # type: ignore[attr-defined]

    def delay(self) -> float:
        """Draw the seconds that something at an edge takes."""
        longest = 2.0 if self.random.random() < SLOW else 0.01
        return self.random.random() * longest * self.pace

    def note(self, kind: str, text: str = "") -> None:
        """Add a line to the trace."""
        line = f"{self._timeless.now:.6f} {kind} {text}"
        self.digest = crc32(line.encode(), self.digest)
        if kind != "sql":
            self.trace.append(line)


def current() -> VirtualLoop:
    return asyncio.get_running_loop()  # type: ignore[return-value]  # there is no other in this program


def world_time(offset: float = 0.0) -> datetime:
    """Return the time of the world, which is the database's."""
    return datetime.fromtimestamp(EPOCH + current().ahead + current().time() + offset, UTC)


def _seconds() -> float:
    """Return the time by the clock of the process that asks."""
    loop = events._get_running_loop()
    process = PROCESS.get()
    elapsed = loop.ahead + loop.time() if isinstance(loop, VirtualLoop) else 0.0
    return EPOCH + elapsed + (0.0 if process is None else process.offset)


def _monotonic() -> float:
    loop = events._get_running_loop()
    return loop.time() + 1000.0 if isinstance(loop, VirtualLoop) else 0.0


def install() -> None:
    """Replace what a program reads from its machine, for this whole process. Call it before anything of the product is imported.

    `datetime` is a C class that everybody has imported by name, so its own members are replaced.
    """
    time.time = _seconds
    time.time_ns = lambda: round(_seconds() * 1_000_000) * 1000
    time.monotonic = time.perf_counter = _monotonic
    time.monotonic_ns = time.perf_counter_ns = lambda: round(_monotonic() * 1_000_000_000)
    time.clock_gettime = lambda _clock: _monotonic()
    time.clock_gettime_ns = lambda _clock: round(_monotonic() * 1_000_000_000)
    os.urandom = random._urandom = random.randbytes  # type: ignore[attr-defined]

    def now(cls: type[datetime], tz: tzinfo | None = None) -> datetime:
        return cls.fromtimestamp(_seconds(), tz)

    def utcnow(cls: type[datetime]) -> datetime:
        return cls.fromtimestamp(_seconds(), UTC).replace(tzinfo=None)

    def today(cls: type[date]) -> date:
        return cls.fromtimestamp(_seconds())

    _replace(datetime, {"now": classmethod(now), "utcnow": classmethod(utcnow), "today": classmethod(today)})
    _replace(date, {"today": classmethod(today)})
    AsyncIOBackend.run_sync_in_worker_thread = classmethod(_in_line)  # type: ignore[method-assign, assignment]


def _replace(type_: type, members: Mapping[str, Any]) -> None:
    [namespace] = gc.get_referents(type_.__dict__)
    namespace.update(members)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(type_))


async def _in_line(_backend: Any, func: Callable[..., Any], args: tuple[Any, ...], *_: Any, **__: Any) -> Any:
    """Stand for a thread: the call takes its time, and is made at once."""
    await anyio.sleep(current().delay())
    result = func(*args)
    await checkpoint()
    return result


def put(place: object, **members: object) -> None:
    """Put other members in the place of a module's or a class's, for this whole process."""
    for name, member in members.items():
        setattr(place, name, member)


def reseed(seed: int) -> None:
    """Let everything that draws draw by the seed."""
    random.seed(seed)
