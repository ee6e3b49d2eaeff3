"""The contract of what makes runs of a job's queue: steps, which come before it, and planners, one for a word of `batch.mode`.

The leader's scheduler calls both under the job's lock, in the fenced transaction that also stores the runs. They write through
this connection only. One that raises delays its own job, and is called again at the next check. A job without an open step whose
mode is `coalesce` or `each` calls neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import PageRequest
from store.keys import JobDefinition
from store.runs.queue.kept_events import KeptQueue
from store.runs.queue.queues import JobQueue
from store.runs.tries.changed_items import ItemHooks
from watcher.scheduling.planning import triggering
from watcher.scheduling.planning.plans import RunPlan


class PlannerMissing(Exception):
    """No installed feature has a planner for the mode of a job's `batch`; the sentence names the remedy."""


class JobStep(Protocol):
    """What a feature does for a job before runs are made of its queue, such as to queue stored events.

    It is called while the feature's row in `open_step` is there. It returns the runs to make with it, after which it is called
    again at once; or None if it has nothing to do any more, and has closed its row. Each call is short: 10,000 events at most.
    `item_hooks` know which items of runs that it clears are gone.
    """

    async def __call__(
        self, connection: AsyncConnection, queue: JobQueue, item_hooks: ItemHooks, /
    ) -> RunPlan | None: ...


@dataclass(frozen=True, kw_only=True)
class WaitingPartition:
    """A partition of which events are queued. `lacks` names what its condition needs beside them; '' if it is met."""

    partition_key: str | None
    events: int
    oldest: datetime
    lacks: str
    has_run: bool
    """Whether it waits for the end of an unfinished run with this key."""
    is_redelivery: bool = False
    """Whether it has had a run, and what is queued is of its next delivery."""

    @property
    def waits_for(self) -> str:
        """What it lacks, as it is shown; '': nothing but its turn."""
        return f"redelivery incomplete: {self.lacks}" if self.lacks and self.is_redelivery else self.lacks


@dataclass(frozen=True, kw_only=True)
class WaitingPartitions:
    """The partitions of a job of which events are queued: how many wait for what, and a part of their list.

    `lacking` of them lack something, `busy` ones wait only for the end of a run of theirs, and `due` ones for nothing but their turn.
    """

    lacking: int = 0
    busy: int = 0
    due: int = 0
    shown: Sequence[WaitingPartition] = ()
    """Those of the window that was asked for, the one with the oldest event first."""

    @property
    def total(self) -> int:
        """How many there are."""
        return self.lacking + self.busy + self.due


NO_PARTITIONS: Final = WaitingPartitions()


class Planner(ABC):
    """Plans the runs of jobs whose `batch.mode` is its word. Each process makes one, which may remember what it has read."""

    @abstractmethod
    async def plan(self, connection: AsyncConnection, queue: JobQueue, ticks: Sequence[datetime]) -> RunPlan:
        """Return the runs to make now of the queue and of the due ticks, as many as fit a transaction."""

    @abstractmethod
    def forget(self, dag_id: str) -> None:
        """Forget a job, because a step may have queued events for it that were stored long ago."""

    @abstractmethod
    def begin_term(self, term: int | None) -> None:
        """Forget everything if this is another term of leadership than the last one. It is called before each plan."""

    async def run_kept(self, connection: AsyncConnection, queue: KeptQueue, *, to: int) -> int:
        """Make runs of the first kept events up to the event `to`, as many as fit a transaction; return how many events they take."""
        return await triggering.run_kept(connection, queue, to=to)

    async def run_partition(self, connection: AsyncConnection, queue: KeptQueue, key: str | None) -> int:  # noqa: ARG002
        """Make one run of what is queued of a partition, as it is; return how many events it has. 0: nothing is queued of it."""
        return 0

    async def waiting(
        self,
        connection: AsyncConnection,  # noqa: ARG002
        jobs: Mapping[str, JobDefinition],  # noqa: ARG002
        window: PageRequest,  # noqa: ARG002
    ) -> Mapping[str, WaitingPartitions]:
        """Return the partitions that are queued for these jobs, by job, for people who ask why nothing runs. Reads only."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Planners:
    """The planners of a process by their words, and what people ask of whichever a job has."""

    by_mode: Mapping[str, Planner] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Planner]:
        return iter(self.by_mode.values())

    def of(self, definition: JobDefinition) -> Planner | None:
        """Return the job's planner; None: its mode is one of the kernel's. Raises `PlannerMissing`."""
        mode = definition.batch.mode
        if definition.batch.is_plain:
            return None
        if (planner := self.by_mode.get(mode)) is None:
            raise PlannerMissing(
                f"no feature of this daemon knows `batch: {{mode: {mode}}}`; install the one that does, or change the mode"
            )
        return planner

    async def run_kept(self, connection: AsyncConnection, queue: KeptQueue, *, to: int) -> int:
        """Make runs of the first kept events up to the event `to`, as many as fit a transaction; return how many events they take."""
        planner = self.of(queue.definition)
        return await (triggering.run_kept if planner is None else planner.run_kept)(connection, queue, to=to)

    async def run_partition(self, connection: AsyncConnection, queue: KeptQueue, key: str | None) -> int:
        """Make one run of what is queued of the partition, as it is; return how many events it has. 0: nothing, or no partitions."""
        planner = self.of(queue.definition)
        return 0 if planner is None else await planner.run_partition(connection, queue, key)

    async def waiting(
        self, connection: AsyncConnection, jobs: Mapping[str, JobDefinition], window: PageRequest
    ) -> Mapping[str, WaitingPartitions]:
        """Return the partitions that are queued for these jobs, by job."""
        waiting: dict[str, WaitingPartitions] = {}
        for mode, planner in self.by_mode.items():
            mine = {dag_id: definition for dag_id, definition in jobs.items() if definition.batch.mode == mode}
            waiting |= await planner.waiting(connection, mine, window) if mine else {}
        return waiting
