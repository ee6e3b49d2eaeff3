"""A check of a job with many partitions costs what is new and what is due, and misses nothing that happened meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import delete, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.database.asset_events import NewEvent
from store.database.schema import queued_event
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.features.partitions import groups as partition_groups
from store.features.partitions.groups import QueuedIdentity, QueuedSpan
from store.runs import runs
from store.runs.queue import queues
from store.runs.queue.queues import QueueFilter
from tests.databases import emptied, on_both, statements_of
from tests.service.scheduler.processes import Processes
from tests.service.scheduler.settings import configure, consumed, end_runs, job_on, leading_scheduler, tell
from watcher.features.partitions import planner as partition_planner
from watcher.features.partitions.groups import DuePartitions, GroupsOfNow, due_partitions

pytestmark = pytest.mark.service
BOTH = {"all": ["a", "b"]}
EITHER = {"any": [{"all": ["a", "b"]}, {"all": ["a", "c"]}]}


@dataclass
class Cost:
    """What checks cost: the groups judged, the rows read of queues, the statements."""

    judged: int = 0
    rows: int = 0
    statements: int = 0


@contextmanager
def counted(database: Database) -> Iterator[Cost]:
    cost = Cost()
    read, read_of = partition_groups.queued_spans, partition_groups.queued_spans_of

    def decide(known: GroupsOfNow, *more: Any) -> DuePartitions:
        cost.judged += len(known.groups)
        return due_partitions(known, *more)

    async def queued_spans(
        connection: AsyncConnection, dag_ids: Collection[str], **more: Any
    ) -> Mapping[str, Mapping[QueuedIdentity, QueuedSpan]]:
        queued = await read(connection, dag_ids, **more)
        cost.rows += sum(len(spans) for spans in queued.values())
        return queued

    async def queued_spans_of(*which: Any, **more: Any) -> Mapping[QueuedIdentity, QueuedSpan]:
        spans = await read_of(*which, **more)
        cost.rows += len(spans)
        return spans

    with pytest.MonkeyPatch.context() as patch, statements_of(database) as sent:
        patch.setattr(partition_planner, "due_partitions", decide)
        patch.setattr(partition_groups, "queued_spans", queued_spans)
        patch.setattr(partition_groups, "queued_spans_of", queued_spans_of)
        yield cost
        cost.statements = len(sent)


async def waiting_partitions(database: Database, number: int) -> dict[str, int]:
    """Let so many partitions of a job wait for the asset `b`; return the assets' ids."""
    ids = await configure(database, [job_on("one", BOTH, mode="per_partition")])
    for key in range(number):
        await tell(database, ids["a"], key=f"k{key}")
    return ids


@on_both
async def test_a_check_costs_the_same_however_many_partitions_wait(database: Database) -> None:
    costs = []
    for number in (3, 60):
        await emptied(database)
        ids = await waiting_partitions(database, number)
        scheduler = await leading_scheduler(database)
        await scheduler.check()
        of_number = []
        steps: list[Callable[[], Awaitable[Any]]] = [
            anyio.lowlevel.checkpoint,
            lambda ids=ids: tell(database, ids["a"], key="k1"),
            lambda ids=ids: tell(database, ids["a"], key="new"),
            lambda ids=ids: tell(database, ids["b"], key="k1"),
            lambda ids=ids: tell(database, ids["b"], key="k2"),
            lambda ids=ids: tell(database, ids["a"], key="k1"),
            lambda: end_runs(database, "one"),
        ]
        for step in steps:
            await step()
            with counted(database) as cost:
                await scheduler.check()
            of_number.append(cost)
        costs.append(of_number)
    assert [(cost.judged, cost.rows) for cost in costs[1]] == [
        (0, 0),
        (1, 1),
        (1, 1),
        (1, 1),
        (1, 1),  # nothing is left of k1, which has had its run
        (0, 1),  # k1 waits for the end of its run, and nothing is left of k2
        (1, 0),
    ]
    assert costs[0] == costs[1]
    assert [len(each) for each in (await consumed(database, "one")).values()] == [3, 2]


@on_both
async def test_what_is_queued_of_a_partition_is_found_by_an_index(database: Database) -> None:
    await waiting_partitions(database, 300)
    postgres = database.dialect == "postgresql"
    if postgres:
        async with database.transaction() as connection:
            await connection.execute(text("ANALYZE queued_event"))
    async with database.transaction() as connection:
        if postgres:  # else it reads a table as small as this one as a whole
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
        with statements_of(database) as sent:
            spans = await partition_groups.queued_spans_of(connection, "one", {"k7"}, to=2**62)
            assert len(await partition_groups.events_of(connection, "one", {"k7"}, to=2**62)) == len(spans) == 1
        for statement, parameters in sent:
            explain = "EXPLAIN" if postgres else "EXPLAIN QUERY PLAN"
            plan = [str(row[-1]) for row in await connection.exec_driver_sql(f"{explain} {statement}", parameters)]
            assert "ix_queued_event_partition_key" in "\n".join(plan)


@on_both
async def test_what_a_failed_check_has_taken_is_still_there_though_as_many_other_events_are_gone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await waiting_partitions(database, 3)
    await tell(database, ids["a"], key="k2")
    scheduler = await leading_scheduler(database)
    await scheduler.check()
    await tell(database, ids["b"], key="k1")
    with monkeypatch.context() as patch:
        patch.setattr(runs, "create_triggered_runs", failing)
        await scheduler.check()
    assert await consumed(database, "one") == {}
    async with database.transaction() as connection:
        await connection.execute(delete(queued_event).where(queued_event.c.partition_key == "k2"))
    await tell(database, ids["b"], key="k2")
    await scheduler.check()
    assert [len(each) for each in (await consumed(database, "one")).values()] == [2]
    await tell(database, ids["a"], key="k2")
    await scheduler.check()
    assert [len(each) for each in (await consumed(database, "one")).values()] == [2, 2]


async def failing(*_: Any) -> None:
    raise OSError("the disk is full")


@on_both
async def test_what_happens_meanwhile_is_judged_anew_and_nothing_else(database: Database) -> None:
    ids = await waiting_partitions(database, 20)
    scheduler = await leading_scheduler(database)

    async def judged() -> int:
        with counted(database) as cost:
            await scheduler.check()
        return cost.judged

    assert await judged() == 20
    await tell(database, ids["b"], key="k1")
    assert await judged() == 1
    assert await judged() == 0, "its run has taken the events of the partition"
    await tell(database, ids["a"], ids["b"], key="k1")
    assert await judged() == 0, "it waits for the end of its run"
    await end_runs(database, "one")
    assert await judged() == 1
    await tell(database, ids["b"], key="k2")
    async with database.transaction() as connection:
        await queues.remove(connection, QueueFilter(asset_id=ids["b"]), actor="a person")
    assert await judged() == 0, "what came is gone"
    await configure(database, [job_on("one", EITHER, mode="per_partition")])
    assert await judged() == 19, "the schedule is another one"
    await configure(database, [job_on("one", EITHER, mode="per_partition", max_events=7)])
    assert await judged() == 19
    async with database.transaction() as connection:
        await queues.remove(connection, QueueFilter(), actor="a person")
    await tell(database, ids["c"], key="k5")
    assert await judged() == 1


@on_both
async def test_a_partition_is_judged_when_its_time_has_come_and_all_are_when_the_clock_is_set_back(
    database: Database,
) -> None:
    jobs = [job_on("one", "a", mode="per_partition", debounce=500, max_wait=50_000)]
    ids = await configure(database, jobs)
    processes = Processes(database=database)
    await processes.start()

    async def judged() -> int:
        with counted(database) as cost:
            await processes.check()
        return cost.judged

    async def arrives(key: str) -> None:
        for event in await tell(database, ids["a"], key=key):
            await processes.arrived(event)

    with processes.clocks():
        await arrives("x")
        assert await judged() == 1
        processes.ages["one"] += 1
        await arrives("y")
        assert await judged() == 2, "x is due, and y is new"
        assert len(await consumed(database, "one")) == 1
        assert await judged() == 0
        await arrives("y")
        await arrives("z")
        processes.ages["one"] -= 1
        assert await judged() == 2, "an event that comes later than now is due"
        assert len(await consumed(database, "one")) == 3


async def test_an_event_that_is_committed_after_later_ones_is_seen_though_as_many_were_taken_off(
    database: Database,
) -> None:
    ids = await configure(database, [job_on("one", BOTH, mode="per_partition")], "abc")
    await tell(database, ids["a"], key="gone")
    scheduler = await leading_scheduler(database)
    written, seen = anyio.Event(), anyio.Event()

    async def commit_late() -> None:
        async with database.transaction() as connection:
            new = NewEvent(asset_id=ids["a"], extra="{}", trace_id="0" * 32, partition_key="x")
            await events.append(connection, [new], origin=EventOrigin.POST, hooks=NO_HOOKS)
            written.set()
            await seen.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(commit_late)
        await written.wait()
        await tell(database, ids["b"], key="x")
        await scheduler.check()
        seen.set()
    async with database.transaction() as connection:
        ((first, key),) = (await queues.oldest(connection, "one", 1, None)).items()
        assert key == "gone"
        await connection.execute(delete(queued_event).where(queued_event.c.event_id == first))
    await scheduler.check()
    assert [len(each) for each in (await consumed(database, "one")).values()] == [2]
