"""Steps and planners of features: when they are called, and that one that raises delays its own job only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

from store.catalog import open_steps
from store.database import Database
from store.runs.queue.queues import JobQueue
from store.runs.tries.changed_items import ItemHooks
from tests.databases import on_both
from tests.service.scheduler.settings import configure, consumed, job_on, leadership_of, queued, set_paused, tell
from watcher.scheduling.planning.base import JobStep, Planner, PlannerMissing, Planners
from watcher.scheduling.planning.plans import PlannedRun, RunPlan
from watcher.scheduling.planning.scheduler import Scheduler

pytestmark = [pytest.mark.service, on_both]


@dataclass
class NewestOnly(Planner):
    """A stranger's planner: one run of the first event of each asset, which says so. It counts what it was asked."""

    fails: bool = False
    calls: list[str] = field(default_factory=list)

    async def plan(self, connection: AsyncConnection, queue: JobQueue, ticks: Sequence[datetime]) -> RunPlan:  # noqa: ARG002
        self.calls.append(f"plan {queue.dag_id}")
        if self.fails:
            raise RuntimeError("a fault of the planner")
        events = sorted(queue.first_events.values())
        return RunPlan(runs=[PlannedRun(event_ids=events, of_feature={"chosen": len(events)})] if events else [])

    def forget(self, dag_id: str) -> None:
        self.calls.append(f"forget {dag_id}")

    def begin_term(self, term: int | None) -> None:
        self.calls.append(f"begin term {term}")


async def scheduler_with(
    database: Database, *, steps: Mapping[str, JobStep] | None = None, planners: Mapping[str, Planner] | None = None
) -> Scheduler:
    leadership = await leadership_of(database)
    return Scheduler(
        database, leadership, on_runs=lambda: None, steps=steps or {}, planners=Planners(by_mode=planners or {})
    )


async def never(connection: AsyncConnection, queue: JobQueue, _item_hooks: ItemHooks) -> RunPlan | None:  # noqa: ARG001
    raise AssertionError("nothing is open")


async def test_a_job_without_an_open_step_and_with_a_plain_mode_calls_nothing_of_a_feature(database: Database) -> None:
    ids = await configure(
        database, [job_on("one", "a"), job_on("two", "a", mode="each"), job_on("rest", "a", max_events=1)]
    )
    planner = NewestOnly()
    scheduler = await scheduler_with(database, steps={"x": never}, planners={"newest": planner})
    await tell(database, ids["a"], ids["a"])
    await scheduler.check()
    assert [len(await consumed(database, name)) for name in ("one", "two", "rest")] == [1, 2, 2]
    assert planner.calls == []


@pytest.mark.parametrize("part", ["planner", "step"])
async def test_a_feature_that_raises_delays_its_own_job_only(database: Database, part: str) -> None:
    """Its events stay in the queue, and the next check that succeeds takes them."""
    mode = "newest" if part == "planner" else "coalesce"
    ids = await configure(database, [job_on("before", "a"), job_on("broken", "a", mode=mode), job_on("last", "a")])
    planner, broken = NewestOnly(fails=True), True

    async def step(connection: AsyncConnection, queue: JobQueue, _item_hooks: ItemHooks) -> RunPlan | None:
        if broken:
            raise RuntimeError("a fault of the step")
        await open_steps.close(connection, queue.dag_id, "x")
        return None

    if part == "step":
        async with database.transaction() as connection:
            await open_steps.open_(connection, "broken", "x")
    scheduler = await scheduler_with(database, steps={"x": step}, planners={"newest": planner})
    events = await tell(database, ids["a"])
    for _ in range(2):
        with capture_logs() as logs:
            await scheduler.check()
        assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["scheduler.job_failed"]
    assert [list((await consumed(database, name)).values()) for name in ("before", "last")] == [[events], [events]]
    assert await queued(database, "broken") == events
    planner.fails = broken = False
    await scheduler.check()
    assert list((await consumed(database, "broken")).values()) == [events]


async def test_a_mode_whose_feature_is_not_there_fails_by_name_and_keeps_its_events(database: Database) -> None:
    ids = await configure(database, [job_on("one", "a", mode="newest")])
    scheduler = await scheduler_with(database)
    events = await tell(database, ids["a"])
    with capture_logs() as logs:
        await scheduler.check()
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["scheduler.job_failed"]
    with pytest.raises(PlannerMissing, match=r"no feature of this daemon knows `batch: \{mode: newest\}`; install"):
        Planners().of(job_on("one", "a", mode="newest").definition)
    assert await queued(database, "one") == events


async def test_a_step_comes_before_the_queue_and_goes_on_in_a_paused_job_if_a_person_asked_for_it(
    database: Database,
) -> None:
    ids = await configure(database, [job_on(name, "a") for name in ("asked", "new")])
    taken: list[str] = []

    async def step(connection: AsyncConnection, queue: JobQueue, _item_hooks: ItemHooks) -> RunPlan | None:
        taken.append(queue.dag_id)
        if taken.count(queue.dag_id) == 3:
            await open_steps.close(connection, queue.dag_id, "x")
        return RunPlan() if taken.count(queue.dag_id) < 3 else None

    async with database.transaction() as connection:
        await open_steps.open_(connection, "asked", "x", while_paused=True)
        await open_steps.open_(connection, "new", "x")
    events = await tell(database, ids["a"])
    for name in ("asked", "new"):
        await set_paused(database, name, paused=True)
    scheduler = await scheduler_with(database, steps={"unknown": never, "x": step})
    await scheduler.check()
    assert taken == ["asked"] * 3, "a step that has something to do is called again at once"
    assert [await queued(database, name) for name in ("asked", "new")] == [events, events]
    for name in ("asked", "new"):
        await set_paused(database, name, paused=False)
    await scheduler.check()
    assert taken == ["asked"] * 3 + ["new"] * 3
    assert [list((await consumed(database, name)).values()) for name in ("asked", "new")] == [[events], [events]]


async def test_planners_forget_a_job_for_which_a_step_queued_events(database: Database) -> None:
    ids = await configure(database, [job_on("one", "a", mode="newest"), job_on("two", "a", mode="newest")])
    planner = NewestOnly()

    async def step(connection: AsyncConnection, queue: JobQueue, _item_hooks: ItemHooks) -> RunPlan | None:
        await open_steps.close(connection, queue.dag_id, "x")
        return RunPlan()

    async with database.transaction() as connection:
        await open_steps.open_(connection, "one", "x")
    scheduler = await scheduler_with(database, steps={"x": step}, planners={"newest": planner})
    await tell(database, ids["a"])
    await scheduler.check()
    asked = [call for call in planner.calls if not call.startswith("begin term")]
    assert asked == ["forget one", "plan one", "plan two"], (
        "a step ends the transaction, and what is left follows at once"
    )
