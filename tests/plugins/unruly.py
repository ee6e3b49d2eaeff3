"""Triggers that misbehave as their option `does` says."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

import anyio

from triggers.base import BaseEventTrigger, BaseOptions, Finding, Position, StoredPosition, TriggerBatch, TriggerEvent


class UnrulyOptions(BaseOptions):
    does: str
    """The misbehaviour: `<what>` or `<where> <what>`. The place is constructor or check; without one it is events."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


RAISED: dict[str, Any] = {
    "raises": lambda: OSError("the source is a hostile place"),
    "raises-cancelled": asyncio.CancelledError,
    "raises-exit": lambda: SystemExit(3),
    "raises-interrupt": KeyboardInterrupt,
    "raises-memory": MemoryError,
    "raises-recursion": RecursionError,
    "raises-group": lambda: BaseExceptionGroup("many", [KeyboardInterrupt(), OSError("one of two")]),
    "raises-unspeakable": Unspeakable,
    "raises-generator-exit": GeneratorExit,
}


def event(number: int, **payload: Any) -> TriggerEvent:
    return TriggerEvent(count=1, watermark={"from": number, "to": number + 1}, payload=payload)


def batch(number: int, *events: Any) -> TriggerBatch:
    return TriggerBatch(events=events, position=Position(watermark={"read": number}, state={"read": number}))


GARBAGE: dict[str, Any] = {
    "yields-garbage": lambda: "a batch, honestly",
    "yields-none": lambda: None,
    "yields-nan": lambda: batch(1, event(0, value=float("nan"))),
    "yields-object": lambda: batch(1, event(0, value=object())),
    "yields-surrogate": lambda: batch(1, event(0, value="\ud800")),
    "yields-no-event": lambda: batch(1, "an event, honestly"),
}


class UnrulyTrigger(BaseEventTrigger[UnrulyOptions, None]):
    Options = UnrulyOptions

    def __init__(self, options: UnrulyOptions, client: None, context: Any) -> None:
        super().__init__(options, client, context)
        where, _, what = options.does.rpartition(" ")
        self.where, self.what = where or "events", what
        self.held: list[bytes] = []
        if self.where == "constructor":
            self.misbehave()

    def misbehave(self) -> None:
        if self.what in RAISED:
            error = RAISED[self.what]()
            raise error
        if self.what == "exits":
            sys.exit(3)
        if self.what == "sleeps":
            time.sleep(30)
        if self.what == "spins":
            while True:
                pass
        if self.what == "dies":
            os._exit(3)

    async def misbehave_slowly(self) -> None:
        self.misbehave()
        if self.what == "hangs":
            await anyio.sleep_forever()
        if self.what == "cancels-its-task":
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await anyio.lowlevel.checkpoint()
        if self.what == "dies-behind":
            self.behind = asyncio.create_task(self.die())
            await anyio.sleep_forever()
        while self.what == "ignores-cancellation":
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                gc.collect(0)

    async def die(self) -> None:
        raise OSError("nobody waits for this")

    async def check(self) -> list[Finding]:
        if self.where == "check":
            await self.misbehave_slowly()
        return []

    def source_identity(self) -> str:
        return self.options.does

    async def events(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        read = 0 if position is None else int(str(position.state["read"]))
        await self.misbehave_slowly()
        if self.what in GARBAGE:
            yield GARBAGE[self.what]()
        if self.what == "yields-many":
            yield batch(100_000, *(event(number) for number in range(100_000)))
        if self.what == "yields-much":
            yield batch(1, event(0, text="x" * 50_000_000))
        while self.what == "never-awaits":
            yield TriggerBatch()
        while self.what == "floods":
            yield batch(read := read + 1, event(read))
        while self.what == "leaks":
            self.held.append(os.urandom(10_000_000))
            yield TriggerBatch()
            await anyio.sleep(0.05)
        yield TriggerBatch()
        if self.what == "raises-after-a-batch":
            raise KeyboardInterrupt
        await anyio.sleep_forever()
