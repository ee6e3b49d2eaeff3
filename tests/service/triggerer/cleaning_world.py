"""A watcher of a folder or a bucket whose loaded files are cleaned, with a triggerer, and jobs whose runs the test decides."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from sqlalchemy import delete, insert, select, update

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database import Database
from store.database.schema import asset_event, queued_event, run, run_asset_event, watcher_position_row
from store.features.clean_source import recording
from store.features.clean_source.recording import CleanedWatcher
from store.features.clean_source.tables import cleaning
from store.keys import JobDefinition
from store.processes.triggerers import ProcessInfo
from tests.effort import PATIENCE
from tests.features import HOOKS
from tests.servers import S3Server
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions
from triggers.s3.connection import S3Connection
from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions
from watcher.host.health import Health, WatcherReport
from watcher.host.metrics import Metrics
from watcher.triggerer.cleaning.service import SourceCleaning
from watcher.triggerer.clients import Clients, Hosted, ImportedTrigger
from watcher.triggerer.committing import Committer
from watcher.triggerer.supervisor import Supervisor
from watcher.triggerer.triggerer import Triggerer

DEFINITION = JobDefinition.from_json('{"schedule": "inbox", "batch": {"mode": "coalesce"}}')


@dataclass(frozen=True, kw_only=True)
class FolderPlace:
    """A folder, and another where files are moved."""

    root: Path

    @classmethod
    def made(cls, root: Path) -> FolderPlace:
        for name in ("in", "done"):
            (root / name).mkdir(exist_ok=True)
        return cls(root=root)

    @property
    def done(self) -> str:
        return str(self.root / "done")

    def hosted(self, **options: Any) -> dict[str, Any]:
        wanted = {"path": str(self.root / "in"), "min_age": "0s", "interval": "5ms", "start": "all", **options}
        checked = FileNewFilesOptions.model_validate(wanted)
        trigger = ImportedTrigger(FileNewFiles)
        return {"trigger": trigger, "options": checked, "facts": checked.facts(), "connection": None}

    connections: Mapping[str, Any] = field(default_factory=dict)

    def write(self, name: str, content: str = "x") -> None:
        beside = self.root / uuid.uuid4().hex
        beside.write_text(content)
        beside.rename(self.root / "in" / name)

    def names(self, folder: str = "in") -> list[str]:
        return sorted(
            str(path.relative_to(self.root / folder)) for path in (self.root / folder).rglob("*") if path.is_file()
        )


@dataclass(frozen=True, kw_only=True)
class BucketPlace:
    """A bucket with two prefixes."""

    server: S3Server
    bucket: str

    @property
    def done(self) -> str:
        return f"s3://{self.bucket}/done/"

    @property
    def connections(self) -> Mapping[str, Any]:
        server = self.server
        return {
            "lake": S3Connection.model_validate(
                {
                    "endpoint_url": server.endpoint,
                    "region": server.region,
                    "access_key_id": server.access_key,
                    "secret_access_key": server.secret_key,
                }
            )
        }

    def hosted(self, **options: Any) -> dict[str, Any]:
        wanted = {"bucket": self.bucket, "prefix": "in/", "interval": "5ms", "start": "all", **options}
        checked = S3NewFilesOptions.model_validate(wanted)
        trigger = ImportedTrigger(S3NewFiles)
        return {"trigger": trigger, "options": checked, "facts": checked.facts(), "connection": "lake"}

    def write(self, name: str, content: str = "x") -> None:
        self.server.client.put_object(Bucket=self.bucket, Key=f"in/{name}", Body=content.encode())

    def names(self, folder: str = "in") -> list[str]:
        listed = self.server.client.list_objects_v2(Bucket=self.bucket, Prefix=f"{folder}/").get("Contents", ())
        return sorted(each["Key"].removeprefix(f"{folder}/") for each in listed)


Place = FolderPlace | BucketPlace


@dataclass(kw_only=True)
class CleaningWorld:
    """The triggerer of one process, and what cleans for it."""

    database: Database
    place: Place
    cleaning: SourceCleaning
    health: Health
    triggerer: Triggerer

    async def rows(self, statement: Any) -> Any:
        async with self.database.reading() as connection:
            return (await connection.execute(statement)).all()

    async def do(self, *statements: Any) -> None:
        async with self.database.transaction() as connection:
            for statement in statements:
                await connection.execute(statement)

    async def until(self, reached: Callable[[], Any]) -> None:
        with anyio.fail_after(PATIENCE):
            while not await reached():
                await anyio.sleep(0.005)

    async def reported(self, events: int) -> None:
        async def enough() -> bool:
            return (
                len(await self.rows(select(asset_event.c.id).where(asset_event.c.source_watcher.is_not(None))))
                >= events
            )

        await self.until(enough)

    async def load(
        self, dag_id: str, state: str = "success", *, ago: timedelta = timedelta(0), reason: str | None = None
    ) -> str:
        """Let a run of a job consume all that is queued for it, and end."""
        run_id, ended = uuid.uuid4().hex, datetime.now(UTC) - ago
        queued = [row.event_id for row in await self.rows(select(queued_event).where(queued_event.c.dag_id == dag_id))]
        await self.do(
            delete(queued_event).where(queued_event.c.dag_id == dag_id),
            insert(run).values(
                dag_id=dag_id,
                run_id=run_id,
                run_type="asset_triggered",
                triggered_by="asset",
                state=state,
                reason=reason,
                trace_id="0" * 32,
                run_after=ended,
                queued_at=ended,
                end_date=ended if state in {"success", "failed"} else None,
            ),
            *(insert(run_asset_event).values(dag_id=dag_id, event_id=event_id, run_id=run_id) for event_id in queued),
        )
        return run_id

    async def end(self, run_id: str, state: str) -> None:
        await self.do(update(run).where(run.c.run_id == run_id).values(state=state, end_date=datetime.now(UTC)))

    async def look_again(self) -> None:
        """Let the time come at which every event is looked at."""
        await self.do(
            update(cleaning).where(cleaning.c.due_at.is_not(None)).values(due_at=datetime(2026, 1, 1, tzinfo=UTC))
        )

    async def clean(self) -> None:
        """Look at everything as often as there is something to do."""
        await self.look_again()
        with anyio.fail_after(PATIENCE):
            while await self.cleaning.look():
                pass

    async def states(self) -> list[tuple[str, str | None, int]]:
        query = select(cleaning.c.state, cleaning.c.reason, cleaning.c.removed).order_by(cleaning.c.event_id)
        return [tuple(row) for row in await self.rows(query)]

    async def remembered(self) -> int:
        return len(await self.rows(select(watcher_position_row.c.member)))

    async def polled(self, times: int = 2) -> None:
        """Let the watcher begin and end so many polls by itself, and wait for them."""
        report = self.health.watchers["files"]
        for _ in range(times):
            since = report.whole_since

            async def is_later(before: float | None = since) -> bool:
                self.triggerer.poll_now(frozenset({"files"}))
                return report.whole_since != before

            await self.until(is_later)

    @property
    def findings(self) -> list[str]:
        return [finding["check"] for finding in self.health.watchers["files"].findings]


def declared(
    jobs: Mapping[str, tuple[str, ...]], watchers: Mapping[str, str], cleaned: Mapping[str, CleanedWatcher]
) -> Declared:
    return Declared(
        hash="",
        assets=[
            DeclaredAsset(name=name, uri=f"x-files://{name}", group="", extra="{}") for name in {*watchers.values()}
        ],
        watchers=[DeclaredWatcher(name=name, asset=asset, trigger="files") for name, asset in watchers.items()],
        jobs=[
            DeclaredJob(
                dag_id=dag_id, task_id=dag_id, definition=DEFINITION, paused=False, assets={"schedule": [*assets]}
            )
            for dag_id, assets in jobs.items()
        ],
        features={"clean_source": partial(recording.apply, watchers=cleaned)},
    )


@asynccontextmanager
async def cleaning_world(
    database: Database,
    place: Place,
    *,
    jobs: Mapping[str, tuple[str, ...]] | None = None,
    others: Mapping[str, Mapping[str, Any]] | None = None,
    **options: Any,
) -> AsyncIterator[CleaningWorld]:
    """Run a triggerer that watches the place as `files`, on the asset `inbox`; `others` are further watchers, on assets of their names."""
    jobs = {"load": ("inbox",)} if jobs is None else jobs
    watchers = {"files": "inbox", **{name: name for name in others or {}}}
    made = {name: place.hosted(**(options if name == "files" else (others or {})[name])) for name in watchers}
    cleaned = {
        name: CleanedWatcher(after=clean_source.after, assets=[watchers[name]])
        for name, each in made.items()
        if (clean_source := each["options"].clean_source) is not None
    }
    async with database.transaction() as connection:
        applied = await catalog_sync.apply(connection, declared(jobs, watchers, cleaned), database.dialect)
    hosted = {
        name: Hosted(name=name, asset=asset, asset_id=applied.asset_ids[asset], **made[name])
        for name, asset in watchers.items()
    }
    process, health, metrics = ProcessInfo(id=str(uuid.uuid4()), host="here", pid=1), Health(), Metrics()
    committer = Committer(database=database, metrics=metrics, hooks=HOOKS, on_events=lambda _dag_ids: None)
    async with anyio.create_task_group() as tasks:
        clients = Clients(place.connections, tasks)

        def supervise(watcher: Hosted) -> Supervisor:
            return Supervisor(
                hosted=watcher,
                owner=process.id,
                database=database,
                committer=committer,
                clients=clients,
                poll_timeout=timedelta(seconds=30),
                report=WatcherReport(),
            )

        triggerer = Triggerer(
            database=database,
            process=process,
            hosted=hosted,
            supervise=supervise,
            heartbeat=timedelta(milliseconds=50),
            lease=timedelta(seconds=5),
            health=health,
        )
        await tasks.start(triggerer.run)
        cleaning_ = SourceCleaning(
            database=database, owner=process.id, health=health, metrics=metrics, hosted=lambda: hosted
        )
        world = CleaningWorld(database=database, place=place, cleaning=cleaning_, health=health, triggerer=triggerer)

        async def runs() -> bool:
            return all(
                (report := health.watchers.get(name)) is not None and report.state == "running" for name in watchers
            )

        await world.until(runs)
        yield world
        tasks.cancel_scope.cancel()
