"""Compares the cost of one committed detection with the minimum that could be written: only an event row.

Both go to the same database in the same run, in turns, so that the ratio means something on a noisy machine.
A detection is: position (the fence), event, queue row, watermark entry, history row; one transaction, fsync on.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import anyio

from store.base import AssetStoreWriterKind, Writer
from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database import Database, migrations, sqlite_url
from store.database.asset_events import NewEvent
from store.detection import detections, events, positions
from store.detection.detections import Committed, Detection
from store.detection.interest import NO_HOOKS, EventOrigin
from store.detection.positions import NewPosition
from store.keys import Batching, JobDefinition
from store.processes import triggerers
from store.processes.triggerers import ProcessInfo
from watcher.shared.servers import running_postgres

ROUNDS = 10
COMMITS = 40


async def measure(url: str) -> None:
    async with Database.open(url) as database:
        await migrations.upgrade(database)
        asset_id = await prepare(database)
        owner = str(uuid.uuid4())
        async with database.transaction() as connection:
            process = ProcessInfo(id=owner, host="bench", pid=1)
            await triggerers.beat(connection, process, timedelta(hours=1), database.dialect)
            claimed = await positions.claim(connection, "files", owner, database.dialect)
        assert claimed is not None
        held = claimed.held

        async def bare() -> None:
            async with database.transaction() as connection:
                await events.append(connection, [new_event(bare_asset)], origin=EventOrigin.POST, hooks=NO_HOOKS)

        async def whole() -> None:
            nonlocal held
            detection = Detection(
                held=held,
                asset_id=asset_id["landing"],
                position=NewPosition(
                    source_identity="{}",
                    state=json.dumps({"version": held.version}),
                    watermark=json.dumps({"up_to": held.version}),
                ),
                writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher="files", write_id=uuid.uuid4().hex),
                events=[new_event(asset_id["landing"])],
            )
            async with database.transaction() as connection:
                (answer,) = await detections.commit(connection, [detection], NO_HOOKS)
            assert isinstance(answer, Committed)
            held = answer.held

        bare_asset = asset_id["unscheduled"]
        rates = {"event row alone": 0.0, "whole detection": 0.0}
        for _ in range(ROUNDS):
            rates["event row alone"] += await seconds(bare)
            rates["whole detection"] += await seconds(whole)
        total = ROUNDS * COMMITS
        print(f"\n{database.dialect}: {total} commits each, in turns")
        for name, spent in rates.items():
            print(f"  {name:<16} {total / spent:8.0f}/s")
        print(f"  ratio            {rates['whole detection'] / rates['event row alone']:8.2f}")


async def seconds(commit: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    for _ in range(COMMITS):
        await commit()
    return time.perf_counter() - started


def new_event(asset_id: int) -> NewEvent:
    return NewEvent(asset_id=asset_id, extra="{}", trace_id=uuid.uuid4().hex)


async def prepare(database: Database) -> dict[str, int]:
    job = DeclaredJob(
        dag_id="load",
        task_id="load",
        definition=JobDefinition(schedule="landing", batch=Batching(max_wait=timedelta(0), max_events=1)),
        paused=False,
        assets={"schedule": {"landing"}},
    )
    names = ("landing", "unscheduled")
    declared = Declared(
        hash="",
        assets=[DeclaredAsset(name=name, uri=f"x-bench://{name}", group="", extra="{}") for name in names],
        watchers=[DeclaredWatcher(name="files", asset="landing", trigger="bench")],
        jobs=[job],
    )
    async with database.transaction() as connection:
        return dict((await catalog_sync.apply(connection, declared, database.dialect)).asset_ids)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, str(sqlite_url(Path(folder) / "bench.db")))
    with running_postgres() as address:
        anyio.run(measure, address.replace("postgresql://", "postgresql+asyncpg://"))


if __name__ == "__main__":
    main()
