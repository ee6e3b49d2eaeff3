"""The pages over rows that no daemon has made: as many watchers, jobs and runs as a test asks for, at once, in SQLite."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import structlog
from sqlalchemy import insert, update

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database import Database, migrations, sqlite_url
from store.database.schema import asset_event, asset_store, queued_event, run, run_asset_event, watcher
from store.keys import JobDefinition
from store.processes import tokens
from tests.service.api.application import make_context
from tests.service.api.served import served
from watcher.host import logs

LONG: Final = 170
"""Letters of a long name."""
_AT_ONCE: Final = 2_000


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much there is."""

    watchers: int = 0
    failing: int = 0
    jobs: int = 0
    runs: int = 0
    failed_jobs: int = 0
    """The jobs whose every seventeenth run has failed."""
    long_names: bool = False
    """Whether the first watcher, asset and job have names of `LONG` letters."""


NOTHING: Final = Size()
THREE: Final = Size(watchers=3, failing=1, jobs=3, runs=40, failed_jobs=1)
LONG_NAMES: Final = Size(watchers=3, failing=1, jobs=3, runs=40, failed_jobs=1, long_names=True)
LARGE: Final = Size(watchers=400, failing=13, jobs=40, runs=6_000, failed_jobs=39, long_names=True)


@dataclass(frozen=True, kw_only=True)
class FilledSite:
    """The address of the pages, and the token of an administrator."""

    url: str
    admin: str
    size: Size
    name: str

    def watcher(self, number: int) -> str:
        return _name("watcher", number, self.size)

    def job(self, number: int) -> str:
        return _name("job", number, self.size)


@asynccontextmanager
async def filled_site(folder: Path, size: Size) -> AsyncIterator[FilledSite]:
    async with Database.open(sqlite_url(folder / "pages.db")) as database:
        await migrations.upgrade(database)
        with logs.configure(folder / "logs", level="info", json=True, owner="owner", max_file_mb=1):
            await _fill(database, size)
            async with database.transaction() as connection:
                admin = (await tokens.create(connection, "ann", "admin")).token
            async with served(make_context(database, folder / "logs", auth="tokens")) as url:
                yield FilledSite(url=url, admin=admin, size=size, name=folder.name)


def _name(kind: str, number: int, size: Size) -> str:
    short = f"{kind}_{number:03}"
    return f"{short}_{'of_the_region_north_' * 20}"[:LONG] if size.long_names and number == 0 else short


def _declared(size: Size) -> Declared:
    watchers, jobs = range(size.watchers), range(size.jobs)
    assets = [("asset", number) for number in watchers] + [("table", number) for number in jobs]
    names = [_name(kind, number, size) for kind, number in assets]
    return Declared(
        hash="",
        assets=[DeclaredAsset(name=name, uri=f"s3://lake/{name}", group="shop", extra="{}") for name in names],
        watchers=[
            DeclaredWatcher(
                name=_name("watcher", number, size), asset=_name("asset", number, size), trigger="s3.new_files"
            )
            for number in watchers
        ],
        jobs=[
            DeclaredJob(
                dag_id=_name("job", number, size),
                task_id="load",
                definition=_definition(_name("asset", number, size)),
                paused=False,
                assets={"schedule": {_name("asset", number, size)}, "outlet": {_name("table", number, size)}},
                aliases={},
            )
            for number in jobs
        ],
    )


def _definition(asset: str) -> JobDefinition:
    batch = {"mode": "coalesce", "debounce": 0, "max_wait": 300, "max_events": 1000}
    more = {"max_active_runs": 1, "retries": 0, "retry_delay": 30, "timeout": None, "options": {}}
    spark = {"application": "job.py", "master": "local[*]"}
    return JobDefinition.from_json(json.dumps({"schedule": {"all": [asset]}, "batch": batch, "spark": spark, **more}))


async def _fill(database: Database, size: Size) -> None:
    now = datetime.now(UTC)
    async with database.transaction() as connection:
        applied = await catalog_sync.apply(connection, _declared(size), database.dialect)
        for number in range(size.watchers):
            name, fails = _name("watcher", number, size), number % 30 == 0 and number // 30 < size.failing
            error = "ClientConnectorError: cannot connect to host s3.example:443 [Connect call failed ('10.0.0.1', 443)]; check the network"
            of_failure = {"error": error, "error_count": 12, "failing_since": now - timedelta(hours=2)}
            state: dict[str, Any] = {"state": "failing", **of_failure} if fails else {"state": "running"}
            ago = timedelta(seconds=5 + number)
            values = {"last_poll_at": now - ago, "last_event_at": now - 9 * ago, "lag_seconds": 0, **state}
            await connection.execute(update(watcher).where(watcher.c.name == name).values(values))
        events = [_event(number, applied.asset_ids, size, now) for number in range(size.runs)]
        runs = [_run(number, size, now) for number in range(size.runs)]
        consumed = [
            {"dag_id": each["dag_id"], "run_id": each["run_id"], "event_id": number, "completed": True}
            for number, each in enumerate(runs, start=1)
        ]
        for place in range(0, size.runs, _AT_ONCE):
            few = slice(place, place + _AT_ONCE)
            await connection.execute(insert(asset_event), events[few])
            await connection.execute(insert(run), runs[few])
            await connection.execute(insert(run_asset_event), consumed[few])
        if size.watchers and size.jobs:
            await _fill_first_asset(connection, applied.asset_ids, size, now)
    log = structlog.get_logger()
    for number in range(min(size.watchers, 3)):
        name = _name("watcher", number, size)
        log.info("watcher.polled", watcher=name, found=3, committed=1)
        log.info(
            "store.writing", watcher=name, asset=_name("asset", number, size), key=f"{name}.watermark", write_id="w1"
        )
        log.info(
            "store.written",
            watcher=name,
            asset=_name("asset", number, size),
            key=f"{name}.watermark",
            write_id="w1",
            version=13,
        )


async def _fill_first_asset(connection: Any, asset_ids: Any, size: Size, now: datetime) -> None:
    """Give the first asset a watermark with a value that is long, and the first job an event that waits."""
    asset_id = asset_ids[_name("asset", 0, size)]
    key = f"{_name('watcher', 0, size)}.watermark"
    value = json.dumps(
        {"horizon": "2026-01-31T12:00:00Z", "scan": None, "pending": [f"orders/{n:03}.json" for n in range(30)]}
    )
    entry = {"asset_id": asset_id, "key": key, "value": value, "is_ref": False, "version": 13, "updated_at": now}
    await connection.execute(insert(asset_store).values(entry))
    late = {**_event(0, asset_ids, size, now), "event_id": "late", "timestamp": now}
    made = await connection.execute(insert(asset_event).values(late).returning(asset_event.c.id))
    waits = {"dag_id": _name("job", 0, size), "event_id": made.scalar_one(), "asset_id": asset_id, "created_at": now}
    await connection.execute(insert(queued_event).values(waits))


def _event(number: int, asset_ids: Any, size: Size, now: datetime) -> dict[str, Any]:
    of_watcher = number % max(min(size.watchers, size.jobs), 1)
    files = [
        {
            "key": f"{'region_north/' * 12}orders_{number}_{place}.json",
            "size": 9_000,
            "etag": "a" * 32,
            "version_id": "b" * 32,
        }
        for place in range(1 + number % 8)
    ]
    return {
        "asset_id": asset_ids[_name("asset", of_watcher, size)],
        "extra": json.dumps({"bucket": "lake", "files": files}),
        "timestamp": now - timedelta(minutes=2) * (size.runs - number),
        "event_id": f"{number:064x}",
        "trace_id": f"{number:032x}",
        "source_map_index": -1,
        "source_watcher": _name("watcher", of_watcher, size),
    }


def _run(number: int, size: Size, now: datetime) -> dict[str, Any]:
    at = now - timedelta(minutes=2) * (size.runs - number)
    of_job = number % max(size.jobs, 1)
    failed = of_job < size.failed_jobs and number % 17 == 0
    active = number >= size.runs - 2
    return {
        "dag_id": _name("job", of_job, size),
        "run_id": f"asset_triggered__{at.isoformat()}_{number:08x}",
        "run_type": "asset_triggered",
        "triggered_by": "asset",
        "state": "running" if active else "failed" if failed else "success",
        "reason": "ValueError: the table orders has no column city (log line 12)" if failed else None,
        "conf": "{}",
        "trace_id": f"{number:032x}",
        "run_after": at,
        "queued_at": at,
        "start_date": at,
        "end_date": None if active else at + timedelta(seconds=40 + number % 90),
    }
