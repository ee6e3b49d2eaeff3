"""A very cheap trigger: it emits one event for each number up to the number in a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

from triggers.base import (
    BaseOptions,
    Finding,
    IncrementalTrigger,
    Position,
    StoredPosition,
    TriggerBatch,
    TriggerEvent,
)


class CounterOptions(BaseOptions):
    path: Path
    interval_ms: int = 500
    looks: Path | None = None
    """A file that gets a line for each poll: its time by `time.monotonic`."""


class CounterTrigger(IncrementalTrigger[CounterOptions, None]):
    Options = CounterOptions
    _counted: int | None = None

    @property
    def interval(self) -> timedelta:
        return timedelta(milliseconds=self.options.interval_ms)

    async def check(self) -> list[Finding]:
        return []

    def source_identity(self) -> str:
        return str(self.options.path)

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        if self._counted is None:
            state: Any = {"counted": 0} if position is None else position.state
            self._counted = state["counted"]
        if self.options.looks is not None:
            with self.options.looks.open("a") as looks:
                looks.write(f"{monotonic()}\n")
        number = int(self.options.path.read_text())
        if self._counted < number:
            events = [
                TriggerEvent(count=1, watermark={"from": n - 1, "to": n}, payload={"number": n})
                for n in range(self._counted + 1, number + 1)
            ]
            self._counted = number
            place = {"counted": number}
            yield TriggerBatch(events=events, position=Position(watermark=place, state=place))
