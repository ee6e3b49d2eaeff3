"""The scheduler: Airflow's page on assets, the clock, and very long queues."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from sqlalchemy import select, text, update
from structlog.testing import capture_logs

from store.catalog import aliases
from store.database.paging import PageRequest
from store.database.schema import asset_alias, database_time_in, job, leader, queued_event, run
from store.detection import event_lists
from store.detection.event_lists import EventFilter
from store.errors import NotLeading
from store.runs import consumption, run_lists
from store.runs.queue import queues
from store.runs.queue.queues import QueueFilter
from store.runs.run_lists import RunFilter
from tests.databases import on_both, statements_of
from tests.service.scheduler.settings import (
    configure,
    consumed,
    end_runs,
    job_on,
    leading_scheduler,
    queued,
    set_paused,
    tell,
    wind,
)

pytestmark = pytest.mark.service
HOUR = timedelta(hours=1)
A_OR_BOTH = {"any": ["a", {"all": ["b", "c"]}]}


async def made(database, dag_id):
    return [len(events) for events in (await consumed(database, dag_id)).values()]


@on_both
@pytest.mark.parametrize(
    ("schedule", "updates", "runs_after"),
    [
        # https://airflow.apache.org/docs/apache-airflow/stable/authoring-and-scheduling/asset-scheduling.html
        # The figure of three assets: the updates in its order, and a run at each of its stars.
        ({"all": ["a", "b", "c"]}, "aababacbcbcba", [7, 13]),
        ("a", "aba", [1, 3]),
        ({"any": ["a", "b"]}, "cab", [2, 3]),
        (A_OR_BOTH, "bacb", [2, 4]),
        ({"all": ["a", {"any": ["b", "c"]}]}, "bbacca", [3, 6]),
    ],
)
async def test_a_run_is_created_where_airflow_creates_it(database, schedule, updates, runs_after):
    ids = await configure(database, [job_on("load", schedule)])
    scheduler = await leading_scheduler(database)
    stars = []
    for number, name in enumerate(updates, 1):
        await tell(database, ids[name])
        before = len(await consumed(database, "load"))
        await scheduler.check()
        await end_runs(database, "load")
        if len(await consumed(database, "load")) > before:
            stars.append(number)
    assert stars == runs_after


async def test_a_run_has_the_trace_of_the_event_that_completed_its_condition(database):
    ids = await configure(database, [job_on("load", {"all": ["a", "b"]}), job_on("clock", None, cron="0 * * * *")])
    scheduler = await leading_scheduler(database)
    await scheduler.check()
    await wind(database, "clock", timedelta(hours=-1))
    _, completing, _ = await tell(database, ids["a"], ids["b"], ids["a"])
    with capture_logs() as logs:
        await scheduler.check()
    created = {record["dag_id"]: record["trace_id"] for record in logs if record["event"] == "run.created"}
    window = PageRequest(limit=10)
    async with database.reading() as connection:
        event = await event_lists.get(connection, completing)
        [traced] = (await run_lists.listed(connection, RunFilter(trace_id=event.trace_id), window)).rows
        [same] = (await event_lists.listed(connection, EventFilter(trace_id=event.trace_id), window)).rows
        traces = [each.trace_id for each in await consumption.events_of_run(connection, "load", traced.run_id)]
    assert (traced.dag_id, traced.trace_id, same.id) == ("load", created["load"], completing)
    assert len({*traces, created["clock"]}) == 4, "each event keeps its own, and the clock's run has a new one"


async def test_ten_thousand_events_of_a_paused_job_make_one_run_for_each_max_events(database):
    ids = await configure(database, [job_on("load", "a", max_events=4000)])
    scheduler = await leading_scheduler(database)
    await set_paused(database, "load", paused=True)
    for _ in range(10):
        await tell(database, *[ids["a"]] * 1000)
    await scheduler.check()
    assert await made(database, "load") == []
    await set_paused(database, "load", paused=False)
    begun = time.monotonic()
    await scheduler.check()
    assert await made(database, "load") == [4000, 4000, 2000]
    assert await queued(database, "load") == []
    print(f"10,000 events in {time.monotonic() - begun:.2f} s on {database.dialect}")  # noqa: T201


@on_both
async def test_a_long_queue_becomes_the_same_runs_in_many_transactions_even_after_a_crash(database, monkeypatch):
    """The only event of `b` is among the first: later events get runs although the condition is not met any more."""
    monkeypatch.setattr("watcher.scheduling.planning.plans.MOST_EVENTS", 40)
    ids = await configure(database, [job_on("load", {"all": ["a", "b"]}, max_events=20)])
    events = await tell(database, ids["a"], ids["b"], *[ids["a"]] * 98)
    plan = (await (await leading_scheduler(database))._schedule(["load"]))["load"]
    assert (len(plan.runs), plan.has_rest) == (2, True)
    (late,) = await tell(database, ids["a"])
    await (await leading_scheduler(database)).check()  # another process, later; the job has its run by now
    runs = list((await consumed(database, "load")).values())
    assert runs == [events[start : start + 20] for start in range(0, 100, 20)]
    assert await queued(database, "load") == [late], "it waits for its own b"
    await end_runs(database, "load")
    await tell(database, ids["b"])
    await (await leading_scheduler(database)).check()
    assert await queued(database, "load") == []


async def test_many_runs_of_one_event_each_are_created_by_many_transactions(database, monkeypatch):
    monkeypatch.setattr("watcher.scheduling.planning.plans.MOST_RUNS", 10)
    ids = await configure(database, [job_on("load", "a", mode="each"), job_on("other", "a")])
    scheduler = await leading_scheduler(database)
    events = await tell(database, *[ids["a"]] * 35)
    await scheduler.check()
    assert list((await consumed(database, "load")).values()) == [[event] for event in events]
    assert await made(database, "other") == [35]


async def test_a_rest_that_a_person_removed_is_discarded(database, monkeypatch):
    monkeypatch.setattr("watcher.scheduling.planning.plans.MOST_EVENTS", 2)
    ids = await configure(database, [job_on("load", {"all": ["a", "b"]}, max_events=2)])
    await tell(database, ids["a"], ids["b"], *[ids["a"]] * 3)
    scheduler = await leading_scheduler(database)
    await scheduler._schedule(["load"])
    async with database.transaction() as session:
        await queues.remove(session, QueueFilter(dag_id="load"), actor="a person")
    await end_runs(database, "load")
    (waits,) = await tell(database, ids["a"])
    await scheduler.check()
    assert await queued(database, "load") == [waits]
    await tell(database, ids["b"])
    await scheduler.check()
    assert await made(database, "load") == [2, 2]


async def test_a_check_that_makes_no_run_reads_no_events(database):
    ids = await configure(database, [job_on("load", {"all": ["a", "b"]}), job_on("busy", "a")])
    scheduler = await leading_scheduler(database)
    await tell(database, *[ids["a"]] * 50)
    await scheduler.check()
    await tell(database, *[ids["a"]] * 50)
    for dag_id in ("load", "busy"):  # one has not met its condition, the other has a run
        with statements_of(database) as sent:
            assert not (await scheduler._schedule([dag_id]))[dag_id].runs
        assert len(sent) == 3, "who leads, the job's row, and the look"


@on_both
async def test_a_tick_starts_a_run_and_takes_the_queued_events(database):
    jobs = [job_on("timed", {"all": ["a", "b"]}, cron="0 * * * *"), job_on("clock", None, cron="0 * * * *")]
    ids = await configure(database, jobs)
    scheduler = await leading_scheduler(database)
    await scheduler.check()
    assert await consumed(database, "clock") == {}, "the past before a job is first seen was never missed"
    assert 0 < scheduler._check_at - anyio.current_time() <= HOUR.total_seconds()
    (event,) = await tell(database, ids["a"])
    await wind(database, "timed", -HOUR)
    await wind(database, "clock", -HOUR)
    await scheduler.check()
    ((run_id, events),) = (await consumed(database, "timed")).items()
    assert events == [event]
    async with database.reading() as session:
        rows = (await session.execute(select(run).order_by(run.c.id))).mappings().all()
    for row in rows:
        tick = datetime.fromisoformat(row["run_id"].removeprefix("scheduled__"))
        assert (tick.minute, tick.second) == (0, 0)
        assert row["logical_date"] == row["data_interval_start"] == row["data_interval_end"] == row["run_after"] == tick
        assert (row["run_type"], row["triggered_by"]) == ("scheduled", "timetable")
    assert {row["run_id"] for row in rows} == {run_id}
    await scheduler.check()
    assert len(await consumed(database, "clock")) == 1


@pytest.mark.parametrize(("catchup", "runs_made"), [(False, 1), (True, 5)])
async def test_ticks_that_were_missed_make_one_run_or_one_each(database, catchup, runs_made):
    await configure(database, [job_on("clock", None, cron="0 * * * *", catchup=catchup)])
    await (await leading_scheduler(database)).check()
    await wind(database, "clock", -5 * HOUR)
    await (await leading_scheduler(database)).check()
    found = [datetime.fromisoformat(run_id[11:]) for run_id in await consumed(database, "clock")]
    assert len(found) == runs_made
    last = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    assert found == [last - number * HOUR for number in reversed(range(runs_made))]


async def test_a_tick_waits_until_a_run_is_free_and_then_stands_for_all_missed_ticks(database):
    await configure(database, [job_on("clock", None, cron="0 * * * *")])
    scheduler = await leading_scheduler(database)
    await scheduler.check()
    for _ in range(3):
        await wind(database, "clock", -HOUR)
        await scheduler.check()
    assert len(await consumed(database, "clock")) == 1
    await end_runs(database, "clock")
    await scheduler.check()
    assert len(await consumed(database, "clock")) == 1, "that tick had its run"


@on_both
async def test_a_tick_has_one_run_even_if_the_clock_is_set_back(database):
    await configure(database, [job_on("clock", None, cron="0 * * * *", catchup=True)])
    scheduler = await leading_scheduler(database)
    await scheduler.check()
    for _ in range(3):
        await wind(database, "clock", -2 * HOUR)
        await scheduler.check()
        await end_runs(database, "clock")
    found = list(await consumed(database, "clock"))
    assert len(found) == len(set(found)) == 2


@on_both
@pytest.mark.parametrize("catchup", [False, True])
async def test_a_cron_that_is_removed_and_added_again_has_missed_no_ticks(database, catchup):
    timed = job_on("clock", "a", cron="0 * * * *", catchup=catchup)
    await configure(database, [timed])
    scheduler = await leading_scheduler(database)
    await scheduler.check()
    await wind(database, "clock", -5 * HOUR)
    for declared in (job_on("clock", "a"), timed):
        await configure(database, [declared])
        await scheduler.check()
    assert await consumed(database, "clock") == {}


async def test_another_cron_starts_anew_and_a_paused_job_has_no_ticks(database):
    await configure(database, [job_on("clock", None, cron="0 * * * *")])
    scheduler = await leading_scheduler(database)
    await scheduler.check()
    await wind(database, "clock", -HOUR)
    await configure(database, [job_on("clock", None, cron="30 * * * *")])
    await scheduler.check()
    assert await consumed(database, "clock") == {}
    await set_paused(database, "clock", paused=True)
    await wind(database, "clock", -2 * HOUR)
    await scheduler.check()
    assert await consumed(database, "clock") == {}
    await set_paused(database, "clock", paused=False)
    await scheduler.check()
    assert len(await consumed(database, "clock")) == 1


async def test_an_alias_completes_a_condition_with_any_asset_it_resolved_to(database):
    ids = await configure(database, [job_on("load", {"all": ["a", {"alias": "alias"}]})])
    scheduler = await leading_scheduler(database)
    await tell(database, ids["a"])
    await scheduler.check()
    assert await made(database, "load") == []
    async with database.transaction() as session:
        alias_id = (await session.execute(select(asset_alias.c.id))).scalar_one()
        await aliases.associate(session, [(ids["b"], alias_id)], database.dialect)
    await tell(database, ids["b"])
    await scheduler.check()
    assert await made(database, "load") == [2]


async def test_a_job_whose_scheduling_fails_does_not_delay_other_jobs(database):
    ids = await configure(database, [job_on("broken", "a"), job_on("load", "a")])
    async with database.transaction() as session:
        await session.execute(text("UPDATE job SET definition = 'no JSON' WHERE dag_id = 'broken'"))
    await tell(database, ids["a"])
    await (await leading_scheduler(database)).check()
    assert await made(database, "load") == [1]


@on_both
async def test_a_former_leader_notices_before_anything_is_written(database):
    ids = await configure(database, [job_on("load", "a")])
    scheduler = await leading_scheduler(database)
    await tell(database, ids["a"])
    async with database.transaction() as session:
        await session.execute(update(leader).values(epoch=leader.c.epoch + 1))
    with pytest.raises(NotLeading):
        await scheduler._schedule(["load"])
    await scheduler.check()
    assert await made(database, "load") == []
    assert len(await queued(database, "load")) == 1
    await (await leading_scheduler(database)).check()
    assert await made(database, "load") == [1]


async def test_a_negative_age_counts_as_due(database):
    ids = await configure(database, [job_on("load", "a", debounce=3600, max_wait=7200)])
    scheduler = await leading_scheduler(database)
    await tell(database, ids["a"])
    await scheduler.check()
    assert await made(database, "load") == []
    async with database.transaction() as session:
        later = datetime.now(UTC) + HOUR
        await session.execute(update(queued_event).values(created_at=later))
    await scheduler.check()
    assert await made(database, "load") == [1]


@on_both
async def test_ticks_of_many_jobs_share_their_statements(database):
    counts = []
    for many in (2, 50):
        names = [f"{many}_{number}" for number in range(many)]
        await configure(database, [job_on(name, None, cron="0 * * * *") for name in names])
        scheduler = await leading_scheduler(database)
        await scheduler.check()
        async with database.transaction() as session:
            await session.execute(update(job).values(next_tick=database_time_in(-86400.0)))
        with statements_of(database) as sent:
            await scheduler.check()
        assert [len(await consumed(database, name)) for name in names] == [1] * many
        counts.append(len(sent))
    assert counts[0] == counts[1]


@on_both
async def test_a_job_that_cannot_be_scheduled_delays_no_other_job(database):
    ids = await configure(database, [job_on("broken", "a"), job_on("load", "a")])
    scheduler = await leading_scheduler(database)
    async with database.transaction() as session:
        broken = replace(job_on("broken", "a").definition, schedule={"all": []})
        await session.execute(update(job).where(job.c.dag_id == "broken").values(definition=broken))
    await tell(database, ids["a"])
    with capture_logs() as logs:
        await scheduler.check()
    assert await made(database, "load") == [1]
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["scheduler.job_failed"]
    assert len(await queued(database, "broken")) == 1
