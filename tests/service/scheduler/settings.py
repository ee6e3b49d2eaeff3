"""Short helpers that make jobs, events and a scheduler that leads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import select, update

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob
from store.database import Database
from store.database.asset_events import NewEvent
from store.database.schema import job, queued_event, run, run_asset_event
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.keys import JobDefinition
from store.runs import jobs
from tests import features
from tests.schedulers import make_scheduler
from watcher.host.leader_election import Leadership
from watcher.scheduling.planning.scheduler import Scheduler

HOME = "55555555-5555-5555-5555-555555555555"


def names_in(condition: Any) -> Iterator[str]:
    match condition:
        case str(name) | {"asset": str(name)}:
            yield name
        case {"all": parts} | {"any": parts}:
            for part in parts:
                yield from names_in(part)


def job_on(
    dag_id: str, schedule: Any, *, cron: str | None = None, joint: bool = False, catchup: bool = False, **more: Any
) -> DeclaredJob:
    known = {name: more.pop(name) for name in ("max_active_runs", "retries") if name in more}
    batch = {"mode": "coalesce", "debounce": 0, "max_wait": 300, "max_events": 1000, **more}
    definition = {
        "schedule": schedule,
        "batch": batch,
        "cron": None if cron is None else {"expression": cron, "timezone": "UTC"},
        "joint": joint,
        "catchup": catchup,
        "max_active_runs": 1,
        "retries": 0,
        "retry_delay": 0,
        "timeout": None,
        **known,
    }
    return DeclaredJob(
        dag_id=dag_id,
        task_id=dag_id,
        definition=JobDefinition.from_json(json.dumps(definition)),
        paused=False,
        assets={"schedule": frozenset(names_in(schedule))},
        aliases={"schedule": frozenset({"alias"} if '"alias"' in json.dumps(schedule) else ())},
    )


def configuration(
    jobs: Iterable[DeclaredJob], names: str = "abc", parts: Mapping[str, Sequence[str]] | None = None
) -> Declared:
    of = {name: json.dumps(each) for name, each in (parts or {}).items()}
    return Declared(
        hash="",
        assets=[
            DeclaredAsset(name=name, uri=f"x-test:{name}", group="", extra="{}", partition_parts=of.get(name))
            for name in names
        ],
        watchers=[],
        jobs=list(jobs),
        aliases={"alias": ""},
        features=features.APPLIED,
    )


async def configure(database: Database, jobs: Iterable[DeclaredJob], names: str = "abc") -> dict[str, int]:
    """The ids of the assets."""
    async with database.transaction() as session:
        return dict((await catalog_sync.apply(session, configuration(jobs, names), database.dialect)).asset_ids)


async def leadership_of(database: Database) -> Leadership:
    lease = timedelta(seconds=15)
    leadership = Leadership(database=database, owner=HOME, heartbeat=lease / 3, lease=lease, on_taken=lambda: None)
    await leadership.campaign()
    return leadership


async def leading_scheduler(database: Database) -> Scheduler:
    return make_scheduler(database, await leadership_of(database))


async def tell(database: Database, *asset_ids: int, extra: str = "{}", key: str | None = None) -> list[int]:
    new = [NewEvent(asset_id=asset_id, extra=extra, trace_id=uuid4().hex, partition_key=key) for asset_id in asset_ids]
    async with database.transaction() as session:
        return [
            event_id
            for event_id, _ in (await events.append(session, new, origin=EventOrigin.POST, hooks=NO_HOOKS)).rows
        ]


async def consumed(database: Database, dag_id: str) -> dict[str, list[int]]:
    """The events that each run consumes, oldest run first."""
    r = run_asset_event.c
    found: dict[str, list[int]] = {}
    async with database.reading() as session:
        for (run_id,) in await session.execute(select(run.c.run_id).where(run.c.dag_id == dag_id).order_by(run.c.id)):
            found[run_id] = []
        for row in await session.execute(select(r.run_id, r.event_id).where(r.dag_id == dag_id).order_by(r.event_id)):
            found[row.run_id].append(row.event_id)
    return found


async def queued(database: Database, dag_id: str) -> list[int]:
    wanted = select(queued_event.c.event_id).where(queued_event.c.dag_id == dag_id).order_by(queued_event.c.event_id)
    async with database.reading() as session:
        return list((await session.execute(wanted)).scalars())


async def end_runs(database: Database, dag_id: str, state: str = "success") -> None:
    async with database.transaction() as session:
        await session.execute(update(run).where(run.c.dag_id == dag_id, run.c.state == "queued").values(state=state))


async def set_paused(database: Database, dag_id: str, *, paused: bool) -> None:
    async with database.transaction() as session:
        await jobs.set_paused(session, dag_id, paused=paused)


async def wind(database: Database, dag_id: str, by: timedelta) -> None:
    """Move the next tick by so much, to later or earlier."""
    async with database.transaction() as session:
        of_job = job.c.dag_id == dag_id
        tick = (await session.execute(select(job.c.next_tick).where(of_job))).scalar_one()
        await session.execute(update(job).where(of_job).values(next_tick=tick + by))
