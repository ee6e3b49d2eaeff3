"""An idle watcher writes nothing, however long it is idle: each of its polls is a minute after the one before."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

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
from store.processes.triggerers import Process
from tests.databases import on_both, statements_of
from tests.effort import PATIENCE
from tests.servers import PostgresDatabase
from tests.service.store.words import rows
from triggers.base import BaseEventTrigger
from triggers.local_folder.new_files import FileNewFiles
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.reader import Reader
from watcher.isolation.child_handle import ChildSettings
from watcher.isolation.children import Children
from watcher.isolation.fork_server import ForkServer
from watcher.metrics import Metrics
from watcher.triggerer.clients import Clients, Hosted
from watcher.triggerer.committing import Committer
from watcher.triggerer.supervisor import Supervisor
from watcher.triggerer.triggerer import Triggerer

pytestmark = pytest.mark.service
ORDERS = """
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON orders (at);
"""
POLLS = 40
TRIGGERS: Mapping[str, tuple[type[BaseEventTrigger], dict[str, object]]] = {
    "strict": (FileNewFiles, {"min_age": "0s"}),
    "window": (FileNewFiles, {"min_age": "0s", "mode": "window"}),
    "by_id": (NewRows, {"table": "public.orders"}),
    "by_update": (NewRows, {"table": "public.orders", "mode": "updated_at", "column": "at"}),
}


class CountedPolls(dict[str, int]):
    """How many polls of each watcher have ended."""

    def counting(self, trigger: type[BaseEventTrigger]) -> type[BaseEventTrigger]:
        polls = self

        class Counted(trigger):  # type: ignore[valid-type,misc]
            async def pause(self) -> None:
                polls[self.context.watcher] = polls.get(self.context.watcher, 0) + 1
                await super().pause()

        return Counted

    async def go_on(self, number: int) -> None:
        """Until every watcher polled so often from now on."""
        begun = dict(self)
        with anyio.fail_after(PATIENCE):
            while len(self) < len(TRIGGERS) or any(self[name] < begun.get(name, 0) + number for name in self):
                await anyio.sleep(0.01)


@asynccontextmanager
async def watched(database: Database, folder: Path, dsn: str, polls: CountedPolls) -> AsyncIterator[None]:
    declared = Declared(
        hash="",
        assets=[DeclaredAsset(name=name, uri=f"x://{name}", group="", extra="{}") for name in TRIGGERS],
        watchers=[DeclaredWatcher(name=name, asset=name, trigger="t") for name in TRIGGERS],
        jobs=[],
    )
    async with database.transaction() as connection:
        ids = (await catalog_sync.apply(connection, declared, database.dialect)).asset_ids
    connections: Mapping[str, BaseModel] = {"shop": PostgresConnection.model_validate({"type": "postgres", "dsn": dsn})}
    process = Process(id=str(uuid.uuid4()), host="here", pid=1)
    committer = Committer(database=database, metrics=Metrics(), on_events=lambda _dag_ids: None)
    hosted = {
        name: Hosted(
            name=name,
            asset=name,
            asset_id=ids[name],
            trigger=polls.counting(trigger),
            options=trigger.Options.model_validate(
                {"interval": "1ms", **({"path": str(folder)} if trigger is FileNewFiles else {}), **options}
            ),
            connection=None if trigger is FileNewFiles else "shop",
        )
        for name, (trigger, options) in TRIGGERS.items()
    }
    async with anyio.create_task_group() as tasks:
        clients = Clients(connections, tasks, Children(ForkServer(), tasks, ChildSettings()))
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
    monkeypatch.setattr(Reader, "moved_state_every", timedelta(0))
    source = await asyncpg.connect(postgres_database.dsn)
    await source.execute(ORDERS)
    folder = tmp_path / "watched"
    folder.mkdir()
    (folder / "there").touch()
    polls = CountedPolls()
    async with watched(database, folder, postgres_database.dsn, polls):
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
