"""Short words for what many tests of the store begin with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
from sqlalchemy import ColumnElement, Table, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Applied, Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database import Database
from store.database.asset_events import NewEvent
from store.database.schema import asset, database_now
from store.detection import events, positions
from store.detection.interest import NO_HOOKS, EventOrigin
from store.detection.positions import HeldPosition, NewPosition
from store.errors import PositionLost
from store.keys import JobDefinition
from store.processes import triggerers
from store.processes.triggerers import ProcessInfo
from store.runs import runs
from store.runs.queue import queues
from store.runs.queue.queues import JobQueue
from store.runs.runs import TriggeredRun
from tests.effort import PATIENCE


async def rows(database: Database, table: Table, *where: ColumnElement[bool]) -> list[dict[str, Any]]:
    """The table's rows, in the order of their primary key."""
    async with database.reading() as session:
        found = await session.execute(select(table).where(*where).order_by(*table.primary_key))
        return [dict(row) for row in found.mappings()]


def declared(
    *,
    assets: Mapping[str, str],
    watchers: Mapping[str, str] | None = None,
    jobs: Mapping[str, Collection[str]] | None = None,
    paused: Iterable[str] = (),
) -> Declared:
    """A configuration: assets with their uris, watchers with their assets, jobs with what they are scheduled on."""
    return Declared(
        hash="hash",
        assets=[DeclaredAsset(name=name, uri=uri, group="g", extra="{}") for name, uri in assets.items()],
        watchers=[DeclaredWatcher(name=name, asset=on, trigger="t") for name, on in (watchers or {}).items()],
        jobs=[
            DeclaredJob(
                dag_id=dag_id,
                task_id="load",
                definition=JobDefinition(schedule={"all": list(on)} if on else None),
                paused=dag_id in paused,
                assets={"schedule": frozenset(on)},
            )
            for dag_id, on in (jobs or {}).items()
        ],
    )


async def apply(database: Database, wanted: Declared) -> Applied:
    async with database.transaction() as session:
        return await catalog_sync.apply(session, wanted, database.dialect)


async def foreign_asset(database: Database, name: str, uri: str, origin: str) -> int:
    """The id of an asset that came by an alias or through the API."""
    values = {"name": name, "uri": uri, "origin": origin, "created_at": database_now(), "updated_at": database_now()}
    async with database.transaction() as session:
        return int((await session.execute(insert(asset).values(**values).returning(asset.c.id))).scalar_one())


def event(asset_id: int, extra: str = "{}", **source: Any) -> NewEvent:
    return NewEvent(asset_id=asset_id, extra=extra, trace_id="0" * 32, **source)


async def append(database: Database, new: Sequence[NewEvent]) -> Sequence[int]:
    async with database.transaction() as session:
        return [
            event_id
            for event_id, _ in (await events.append(session, new, origin=EventOrigin.POST, hooks=NO_HOOKS)).rows
        ]


async def lock_queue(session: AsyncConnection, dag_id: str) -> JobQueue | None:
    """One job's queue; None if it was removed or paused."""
    return next(iter(await queues.lock_queues(session, [dag_id])), None)


async def consume_events(
    session: AsyncConnection, queue: JobQueue, run_id: str, event_ids: Sequence[int], completed_by: int | None
) -> str:
    """Make a run of these events, and return its trace."""
    made = TriggeredRun(
        dag_id=queue.dag_id, task_id=queue.task_id, run_id=run_id, event_ids=event_ids, completed_by=completed_by
    )
    (trace_id,) = await runs.create_triggered_runs(session, [made])
    return trace_id


async def advance(
    session: AsyncConnection, held: HeldPosition, *, source_identity: str, state: str, watermark: str
) -> HeldPosition:
    """The fence alone."""
    position = NewPosition(source_identity=source_identity, state=state, watermark=watermark)
    moved = await session.execute(positions.advance(), positions.parameters(held, position))
    version = moved.scalar_one_or_none()
    if version is None:
        raise PositionLost(held.watcher)
    return replace(held, version=version)


async def beat(database: Database, triggerer: str, lease: timedelta = timedelta(hours=1)) -> None:
    async with database.transaction() as session:
        await triggerers.beat(session, ProcessInfo(id=triggerer, host="here", pid=1), lease, database.dialect)


async def until_somebody_waits(database: Database, how_many: int = 1) -> None:
    """Return when so many other sessions of this PostgreSQL database wait for a lock."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with anyio.fail_after(PATIENCE):
        while True:
            async with database.reading() as session:
                if (await session.execute(waiting)).scalar_one() >= how_many:
                    return
