"""The least a host of triggers must do: keep the last committed position of one watcher."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import anyio

from tests.effort import PATIENCE
from triggers.base import BaseEventTrigger, JsonValue, Position, RejectedItem, StoredPosition, TriggerEvent
from triggers.errors import TriggerError

TriggerT = TypeVar("TriggerT", bound=BaseEventTrigger[Any, Any])


class DictHost:
    """Positions and events as a database would hold them; a commit is all or nothing."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.watermark: JsonValue = None
        self.rows: dict[int, int] = {}
        self.events: list[TriggerEvent] = []
        self.commits = 0
        self.polls = 0
        self.rejected: list[RejectedItem] = []
        self.retried = False
        """A person wants the rejected items to be retried."""
        self._moved = anyio.Event()

    @property
    def stored(self) -> StoredPosition | None:
        if self.state is None:
            return None
        retried, self.retried = self.rejected if self.retried else [], False
        state, rows = json.loads(self.state), dict(self.rows)
        return StoredPosition(state=state, rows=rows, rejected=self.rejected, retried=retried)

    @property
    def files(self) -> list[Any]:
        return [file for event in self.events for file in event.payload["files"]]  # type: ignore[union-attr]

    def commit(self, position: Position, events: Iterable[TriggerEvent] = ()) -> None:
        changes = position.rows
        if changes.clear:
            self.rows = {}
        if changes.delete_below is not None:
            self.rows = {member: value for member, value in self.rows.items() if value >= changes.delete_below}
        for member in changes.delete:
            self.rows.pop(member, None)
        self.rows.update(changes.insert)
        self.state = json.dumps(position.state)
        self.watermark = json.loads(json.dumps(position.watermark))
        self.events.extend(events)
        self.commits += 1

    async def run(self, trigger: BaseEventTrigger[Any, Any], *, polls: int = 1) -> Sequence[TriggerEvent]:
        """Run so many polls, commit batch by batch, close the trigger, and return the events."""
        before = len(self.events)
        async with aclosing(trigger.events(self.stored)) as batches:
            async for batch in batches:
                if batch.position is not None:
                    self.commit(batch.position, batch.events)
                    kept = [item for item in self.rejected if item not in (*batch.settled, *batch.rejected)]
                    self.rejected = [*kept, *batch.rejected]
                else:  # the end of a poll
                    polls -= 1
                if polls == 0:
                    break
        return self.events[before:]

    async def run_for_ever(self, trigger: BaseEventTrigger[Any, Any]) -> None:
        async with aclosing(trigger.events(self.stored)) as batches:
            async for batch in batches:
                if batch.position is not None:
                    self.commit(batch.position, batch.events)
                else:
                    self.polls += 1
                self._moved.set()
                self._moved = anyio.Event()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until `reached`, while another task runs the trigger."""
        with anyio.fail_after(PATIENCE):
            while not reached():
                await self._moved.wait()

    async def run_until_commit(self, trigger: BaseEventTrigger[Any, Any], *, commits: int) -> None:
        """Run the trigger in a process that dies right after so many commits."""
        async with aclosing(trigger.events(self.stored)) as batches:
            async for batch in batches:
                if batch.position is not None:
                    self.commit(batch.position, batch.events)
                    commits -= 1
                if commits == 0:
                    return


@dataclass(kw_only=True)
class RunningWatcher(Generic[TriggerT]):
    """A running watcher with its host; `error` ended it."""

    trigger: TriggerT
    host: DictHost = field(default_factory=DictHost)
    error: TriggerError | None = None

    async def run(self) -> None:
        try:
            await self.host.run_for_ever(self.trigger)
        except TriggerError as error:
            self.error = error


async def until(reached: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not reached():
            await anyio.sleep(0.002)


async def polled_quietly(*watchers: RunningWatcher[Any]) -> None:
    """Wait until a shared poll that began after now had no news for each of the watchers."""
    now = anyio.current_time()
    await until(lambda: all((watcher.trigger.looked_at or 0.0) > now for watcher in watchers))
