"""An idle watcher writes nothing, however long it is idle, and takes little memory. Its polls are a minute apart."""

from __future__ import annotations

import gc
import json
import tracemalloc
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import asyncpg
import pytest
from pydantic import BaseModel
from sqlalchemy import Table
from structlog.testing import capture_logs

from store.catalog import catalog_sync, watchers
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredWatcher
from store.database import Database
from store.database.schema import asset_event, asset_store_history, watcher_position
from store.detection.interest import NO_HOOKS
from store.detection.positions import LoadedPosition
from store.processes.triggerers import ProcessInfo
from tests.databases import on_both, statements_of
from tests.effort import PATIENCE
from tests.servers import PostgresDatabase, S3Server
from tests.service.store.words import rows
from triggers.base import BaseEventTrigger, StoredPosition
from triggers.local_folder.new_files import FileNewFiles
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.reading.progress import ReadProgress
from triggers.s3.connection import S3Connection
from triggers.s3.new_files import S3NewFiles
from watcher.host.metrics import Metrics
from watcher.triggerer.clients import Clients, Hosted, ImportedTrigger
from watcher.triggerer.committing import Committer
from watcher.triggerer.supervisor import WORTH_PARKING, Supervisor
from watcher.triggerer.triggerer import Triggerer

pytestmark = pytest.mark.service
ORDERS = """
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON orders (at);
"""
POLLS = 40
Configured: TypeAlias = tuple[type[BaseEventTrigger[Any, Any]], dict[str, object]]
"""A trigger with its options."""
TRIGGERS: Mapping[str, Configured] = {
    "strict": (FileNewFiles, {"min_age": "0s"}),
    "window": (FileNewFiles, {"min_age": "0s", "mode": "window"}),
    "by_id": (NewRows, {"table": "public.orders"}),
    "by_update": (NewRows, {"table": "public.orders", "mode": "updated_at", "column": "at"}),
}


class CountedPolls(dict[str, int]):
    """Counts how many polls of each watcher have ended."""

    def counting(self, trigger: type[BaseEventTrigger[Any, Any]]) -> type[BaseEventTrigger[Any, Any]]:
        polls = self

        class Counted(trigger):  # type: ignore[valid-type,misc]
            async def pause(self) -> None:
                polls.count(self.context.watcher)
                await super().pause()

            def park(self, on_wake: Callable[[], None]) -> float | None:
                seconds: float | None = super().park(on_wake)
                if seconds is not None and seconds >= WORTH_PARKING:
                    polls.count(self.context.watcher)
                return seconds

        return Counted

    def count(self, watcher: str) -> None:
        self[watcher] = self.get(watcher, 0) + 1

    async def go_on(self, number: int, watchers: int = len(TRIGGERS)) -> None:
        """Wait until every watcher has polled this many more times."""
        begun = dict(self)
        with anyio.fail_after(PATIENCE):
            while len(self) < watchers or any(self[name] < begun.get(name, 0) + number for name in self):
                await anyio.sleep(0.01)


def configured(folder: Path) -> dict[str, Configured]:
    """Return triggers of each kind for the folder and the table."""
    return {
        name: (trigger, {"interval": "1ms", **({"path": str(folder)} if trigger is FileNewFiles else {}), **options})
        for name, (trigger, options) in TRIGGERS.items()
    }


@asynccontextmanager
async def hosting(
    database: Database,
    triggers: Mapping[str, Configured],
    dsn: str,
    polls: CountedPolls,
    **more: BaseModel,
) -> AsyncIterator[None]:
    """Host a watcher of an asset of its own for each trigger. `more` are connections by the types that triggers name."""
    declared = Declared(
        hash="",
        assets=[DeclaredAsset(name=name, uri=f"x://{name}", group="", extra="{}") for name in triggers],
        watchers=[DeclaredWatcher(name=name, asset=name, trigger="t") for name in triggers],
        jobs=[],
    )
    async with database.transaction() as connection:
        ids = (await catalog_sync.apply(connection, declared, database.dialect)).asset_ids
    connections = {"postgres": PostgresConnection.model_validate({"type": "postgres", "dsn": dsn}), **more}
    counted = {trigger: polls.counting(trigger) for trigger, _ in triggers.values()}
    process = ProcessInfo(id=str(uuid.uuid4()), host="here", pid=1)
    committer = Committer(database=database, metrics=Metrics(), hooks=NO_HOOKS, on_events=lambda _dag_ids: None)
    hosted = {
        name: Hosted(
            name=name,
            asset=name,
            asset_id=ids[name],
            trigger=ImportedTrigger(counted[trigger]),
            options=trigger.Options.model_validate(options),
            connection=trigger.connection_type,
        )
        for name, (trigger, options) in triggers.items()
    }
    async with anyio.create_task_group() as tasks:
        clients = Clients(connections, tasks)
        triggerer = Triggerer(
            database=database,
            process=process,
            hosted=hosted,
            supervise=lambda one: Supervisor(
                hosted=one,
                owner=process.id,
                database=database,
                committer=committer,
                clients=clients,
                poll_timeout=timedelta(minutes=5),
            ),
            heartbeat=timedelta(hours=1),
            lease=timedelta(hours=2),
        )
        await tasks.start(triggerer.run)
        yield
        tasks.cancel_scope.cancel()


async def written(database: Database, table: Table) -> int:
    return len(await rows(database, table))


@on_both
async def test_an_idle_watcher_writes_nothing(
    database: Database, postgres_database: PostgresDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.file_scan.scanner.QUIET_COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("triggers.file_scan.trigger.SCAN_EVERY", 0.0)
    monkeypatch.setattr(ReadProgress, "moved_state_every", timedelta(0))
    source = await asyncpg.connect(postgres_database.dsn)
    await source.execute(ORDERS)
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "there").touch()
    polls = CountedPolls()
    async with hosting(database, configured(folder), postgres_database.dsn, polls):
        await polls.go_on(2)
        (folder / "new").touch()
        await source.execute("INSERT INTO orders DEFAULT VALUES")
        with anyio.fail_after(PATIENCE):
            while await written(database, asset_event) < len(TRIGGERS):
                await anyio.sleep(0.01)
        await polls.go_on(2)
        before = [await rows(database, table) for table in (watcher_position, asset_store_history)]
        with statements_of(database) as sent, capture_logs() as lines:
            await polls.go_on(POLLS)
            await source.execute("SELECT pg_current_xact_id()")
            await polls.go_on(POLLS)
        after = [await rows(database, table) for table in (watcher_position, asset_store_history)]
    await source.close()
    async with database.reading() as connection:
        shown = {row.name: row for row in await watchers.listed(connection)}
    assert after == before
    assert sent == []
    assert [line for line in lines if line["log_level"] != "debug"] == []
    stood = {name: up_to(row.watermark) for name, row in shown.items()}
    stands = {name: up_to(row.watermark_now) for name, row in shown.items()}
    assert stands["by_id"] == stood["by_id"]
    assert all(stands[name] > stood[name] for name in TRIGGERS if name != "by_id"), "people see how far the clock is"


def up_to(watermark: str | None) -> Any:
    return json.loads(watermark or "")["up_to"]


MANY = 60
AT_REST = {"folders": 13_800, "tables": 22_800}
"""The limit in bytes for one watcher with its options."""


async def memory_of(database: Database, triggers: Mapping[str, Configured], dsn: str) -> int:
    """Return the bytes that these watchers take while they rest."""
    polls = CountedPolls()
    gc.collect()
    tracemalloc.start()
    try:
        async with hosting(database, triggers, dsn, polls):
            await polls.go_on(0, len(triggers))
            gc.collect()
            assert not any(type(each) is LoadedPosition for each in gc.get_objects())  # it may be large
            return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("of", AT_REST)
async def test_a_watcher_at_rest_takes_a_few_kilobytes(
    database: Database, postgres_database: PostgresDatabase, tmp_path: Path, of: str
) -> None:
    """Each watcher has a folder or a table of its own."""
    sources = [tmp_path / f"t{number}" for number in range(MANY)]
    source = await asyncpg.connect(postgres_database.dsn)
    for folder in sources:
        folder.mkdir()
        await source.execute(f"CREATE TABLE {folder.name} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    await source.close()

    def named(round_: str, folder: Path) -> tuple[str, Configured]:
        more = {"interval": "1h", "start": "all"}
        of_folder: Configured = (FileNewFiles, {"path": str(folder), **more})
        of_table: Configured = (NewRows, {"table": f"public.{folder.name}", **more})
        return f"{round_}_{folder.name}", of_folder if of == "folders" else of_table

    few, many = (
        dict(named(round_, each) for each in sources[:count]) for round_, count in (("few", 2), ("many", MANY))
    )
    await memory_of(database, few, postgres_database.dsn)  # what is made once
    least = await memory_of(database, few, postgres_database.dsn)
    assert (await memory_of(database, many, postgres_database.dsn) - least) / MANY < AT_REST[of]


async def test_no_resting_trigger_keeps_the_position_it_began_with(
    database: Database, postgres_database: PostgresDatabase, s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    """The position may be large, with everything that was handled."""
    source = await asyncpg.connect(postgres_database.dsn)
    await source.execute(ORDERS)
    await source.close()
    keys = {
        "access_key_id": s3_server.access_key,
        "secret_access_key": s3_server.secret_key,
        "region": s3_server.region,
    }
    lake = S3Connection.model_validate({"type": "s3", "endpoint_url": s3_server.endpoint, **keys})
    triggers: dict[str, Configured] = {
        **configured(tmp_path),
        "of_s3": (S3NewFiles, {"bucket": bucket, "interval": "1ms"}),
    }
    for _ in range(2):  # the first time there is no position yet
        polls = CountedPolls()
        async with hosting(database, triggers, postgres_database.dsn, polls, s3=lake):
            await polls.go_on(0, len(triggers))
            gc.collect()
            assert not any(type(each) is StoredPosition for each in gc.get_objects())
