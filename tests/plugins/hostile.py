"""Misbehaving triggers, and a well-behaved one, `Witness`, that counts its polls."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import mmap
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import structlog

from triggers.base import (
    BaseOptions,
    Finding,
    IncrementalTrigger,
    Position,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerEvent,
)
from triggers.errors import ConfigurationError
from triggers.options import Duration


class HostileOptions(BaseOptions):
    interval: Duration = timedelta(milliseconds=100)
    behaviour: str = ""
    """The misbehaviour, '' for none."""
    at: str = "poll"
    """The moment of the misbehaviour: init, check or poll."""
    until: Path | None = None
    """The trigger behaves well while this file exists."""
    last: int | None = None
    """The number at which the trigger stops counting."""


class Counter(IncrementalTrigger[HostileOptions, None]):
    """Yields 1, 2, 3, …, one event and one row of its position for each poll."""

    Options = HostileOptions
    _count: int | None = None

    def __init__(self, options: HostileOptions, client: None, context: Any) -> None:
        super().__init__(options, client, context)
        if options.at == "init":
            self.misbehave()

    @property
    def interval(self) -> timedelta:
        return self.options.interval

    async def check(self) -> list[Finding]:
        if self.options.at == "check":
            await self.misbehave_awaiting()
        return [Finding.ok("counter", "it counts")]

    def source_identity(self) -> Any:
        return {"counter": 1}

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        if self._count is None:
            self._count = 0 if position is None else position.state["count"]  # type: ignore[assignment]
            assert set(position.rows if position else ()) == set(range(1, self._count + 1))
        if self.options.at == "poll":
            await self.misbehave_awaiting()
        if self.options.last is None or self._count < self.options.last:
            self._count += 1
            yield tick(self._count)

    def rewound(self, position: StoredPosition | None, to: str) -> Position:  # noqa: ARG002  the contract's parameter
        if not to.isdecimal():
            raise ConfigurationError(f"there is no number {to!r}; give one")
        count = int(to)
        rows = RowChanges(clear=True, insert=dict.fromkeys(range(1, count + 1), 0))
        return Position(watermark={"up_to": count}, state={"count": count}, rows=rows)

    async def misbehave_awaiting(self) -> None:
        if self.options.behaviour in {"hang", "swallow_cancellation"} and not self.is_good():
            while True:
                try:
                    await anyio.sleep_forever()
                except asyncio.CancelledError:
                    if self.options.behaviour == "hang":
                        raise
        self.misbehave()
        await anyio.lowlevel.checkpoint()

    def is_good(self) -> bool:
        return self.options.until is not None and self.options.until.exists()

    def misbehave(self) -> None:
        if not self.is_good():
            BEHAVIOURS.get(self.options.behaviour, lambda: None)()


class Witness(Counter):
    """Counts and behaves well."""


class Garbage(Counter):
    """Yields something that is not a batch, or too large a batch, as `behaviour` says."""

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        one = TriggerEvent(count=1, watermark={"from": 0, "to": 1}, payload={})
        position_of_one = Position(watermark=1, state={"count": 1})
        match self.options.behaviour:
            case "text":
                yield "garbage"
            case "not_json":
                event = TriggerEvent(count=1, watermark={}, payload={"moment": object()})
                yield TriggerBatch(events=[event], position=position_of_one)
            case "many":
                yield TriggerBatch(events=[one] * 100_000, position=position_of_one)
            case "large":
                event = TriggerEvent(count=1, watermark={}, payload={"text": "x" * 50_000_000})
                yield TriggerBatch(events=[event], position=position_of_one)
            case "rows":
                rows = RowChanges(insert=dict.fromkeys(range(1_100_000), 0))
                yield TriggerBatch(position=Position(watermark=1, state={}, rows=rows))
            case "protocol":
                os.write(3, b"\xff" * 64)
                await anyio.sleep_forever()


class Logger(Counter):
    """Prints and logs at each poll."""

    def misbehave(self) -> None:
        print("printed by the trigger")  # noqa: T201
        print("printed on stderr", file=sys.stderr)  # noqa: T201
        structlog.get_logger().warning("board.slow", seconds=3, watcher="somebody_else")
        structlog.get_logger().warning("ä" * 30_000, share=float("nan"), dag_id="a", run_id="b", level="loud")
        logging.getLogger("a.library").warning("longer than %s", "ä" * 30_000)


class Hoarder(Counter):
    """Yields one position of `last` rows, and expects it at its next start."""

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        rows = dict.fromkeys(range(self.options.last or 0), 1)
        if position is not None:
            assert position.rows == rows
            self._count = 0
        if self._count is None:
            self._count = 0
            yield TriggerBatch(position=Position(watermark=1, state={"rows": len(rows)}, rows=RowChanges(insert=rows)))


class Spy(Counter):
    """Yields a watermark with what it sees of the machine and the process."""

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        if position is None and self._count is None:
            self._count = 1
            initial = Path("/proc/self/environ").read_text().split("\0")
            seen = {
                "environment": [*os.environ],
                "initial_values": [entry.partition("=")[2] for entry in initial],
                "descriptors": len([*Path("/proc/self/fd").iterdir()]),
                "leads_its_session": os.getsid(0) == os.getpid(),
            }
            yield TriggerBatch(position=Position(watermark=seen, state={"count": 1}))


def tick(count: int) -> TriggerBatch:
    event = TriggerEvent(count=1, watermark={"from": count - 1, "to": count}, payload={"number": count})
    rows = RowChanges(insert={count: 0})
    position = Position(watermark={"up_to": count}, state={"count": count}, rows=rows)
    return TriggerBatch(events=[event], position=position)


def spin() -> None:
    """Block without awaiting, and leave the processors to other tests. The torture has triggers that do not."""
    while True:
        time.sleep(0.001)


def spin_in_c() -> None:
    """Hold the interpreter's lock for ever."""
    ctypes.PyDLL(None).pause()


def recurse() -> None:
    recurse()


def leak(held: list[bytearray] = []) -> None:  # noqa: B006  the leak
    held.append(bytearray(os.urandom(1) * 10_000_000))


def leak_shared(held: list[mmap.mmap] = []) -> None:  # noqa: B006  the leak
    """Allocate memory that RLIMIT_DATA does not count."""
    held.append(mmap.mmap(-1, 20_000_000))
    held[-1].write(b"x" * 20_000_000)


def allocate() -> None:
    bytearray(4_000_000_000)


def print_endlessly() -> None:
    while True:
        print("endless " * 10)  # noqa: T201


def die_in_the_background() -> None:
    async def die() -> None:
        raise KeyError("in the background")

    asyncio.get_running_loop().create_task(die())


def exit_in_the_background() -> None:
    async def die() -> None:
        sys.exit(7)

    asyncio.get_running_loop().create_task(die())


def ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    spin()


def raising(error: BaseException) -> Any:
    def behave() -> None:
        raise error

    return behave


BEHAVIOURS = {
    "key_error": raising(KeyError("a key")),
    "cancelled": raising(asyncio.CancelledError()),
    "system_exit": raising(SystemExit(3)),
    "keyboard_interrupt": raising(KeyboardInterrupt()),
    "memory_error": allocate,
    "recursion": recurse,
    "exit": lambda: os._exit(5),
    "abort": os.abort,
    "sleep": lambda: time.sleep(30),
    "spin": spin,
    "spin_in_c": spin_in_c,
    "leak": leak,
    "leak_shared": leak_shared,
    "print": print_endlessly,
    "background": die_in_the_background,
    "background_exit": exit_in_the_background,
    "ignore_signals": ignore_signals,
}
