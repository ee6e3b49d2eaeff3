"""From queued events to runs: every event goes into exactly one run of each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError

from store.database import Database
from store.database.schema import job, queued_event, run, run_asset_event, task_instance
from store.errors import NotFound
from store.keys import JobDefinition
from store.runs import jobs, runs
from store.runs.actions import decisions
from store.runs.queue import due_jobs, queues
from store.runs.queue.queues import JobQueue, QueueFilter, Rest, Span
from tests.effort import PATIENCE
from tests.service.store.words import (
    append,
    apply,
    consume_events,
    declared,
    event,
    lock_queue,
    rows,
    until_somebody_waits,
)

ASSETS = {"a": "test://a", "b": "test://b"}


@pytest.fixture
async def ids(database: Database) -> dict[str, int]:
    return dict((await apply(database, declared(assets=ASSETS, jobs={"load": ["a", "b"], "report": ["a"]}))).asset_ids)


async def lock(database: Database, dag_id: str) -> JobQueue | None:
    async with database.transaction() as session:
        return await lock_queue(session, dag_id)


async def consume(database: Database, dag_id: str, run_id: str, at_most: int = 1_000) -> Sequence[int]:
    """One check of a scheduler: a run of the oldest events."""
    async with database.transaction() as session:
        queue = await lock_queue(session, dag_id)
        if queue is None or not queue.first_events:
            return []
        taken = list(await queues.oldest(session, dag_id, at_most, None))
        await consume_events(session, queue, run_id, taken, completed_by=taken[-1])
    return taken


async def test_a_queue_has_the_lowest_event_of_each_asset_and_is_read_oldest_first(
    database: Database, ids: dict[str, int]
) -> None:
    empty = await lock(database, "load")
    assert empty is not None
    assert (empty.first_events, empty.rest) == ({}, None)
    events = await append(database, [event(ids["b"]), event(ids["a"]), event(ids["b"]), event(ids["a"])])
    queue, other = await lock(database, "load"), await lock(database, "report")
    assert queue is not None
    assert other is not None
    assert (queue.first_events, other.first_events) == ({"b": events[0], "a": events[1]}, {"a": events[1]})
    assert (queue.task_id, queue.definition, queue.active_runs) == (
        "load",
        JobDefinition(schedule={"all": ["a", "b"]}),
        0,
    )
    async with database.reading() as session:
        assert list(await queues.oldest(session, "load", 3, None)) == events[:3]
        assert list(await queues.oldest(session, "load", 9, events[1])) == events[:2]
        assert await queues.newest(session, "report") == events[3]
        span = await queues.span(session, "load")
    assert span.oldest <= span.newest <= span.now


async def test_the_decided_rest_of_a_queue_is_kept(database: Database, ids: dict[str, int]) -> None:
    (first,) = await append(database, [event(ids["a"])])
    for rest in (Rest(to=first, completed_by=first), Rest(to=first, completed_by=None), None):
        async with database.transaction() as session:
            await queues.set_rest(session, "load", rest)
        queue = await lock(database, "load")
        assert queue is not None
        assert queue.rest == rest


async def test_removed_and_paused_jobs_keep_their_queue_but_are_not_checked(
    database: Database, ids: dict[str, int]
) -> None:
    await append(database, [event(ids["a"])])
    async with database.reading() as session:
        assert set(await due_jobs.jobs_to_check(session)) == {"load", "report"}
    async with database.transaction() as session:
        await session.execute(update(job).where(job.c.dag_id == "load").values(paused=True))
    async with database.reading() as session:
        assert await due_jobs.jobs_to_check(session) == ["report"]
    assert await lock(database, "load") is None
    assert await lock(database, "unknown") is None
    assert len(await rows(database, queued_event)) == 2
    async with database.transaction() as session:
        await session.execute(update(job).values(paused=False, active=False))
    assert await lock(database, "report") is None


@pytest.mark.usefixtures("ids")
async def test_a_job_is_paused_until_it_is_resumed(database: Database) -> None:
    for paused in (True, False):
        async with database.transaction() as session:
            await jobs.set_paused(session, "load", paused=paused)
        assert (await lock(database, "load") is None) == paused
    with pytest.raises(NotFound, match="no job 'unknown'"):
        async with database.transaction() as session:
            await jobs.set_paused(session, "unknown", paused=True)


async def test_the_job_that_waits_longest_comes_first(database: Database, ids: dict[str, int]) -> None:
    await append(database, [event(ids["b"])])
    await append(database, [event(ids["a"])])
    async with database.reading() as session:
        assert await due_jobs.jobs_to_check(session) == ["load", "report"]
    await consume(database, "load", "r1")
    await append(database, [event(ids["b"])])
    async with database.reading() as session:
        assert await due_jobs.jobs_to_check(session) == ["report", "load"]


async def test_a_run_consumes_exactly_the_rows_it_was_given(database: Database, ids: dict[str, int]) -> None:
    first, second, third = await append(database, [event(ids["a"]), event(ids["b"]), event(ids["a"])])
    queue = await lock(database, "load")
    assert queue is not None
    async with database.transaction() as session:
        await consume_events(session, queue, "r1", [first, third], completed_by=third)
    queued = [(row["dag_id"], row["event_id"]) for row in await rows(database, queued_event)]
    assert queued == [("load", second), ("report", first), ("report", third)]
    consumed = await rows(database, run_asset_event)
    assert [(row["run_id"], row["event_id"], row["completed"]) for row in consumed] == [
        ("r1", first, False),
        ("r1", third, True),
    ]
    (made,) = await rows(database, run)
    assert (made["run_type"], made["triggered_by"], made["state"]) == ("asset_triggered", "asset", "queued")
    assert (made["logical_date"], made["data_interval_start"]) == (None, None)
    (instance,) = await rows(database, task_instance)
    assert (instance["run_id"], instance["task_id"], instance["map_index"]) == ("r1", "load", -1)
    assert (instance["state"], instance["try_number"]) == ("queued", 0)


async def test_thousands_of_events_fit_one_run(database: Database, ids: dict[str, int]) -> None:
    await append(database, [event(ids["b"]) for _ in range(6_000)])
    assert len(await consume(database, "load", "r1", at_most=5_500)) == 5_500
    assert len(await rows(database, queued_event)) == 500
    assert len(await rows(database, run_asset_event)) == 5_500


async def test_active_runs_are_counted_until_they_end(database: Database, ids: dict[str, int]) -> None:
    for number, state in enumerate(("queued", "running", "success", "failed")):
        await append(database, [event(ids["a"])])
        await consume(database, "load", f"r{number}")
        await consume(database, "report", f"r{number}")
        async with database.transaction() as session:
            await runs.move_run(session, "load", f"r{number}", state)
    queue = await lock(database, "load")
    assert queue is not None
    assert queue.active_runs == 2
    async with database.reading() as session:
        assert await runs.running_runs(session) == {"load": 1}


async def test_no_event_is_consumed_twice_by_one_job(database: Database, ids: dict[str, int]) -> None:
    await append(database, [event(ids["a"])])
    stale = await lock(database, "load")
    assert stale is not None
    await consume(database, "load", "r1")
    taken = list(stale.first_events.values())
    with pytest.raises(IntegrityError):
        async with database.transaction() as session:
            await consume_events(session, stale, "r2", taken, completed_by=taken[0])
    assert [row["run_id"] for row in await rows(database, run)] == ["r1"]
    other = await lock(database, "report")
    assert other is not None
    async with database.transaction() as session:
        await consume_events(session, other, "r1", taken, completed_by=taken[0])


async def test_two_schedulers_at_once_share_the_events_between_them(database: Database, ids: dict[str, int]) -> None:
    """New events keep coming meanwhile: each ends in exactly one run, none is left."""
    taken: list[int] = []
    arrived: list[int] = []

    async def schedule(scheduler: int) -> None:
        for turn in range(12):
            taken.extend(await consume(database, "load", f"r{scheduler}/{turn}", at_most=3))

    async def arrive() -> None:
        for _ in range(10):
            arrived.extend(await append(database, [event(ids["a"]), event(ids["b"])]))

    async with anyio.create_task_group() as tasks:
        for scheduler in (1, 2):
            tasks.start_soon(schedule, scheduler)
        tasks.start_soon(arrive)
        tasks.start_soon(arrive)
    while more := await consume(database, "load", f"rest{len(taken)}", at_most=3):
        taken.extend(more)
    assert sorted(taken) == sorted(arrived)
    assert len(await rows(database, run_asset_event)) == len(arrived)


async def test_a_second_scheduler_waits_and_then_sees_what_the_first_left(postgres: Database) -> None:
    ids = (await apply(postgres, declared(assets=ASSETS, jobs={"load": ["a"]}))).asset_ids
    first, second = await append(postgres, [event(ids["a"]), event(ids["a"])])
    taken: list[Sequence[int]] = []

    async def other() -> None:
        taken.append(await consume(postgres, "load", "other"))

    async with anyio.create_task_group() as tasks, postgres.transaction() as session:
        queue = await lock_queue(session, "load")
        assert queue is not None
        tasks.start_soon(other)
        await until_somebody_waits(postgres)
        await consume_events(session, queue, "first", [first], completed_by=first)
    assert taken == [[second]]


async def test_a_deciding_scheduler_keeps_no_event_waiting(postgres: Database) -> None:
    ids = (await apply(postgres, declared(assets=ASSETS, jobs={"load": ["a"]}))).asset_ids
    async with postgres.transaction() as session:
        assert await lock_queue(session, "load") is not None
        with anyio.fail_after(PATIENCE):
            (late,) = await append(postgres, [event(ids["a"])])
    queue = await lock(postgres, "load")
    assert queue is not None
    assert queue.first_events == {"a": late}


async def test_the_clock_is_read_after_waiting_for_the_lock(postgres: Database) -> None:
    """Otherwise an event that came meanwhile would seem to come from the future."""
    ids = (await apply(postgres, declared(assets=ASSETS, jobs={"load": ["a"]}))).asset_ids
    seen: list[Span] = []

    async def other() -> None:
        async with postgres.transaction() as session:
            assert await lock_queue(session, "load") is not None
            seen.append(await queues.span(session, "load"))

    async with anyio.create_task_group() as tasks, postgres.transaction() as session:
        await lock_queue(session, "load")
        tasks.start_soon(other)
        await until_somebody_waits(postgres)
        await append(postgres, [event(ids["a"])])
    assert seen[0].newest <= seen[0].now


async def test_events_are_not_deleted_from_under_a_deciding_scheduler(postgres: Database) -> None:
    """The caller learns how many events no run will consume."""
    ids = (await apply(postgres, declared(assets=ASSETS, jobs={"load": ["a"], "report": ["a"]}))).asset_ids
    first, _ = await append(postgres, [event(ids["a"]), event(ids["a"])])
    removed: list[int] = []

    async def remove() -> None:
        async with postgres.transaction() as session:
            removed.append(await queues.remove(session, QueueFilter(asset_id=ids["a"]), actor="a person"))

    async with anyio.create_task_group() as tasks, postgres.transaction() as session:
        queue = await lock_queue(session, "load")
        assert queue is not None
        tasks.start_soon(remove)
        await until_somebody_waits(postgres)
        await consume_events(session, queue, "r", [first], completed_by=first)
    assert removed == [3]
    assert [(row["dag_id"], row["event_id"]) for row in await rows(postgres, run_asset_event)] == [("load", first)]
    assert await rows(postgres, queued_event) == []


@pytest.mark.usefixtures("ids")
async def test_a_manual_run_has_no_events_and_its_id_is_its_jobs_own(database: Database) -> None:
    async def create(dag_id: str) -> None:
        async with database.transaction() as session:
            await runs.create_run(
                session, dag_id, "manual__1", "load", triggered_by="rest_api", conf='{"x": 1}', note="why"
            )

    await create("load")
    await create("report")
    with pytest.raises(IntegrityError):
        await create("load")
    made = await rows(database, run)
    assert [(row["dag_id"], row["run_type"], row["conf"], row["note"]) for row in made] == [
        ("load", "manual", '{"x": 1}', "why"),
        ("report", "manual", '{"x": 1}', "why"),
    ]
    assert len(await rows(database, task_instance)) == 2


async def test_a_run_carries_the_times_of_its_states(database: Database, ids: dict[str, int]) -> None:
    await append(database, [event(ids["b"])])
    await consume(database, "load", "r1")

    async def moved(state: str, reason: str | None = None) -> tuple[bool, bool, str | None]:
        async with database.transaction() as session:
            await runs.move_run(session, "load", "r1", state, reason=reason)
        (row,) = await rows(database, run)
        assert row["state"] == state
        return row["start_date"] is not None, row["end_date"] is not None, row["reason"]

    assert await moved("running") == (True, False, None)
    (started,) = await rows(database, run)
    assert await moved("failed", "it broke") == (True, True, "it broke")
    assert await moved("running") == (True, False, None)
    (again,) = await rows(database, run)
    assert again["start_date"] == started["start_date"]
    assert await moved("success") == (True, True, None)
    async with database.transaction() as session:
        await decisions.clear(session, "load", "r1")
    (cleared,) = await rows(database, run)
    assert (cleared["state"], cleared["start_date"], cleared["end_date"]) == ("queued", None, None)


@pytest.mark.usefixtures("ids")
async def test_the_changed_definition_of_a_job_is_used(database: Database) -> None:
    wanted = declared(assets=ASSETS, jobs={"load": ["a"]})
    await apply(
        database, replace(wanted, jobs=[replace(wanted.jobs[0], definition=JobDefinition(retries=7), task_id="new")])
    )
    queue = await lock(database, "load")
    assert queue is not None
    assert (queue.definition, queue.task_id) == (JobDefinition(retries=7), "new")
