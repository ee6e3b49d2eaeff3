"""The sender of what the outbox holds. Only the leader sends, and each lane proceeds by itself.

The sender sleeps until something is committed or a pause ends. A check of everything now and then makes up for lost
hints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.errors import NotLeading
from store.features.outbox import outbox
from store.features.outbox.outbox import OutboxMessage
from watcher.features.outbox.delivery import (
    Destination,
    LookUp,
    Postponed,
    Send,
    Wait,
    after_attempt,
    after_look_up,
    next_step,
)
from watcher.host.leader_election import Leadership
from watcher.host.loops import Wakeup, insist, keep_going

LOOK_EVERY: Final = 60.0
"""Seconds between two checks of everything."""
AGAIN: Final = 1.0
"""Seconds before a lane is retried that our own database kept from being served."""
AT_A_TIME: Final = 16
"""The largest number of lanes of a destination that are served at a time."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class _Settled:
    """What became of one message, to be stored in the transaction that begins the next."""

    message: OutboxMessage
    postponed: Postponed | None


@dataclass(kw_only=True, eq=False)
class Sender:
    """Sends while this process leads. A destination that is gone delays no other."""

    database: Database
    leadership: Leadership
    destinations: Sequence[Destination]

    def __post_init__(self) -> None:
        self._routes = [
            _Route(database=self.database, leadership=self.leadership, destination=destination)
            for destination in self.destinations
        ]

    def wake(self) -> None:
        """Check every destination soon: something was committed to the outbox, or this process leads now.

        Callable from any task.
        """
        for route in self._routes:
            route.wakeup.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send until cancelled."""
        async with anyio.create_task_group() as tasks:
            for route in self._routes:
                tasks.start_soon(route.run)
            task_status.started()
            await anyio.sleep_forever()  # also without any destination


@dataclass(kw_only=True, eq=False)
class _Route:
    database: Database
    leadership: Leadership
    destination: Destination
    wakeup: Wakeup = field(default_factory=Wakeup)
    _active: set[str] = field(default_factory=set)

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                pause = AGAIN
                async with keep_going("outbox.look_failed"):
                    pause = await self._look(tasks)
                await self.wakeup.wait(pause)

    async def _look(self, tasks: TaskGroup) -> float:
        """Serve every lane that is due. Return the seconds until the next one is."""
        waits: Mapping[str, float] = {}
        if self.leadership.leads:
            async with self.database.reading() as connection:
                waits = await outbox.lanes_due(connection, self.destination.name)
        idle = {lane: wait for lane, wait in waits.items() if lane not in self._active}
        due = sorted(idle, key=lambda lane: idle[lane])[: max(AT_A_TIME - len(self._active), 0)]
        for lane in due:
            if not idle[lane]:
                self._active.add(lane)
                tasks.start_soon(self._serve, lane)
        later = [wait for lane, wait in idle.items() if wait]
        return min(later, default=LOOK_EVERY)

    async def _serve(self, lane: str) -> None:
        """Send until nothing of the lane is due."""
        try:
            async with keep_going("outbox.sending_failed"):
                await self._send_all(lane)
                return
            await anyio.sleep(AGAIN)
        finally:
            self._active.discard(lane)
            self.wakeup.set()

    async def _send_all(self, lane: str) -> None:
        settled: _Settled | None = None
        with suppress(NotLeading):
            while True:
                attempt = partial(self._next, lane, settled)
                due = await insist("outbox.database_unavailable", attempt)
                if due is None:
                    return
                settled = await self._act(*due)

    async def _next(self, lane: str, settled: _Settled | None) -> tuple[OutboxMessage, Send | LookUp] | None:
        """Store what became of the last message, and begin the next one if it is due."""
        async with self.leadership.transaction() as connection:
            if settled is not None:
                await _settle(connection, settled)
            message = await outbox.first(connection, self.destination.name, lane)
            if message is None:
                return None
            step = next_step(message, self.destination.timeout)
            if isinstance(step, Wait):
                await outbox.defer(connection, message.id, step.pause)
                return None
            if isinstance(step, Send):
                await outbox.begin(connection, message.id)
            return message, step

    async def _act(self, message: OutboxMessage, step: Send | LookUp) -> _Settled:
        if isinstance(step, Send):
            postponed = after_attempt(await self.destination.deliver(message), message.attempts + 1)
        else:
            postponed = after_look_up(await self.destination.look_up(message), message.attempts)
        about = {"destination": self.destination.name, "lane": message.lane, "attempts": message.attempts}
        about |= {"id": message.id, "step": type(step).__name__.lower()}
        if postponed is None:
            log.info("outbox.delivered", **about)
        else:
            log.warning("outbox.postponed", error=postponed.error, unclear=postponed.is_unclear, **about)
        return _Settled(message=message, postponed=postponed)


async def _settle(connection: AsyncConnection, settled: _Settled) -> None:
    message_id, postponed = settled.message.id, settled.postponed
    if postponed is None:
        await outbox.remove(connection, message_id)
    else:
        await outbox.postpone(
            connection,
            message_id,
            pause=postponed.pause,
            error=postponed.error,
            refused=postponed.refused,
            is_unclear=postponed.is_unclear,
        )
