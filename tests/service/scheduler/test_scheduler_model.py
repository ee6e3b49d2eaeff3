"""Random histories of events, checks, pauses, ends, restarts and clock steps, against what must always hold."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from store.database import Database
from store.database.schema import asset_event, queued_event, run, run_asset_event
from tests.databases import copied
from tests.effort import effort
from tests.service.scheduler.settings import (
    configure,
    consumed,
    end_runs,
    job_on,
    leading_scheduler,
    names_in,
    set_paused,
    tell,
    wind,
)

SCHEDULES: dict[str, Any] = {
    "one": "a",
    "both": {"all": ["a", "b"]},
    "nested": {"all": ["a", {"any": ["b", "c"]}]},
    "each": {"any": ["b", "c"]},
    "timed": {"all": ["b", "c"]},
}
JOBS = [
    job_on("one", SCHEDULES["one"]),
    job_on("both", SCHEDULES["both"], max_events=2),
    job_on("nested", SCHEDULES["nested"], max_active_runs=2),
    job_on("each", SCHEDULES["each"], mode="each"),
    job_on("timed", SCHEDULES["timed"], cron="0 * * * *"),
]
ALLOWED = {"nested": 2}
jobs_ = st.sampled_from(sorted(SCHEDULES))
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.sampled_from("abc")),
        st.tuples(st.just("event"), st.sampled_from("abc")),
        st.tuples(st.just("look"), st.none()),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.sampled_from(["pause", "unpause", "succeed", "fail"]), jobs_),
        st.tuples(st.just("tick"), st.none()),
        st.tuples(st.just("step"), st.integers(-5, 5)),
    ),
    max_size=25,
)


def brute_force(condition: Any, names: set[str]) -> bool:
    """The definition itself, independent of the scheduler's code."""
    if isinstance(condition, str):
        return condition in names
    ((word, parts),) = condition.items()
    return {"all": all, "any": any}[word](brute_force(part, names) for part in parts)


@pytest.mark.slow
@settings(max_examples=effort(20, 40))
@given(actions=ACTIONS)
def test_every_event_is_consumed_once_by_each_job_and_no_run_lacks_its_condition(
    database_file: Path, actions: Any
) -> None:
    anyio.run(_play, database_file, actions)


async def _play(  # noqa: C901  one case for each kind of action
    database_file: Path, actions: list[tuple[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Database.open(copied(database_file, Path(folder))) as database:
            ids = await configure(database, JOBS)
            scheduler = await leading_scheduler(database)
            await scheduler.check()
            told: dict[int, str] = {}
            paused: set[str] = set()
            for action, what in [*actions, *(("unpause", name) for name in SCHEDULES)]:
                match action:
                    case "event":
                        told |= dict.fromkeys(await tell(database, ids[what]), what)
                    case "look":
                        await scheduler.check()
                        await _nothing_due_is_left(database, told, paused)
                    case "restart":
                        scheduler = await leading_scheduler(database)
                    case "pause" | "unpause":
                        await set_paused(database, what, paused=action == "pause")
                        (paused.add if action == "pause" else paused.discard)(what)
                    case "succeed" | "fail":
                        await end_runs(database, what, "success" if action == "succeed" else "failed")
                    case "tick":
                        await wind(database, "timed", -timedelta(hours=1))
                    case "step":
                        await _step(database, timedelta(hours=what))
                await _each_event_is_somewhere_once(database, told)
            for _ in range(3):
                await scheduler.check()
                for dag_id in SCHEDULES:
                    await end_runs(database, dag_id)
            await scheduler.check()
            await _nothing_due_is_left(database, told, set())
            await _each_event_is_somewhere_once(database, told)
            await _no_run_lacks_its_condition(database, told)


async def _step(database: Database, by: timedelta) -> None:
    """Shift the times of the events, as if the database's clock had been different when they came."""
    async with database.transaction() as session:
        for row in (await session.execute(select(queued_event))).mappings().all():
            this = update(queued_event).where(queued_event.c.event_id == row["event_id"])
            await session.execute(this.values(created_at=row["created_at"] + by))


async def _each_event_is_somewhere_once(database: Database, told: dict[int, str]) -> None:
    found: dict[str, Counter[int]] = {dag_id: Counter() for dag_id in SCHEDULES}
    async with database.reading() as session:
        for place in (queued_event, run_asset_event):
            for dag_id, event in await session.execute(select(place.c.dag_id, place.c.event_id)):
                found[dag_id][event] += 1
    for dag_id, schedule in SCHEDULES.items():
        owed = {event for event, name in told.items() if name in set(names_in(schedule))}
        assert found[dag_id] == Counter(owed), dag_id


async def _nothing_due_is_left(database: Database, told: dict[int, str], paused: set[str]) -> None:
    async with database.reading() as session:
        active = Counter((await session.execute(select(run.c.dag_id).where(run.c.state == "queued"))).scalars())
        left: dict[str, set[str]] = {dag_id: set() for dag_id in SCHEDULES}
        for dag_id, event in await session.execute(select(queued_event.c.dag_id, queued_event.c.event_id)):
            left[dag_id].add(told[event])
    for dag_id, schedule in SCHEDULES.items():
        used = active[dag_id] >= ALLOWED.get(dag_id, 1) and dag_id != "each"
        assert dag_id in paused or used or not brute_force(schedule, left[dag_id]), (dag_id, left)


async def _no_run_lacks_its_condition(database: Database, told: dict[int, str]) -> None:
    async with database.reading() as session:
        assert len((await session.execute(select(asset_event.c.id))).all()) == len(told)
    for dag_id, schedule in SCHEDULES.items():
        decisions: dict[str, set[str]] = {}
        for run_id, events in (await consumed(database, dag_id)).items():
            together = run_id if dag_id == "each" else run_id.rpartition("_")[0]
            decisions.setdefault(together, set()).update(told[event] for event in events)
        for together, names in decisions.items():
            assert together.startswith("scheduled_") or brute_force(schedule, names), (dag_id, together, names)
