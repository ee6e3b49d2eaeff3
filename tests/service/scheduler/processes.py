"""Two processes that schedule on one database, of which one leads, and jobs whose time passes as a test says."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.database.schema import database_now, leader, queued_event
from store.runs.queue import queues
from store.runs.queue.queues import JobQueue
from tests.schedulers import make_scheduler
from tests.service.scheduler.settings import HOME
from watcher.features.partitions import planner as partition_planner
from watcher.features.partitions.memory import PartitionMemory
from watcher.features.partitions.planner import plan_partitions
from watcher.host.leader_election import Leadership
from watcher.scheduling.planning.plans import RunPlan, Waits

LEASE = timedelta(seconds=15)
AGE = timedelta(minutes=10)
"""The time that passes at once on a job's clock."""
OTHER_HOME = "66666666-6666-6666-6666-666666666666"


class Killed(BaseException):
    """The death of a process. None of our handlers catches it."""


class Process:
    """A process that may schedule."""

    def __init__(self, database: Database, home: str) -> None:
        self.home = home
        self.leadership = Leadership(
            database=database, owner=home, heartbeat=LEASE / 3, lease=LEASE, on_taken=lambda: None
        )
        self.scheduler = make_scheduler(database, self.leadership)


@dataclass(kw_only=True)
class Processes:
    """Two processes. The one that does not lead may still believe so."""

    database: Database
    ages: Counter[str] = field(default_factory=Counter)
    """How often `AGE` has passed on each job's clock."""
    differences: list[str] = field(default_factory=list)
    """What a scheduler that remembers decided otherwise than one that knows nothing."""

    async def start(self) -> None:
        self._leading, self._standing_by = Process(self.database, HOME), Process(self.database, OTHER_HOME)
        await self._leading.leadership.campaign()

    async def check(self) -> None:
        await self._leading.scheduler.check()

    async def restart(self) -> None:
        self._leading = Process(self.database, self._leading.home)
        await self._leading.leadership.campaign()

    async def take_over(self) -> None:
        """Let the other process lead, with what it remembers of its last term. The former leader looks once more."""
        async with self.database.transaction() as connection:
            await connection.execute(update(leader).values(expires_at=database_now()))
        self._leading, self._standing_by = self._standing_by, self._leading
        await self._leading.leadership.campaign()
        assert self._leading.leadership.leads
        await self._standing_by.scheduler.check()

    async def die(self, at: int, when: str) -> None:
        """Let the leader check and die before or after its transaction number `at`; the other process takes over."""
        original, count = self._leading.leadership.transaction, 0

        @asynccontextmanager
        async def dying() -> AsyncIterator[AsyncConnection]:
            nonlocal count
            count += 1
            if count >= at and when == "before":
                raise Killed
            async with original() as connection:
                yield connection
            if count >= at:
                raise Killed

        self._leading.leadership.transaction = dying  # type: ignore[method-assign]  # it dies with it
        with suppress(Killed):
            await self.check()
        self._leading = Process(self.database, self._leading.home)
        await self.take_over()

    async def arrived(self, event_id: int) -> None:
        """Let an event have come now, by the clocks of the jobs that it is queued for."""
        q = queued_event.c
        async with self.database.transaction() as connection:
            rows = (await connection.execute(select(q.dag_id, q.created_at).where(q.event_id == event_id))).all()
            for row in rows:
                this = update(queued_event).where(q.dag_id == row.dag_id, q.event_id == event_id)
                await connection.execute(this.values(created_at=row.created_at + self.ages[row.dag_id] * AGE))

    @contextmanager
    def clocks(self) -> Iterator[None]:
        """Let schedulers have the clocks of the jobs."""
        lock = queues.lock_queues

        async def lock_queues(connection: AsyncConnection, dag_ids: Collection[str]) -> Sequence[JobQueue]:
            locked = await lock(connection, dag_ids)
            return [replace(queue, now=queue.now + self.ages[queue.dag_id] * AGE) for queue in locked]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(queues, "lock_queues", lock_queues)
            yield

    @contextmanager
    def compared(self) -> Iterator[None]:
        """Compare each plan of partitions with that of a new scheduler, which remembers nothing."""

        async def plan_twice(
            connection: AsyncConnection, queue: JobQueue, waits: Waits, memory: PartitionMemory
        ) -> RunPlan:
            nested = await connection.begin_nested()
            new = await plan_partitions(connection, queue, waits, PartitionMemory())
            await nested.rollback()
            remembering = await plan_partitions(connection, queue, waits, memory)
            if (new.runs, new.has_rest) != (remembering.runs, remembering.has_rest):
                self.differences.append(f"{queue.dag_id}: {remembering}, and a new scheduler: {new}")
            return remembering

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partition_planner, "plan_partitions", plan_twice)
            yield
