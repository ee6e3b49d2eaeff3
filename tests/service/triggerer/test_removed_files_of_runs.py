"""Runs of events whose files `clean_source` has deleted or moved: what is left is loaded, nothing blocks, nothing is replaced by less."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import delete, insert, select, update

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Applied
from store.database import Database
from store.database.schema import asset_event, job, queued_event, run, task_instance
from store.features.catchup import catchups
from store.features.clean_source import recording, removed_files
from store.features.clean_source.recording import CleanedWatcher
from store.features.clean_source.removed_files import FileOfEvent
from store.features.clean_source.tables import cleaning
from store.keys import JobDefinition
from store.runs.actions import decisions
from store.runs.tries import tries
from store.runs.tries.try_lookup import OpenTry
from tests.databases import on_both
from tests.features import HOOKS, ITEM_HOOKS
from tests.schedulers import make_scheduler
from tests.servers import S3Server
from tests.service.api.application import Api, Try, adapted, make_context, serving
from tests.service.store.words import until_somebody_waits
from tests.service.triggerer.cleaning_world import (
    BucketPlace,
    CleaningWorld,
    FolderPlace,
    Place,
    cleaning_world,
    declared,
)
from tests.unit.submit.plain import make_submission, plain_python, submissions
from watcher.features.versions.declaration import be_interested
from watcher.host.leader_election import Leadership
from watcher.scheduling.planning.scheduler import Scheduler
from watcher.scheduling.tries.admission import AdmissionLimits
from watcher.scheduling.tries.arguments import with_rendered_arguments
from watcher.scheduling.tries.run_starter import RunStarter
from watcher.scheduling.tries.submissions import JobToStart
from watcher.submit.base import SparkApplication

pytestmark = pytest.mark.service

DELETE = {"delete": True, "after": "0s"}
EVER = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
LEASE = timedelta(seconds=60)
HOME = "44444444-4444-4444-4444-444444444444"


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield FolderPlace.made(tmp_path)
    else:
        server: S3Server = request.getfixturevalue("s3_server")
        yield BucketPlace(server=server, bucket=request.getfixturevalue("bucket"))


@pytest.fixture
def folder(tmp_path: Path) -> FolderPlace:
    return FolderPlace.made(tmp_path)


@dataclass(kw_only=True)
class JobWorld:
    """A watcher whose files are cleaned, and jobs whose runs are made, started, and ended through the API as drivers do it."""

    world: CleaningWorld
    api: Api
    scheduler: Scheduler
    starter: RunStarter
    started: dict[tuple[str, str], Try] = field(default_factory=dict)

    async def start(self) -> Mapping[str, list[str]]:
        """Make and start what can be; return the names of the files that each new try gets, by its job."""
        await self.scheduler.check()
        before = dict(self.started)
        await self.starter.look()
        got: dict[str, list[str]] = {}
        for key, driver in self.started.items():
            if before.get(key) is not driver:
                context = await driver.done("POST", "tries/claim", body={"nonce": "n"})
                files = [
                    file
                    for events in context["triggering_asset_events"].values()
                    for event in events
                    for file in event["extra"]["files"]
                ]
                got[context["dag_id"]] = sorted(Path(file.get("key") or file["path"]).name for file in files)
                self.contexts[context["dag_id"]] = context
        return got

    contexts: dict[str, Any] = field(default_factory=dict)

    async def end(self, state: str = "success") -> None:
        """Let all started tries end."""
        for driver in self.started.values():
            await driver.call("POST", "tries/finish", body={"state": state, "outlet_events": []})
        for open_try in self.open:
            async with self.world.database.transaction() as connection:
                await tries.end(
                    connection,
                    open_try,
                    exit_code=0 if state == "success" else 1,
                    state=state,
                    run_state=state,
                    reason=None,
                    warning=None,
                    retry_in=None,
                )
        self.open.clear()
        self.started.clear()

    open: list[OpenTry] = field(default_factory=list)

    async def load(self, *names: str, state: str = "success") -> None:
        """Let each file be reported by an event of its own, and loaded by a run of its own of each job."""
        for name in names:
            events = len(await self.world.rows(select(asset_event.c.id)))
            self.world.place.write(name, name)
            await self.world.reported(events + 1)
            assert await self.start()
            await self.end(state)

    async def clean(self, *names: str) -> None:
        """Clean exactly the events of these files."""
        rows = await self.world.rows(select(asset_event.c.id, asset_event.c.extra))
        others = [row.id for row in rows if not any(name in row.extra for name in names)]
        await self.world.do(update(cleaning).where(cleaning.c.event_id.in_(others)).values(due_at=None))
        await self.world.clean()
        of_others = update(cleaning).where(cleaning.c.event_id.in_(others))
        await self.world.do(of_others.values(due_at=datetime(2026, 1, 1, tzinfo=UTC)))

    async def runs(self, dag_id: str) -> list[tuple[str, str | None]]:
        query = select(run.c.state, run.c.reason).where(run.c.dag_id == dag_id).order_by(run.c.id)
        return [tuple(row) for row in await self.world.rows(query)]

    async def run_ids(self, dag_id: str) -> list[str]:
        return [
            row.run_id
            for row in await self.world.rows(select(run.c.run_id).where(run.c.dag_id == dag_id).order_by(run.c.id))
        ]

    async def clear(self, dag_id: str, run_id: str, status: int = 200, **more: Any) -> Any:
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/clear"
        answer = await self.api.client.post(path, json={"dry_run": False, **more})
        assert answer.status_code == status, answer.text
        return answer.json()

    async def reload(self, jobs: Mapping[str, str], asset: str = "inbox") -> Applied:
        """Apply these jobs, each with the JSON of its definition, and this name of the asset."""
        cleaned = {"files": CleanedWatcher(after=timedelta(0), assets=[asset])}
        configured = declared(dict.fromkeys(jobs, (asset,)), {"files": asset}, cleaned)
        configured = replace(
            configured,
            assets=[replace(each, uri="x-files://inbox") for each in configured.assets],
            jobs=[replace(each, definition=JobDefinition.from_json(jobs[each.dag_id])) for each in configured.jobs],
            features={
                "clean_source": partial(recording.apply, watchers=cleaned),
                "catchup": catchups.begin,
                "versions": partial(be_interested, assets={asset}),
            },
        )
        async with self.world.database.transaction() as connection:
            return await catalog_sync.apply(connection, configured, self.world.database.dialect)


DEFINITION = '{"schedule": "inbox", "batch": {"mode": "coalesce"}, "retries": 0, "max_active_runs": 1}'
CATCHUP = '{"schedule": "inbox", "batch": {"mode": "coalesce"}, "retries": 0, "max_active_runs": 1, "catchup": true}'


@asynccontextmanager
async def job_world(database: Database, place: Place, tmp_path: Path, **options: Any) -> AsyncIterator[JobWorld]:
    async with cleaning_world(database, place, clean_source=options.pop("clean_source", DELETE), **options) as world:
        context = adapted(make_context(database, tmp_path / "logs"), item_hooks=ITEM_HOOKS)
        leadership = Leadership(database=database, owner=HOME, heartbeat=LEASE, lease=LEASE, on_taken=lambda: None)
        await leadership.campaign()
        async with serving(context) as client:
            api = Api(client, context, {"inbox": 1})
            application = SparkApplication(application="x.py", env={}, driver_memory="64m")
            made: JobWorld

            def follow(open_try: OpenTry, _token: str | None) -> None:
                key = open_try.key
                made.open.append(open_try)
                made.started[key.dag_id, key.run_id] = api.as_try(key.task_instance_id, key.try_number, key.run_id)

            jobs = {name: JobToStart(application=application, connections={}) for name in ("load", "copy", "later")}
            starter = RunStarter(
                database=database,
                leadership=leadership,
                submissions=submissions(jobs, spark_submit=plain_python(tmp_path)),
                home_id=HOME,
                hooks=HOOKS,
                item_hooks=ITEM_HOOKS,
                limits=AdmissionLimits(parallelism=10, memory_mb=10_000, warm_memory_mb=0),
                lease=LEASE,
                running=list,
                follow=follow,
                on_end=lambda: None,
            )
            made = JobWorld(world=world, api=api, scheduler=make_scheduler(database, leadership), starter=starter)
            yield made


@on_both
async def test_a_run_that_succeeded_is_not_run_again_without_files_that_are_gone(
    database: Database, place: Place, tmp_path: Path
) -> None:
    async with job_world(database, place, tmp_path) as jobs:
        await jobs.load("a.csv", "b.csv", "c.csv")
        await jobs.clean("a.csv")
        assert place.names() == ["b.csv", "c.csv"]
        first, second, _ = await jobs.run_ids("load")
        refused = await jobs.clear("load", first, 409)
        assert "1 cleaned of its files" in refused["detail"]
        assert "a.csv" in refused["detail"]
        assert "include_cleaned" in refused["detail"]
        await jobs.clear("load", first, 409, dry_run=True)
        patch = await jobs.api.client.patch(f"/api/v2/dags/load/dagRuns/{first}", json={"state": "queued"})
        assert patch.status_code == 409
        await jobs.clear("load", second)
        assert await jobs.start() == {"load": ["b.csv"]}
        await jobs.end()

        matching = "/api/v2/dags/load/dagRuns/clear"
        preview = (await jobs.api.client.post(matching, json={})).json()
        assert preview == {"dry_run": True, "expected_count": 2, "cleaned": 1, "superseded": 0}
        done = (await jobs.api.client.post(matching, json={"dry_run": False, "expected_count": 2})).json()
        assert done == {"dry_run": False, "expected_count": 2, "cleaned": 1, "superseded": 0}
        for _ in range(2):
            assert await jobs.start()
            await jobs.end()
        assert {state for state, _ in await jobs.runs("load")} == {"success"}


@on_both
async def test_a_replay_leaves_such_a_run_out_and_counts_its_files(
    database: Database, folder: FolderPlace, tmp_path: Path
) -> None:
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.load("a.csv", "b.csv", "c.csv")
        await jobs.clean("a.csv")
        path = "/api/v2/dags/load/replay"
        preview = (await jobs.api.client.post(path, json=EVER)).json()
        counts = {
            name: preview[name] for name in ("expected_count", "cleared", "cleared_runs", "cleaned", "outside_range")
        }
        assert counts == {"expected_count": 2, "cleared": 2, "cleared_runs": 2, "cleaned": 1, "outside_range": 0}
        with_it = (await jobs.api.client.post(path, json={**EVER, "include_cleaned": True})).json()
        assert (with_it["expected_count"], with_it["cleaned"]) == (3, 1)
        begun = await jobs.api.client.post(path, json={**EVER, "dry_run": False, "expected_count": 2})
        assert (begun.status_code, begun.json()["cleaned"]) == (200, 1)
        got = []
        for _ in range(2):
            got.append(await jobs.start())
            await jobs.end()
        assert got == [{"load": ["b.csv"]}, {"load": ["c.csv"]}]
        assert await jobs.start() == {}
        assert {state for state, _ in await jobs.runs("load")} == {"success"}

        begun = await jobs.api.client.post(path, json={**EVER, "dry_run": False, "include_cleaned": True})
        assert begun.json()["expected_count"] == 3
        assert await jobs.start() == {"load": ["b.csv"]}  # of the first run nothing is left
        assert (await jobs.runs("load"))[0] == ("success", "cleaned")


@on_both
async def test_a_new_job_loads_the_files_that_are_there(database: Database, place: Place, tmp_path: Path) -> None:
    async with job_world(database, place, tmp_path) as jobs:
        await jobs.load("a.csv", "b.csv", "c.csv")
        await jobs.clean("a.csv")
        applied = await jobs.reload({"load": DEFINITION, "later": CATCHUP})
        assert (applied.counts["earlier"], applied.counts["cleaned"]) == ({"later": 3}, {"later": 1})
        await jobs.world.clean()
        assert place.names() == ["b.csv", "c.csv"]  # they are owed to the new job by now
        assert await jobs.start() == {"later": ["b.csv", "c.csv"]}
        [left_out] = jobs.contexts["later"]["left_out"]["cleaned"]
        assert str(left_out.get("key") or left_out["path"]).endswith("a.csv")
        await jobs.end()
        assert await jobs.runs("later") == [("success", None)]
        await jobs.world.clean()
        assert place.names() == []


@on_both
async def test_a_run_of_which_nothing_is_left_is_skipped_without_a_driver(
    database: Database, folder: FolderPlace, tmp_path: Path
) -> None:
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.load("a.csv")
        await jobs.clean("a.csv")
        await jobs.reload({"load": DEFINITION, "later": CATCHUP})
        [event] = await jobs.world.rows(select(asset_event.c.id, asset_event.c.asset_id))
        queued = {"dag_id": "later", "event_id": event.id, "asset_id": event.asset_id, "created_at": datetime.now(UTC)}
        await jobs.world.do(insert(queued_event).values(queued))
        assert (await jobs.api.get("/api/v2/dags/later/queue"))["cleaned"] == 1
        await jobs.world.do(delete(queued_event))
        assert await jobs.start() == {}
        assert jobs.started == {}
        assert await jobs.runs("later") == [("success", "cleaned")]
        query = select(task_instance.c.state, task_instance.c.detail).where(task_instance.c.dag_id == "later")
        assert [tuple(row) for row in await jobs.world.rows(query)] == [("skipped", "cleaned")]
        await jobs.load("b.csv")
        assert await jobs.runs("later") == [("success", "cleaned"), ("success", None)]


@on_both
async def test_a_run_that_never_succeeded_goes_without_files_that_are_gone(
    database: Database, folder: FolderPlace, tmp_path: Path
) -> None:
    """`later` was not there when they were reported, so that they were not owed to it; a person gave it a run by replay."""
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.load("a.csv", "b.csv")
        await jobs.reload({"load": DEFINITION, "later": DEFINITION})
        replay = await jobs.api.client.post("/api/v2/dags/later/replay", json={**EVER, "dry_run": False})
        assert replay.json()["expected_count"] == 2
        assert await jobs.start() == {"later": ["a.csv", "b.csv"]}
        await jobs.end("failed")
        await jobs.clean("a.csv")
        assert folder.names() == ["b.csv"]
        [failed] = await jobs.run_ids("later")
        await jobs.clear("later", failed)
        assert await jobs.start() == {"later": ["b.csv"]}
        assert len(jobs.contexts["later"]["left_out"]["cleaned"]) == 1
        await jobs.end()
        assert await jobs.runs("later") == [("success", None)]


@on_both
async def test_moved_files_are_read_at_their_new_place(database: Database, place: Place, tmp_path: Path) -> None:
    moving = {"move_to": place.done, "after": "0s"}
    async with job_world(database, place, tmp_path, clean_source=moving) as jobs:
        await jobs.load("a.csv", "b.csv")
        before = jobs.contexts["load"]["triggering_asset_events"]["inbox"][0]["extra"]["files"][0]
        await jobs.clean("b.csv")
        assert (place.names(), place.names("done")) == (["a.csv"], ["b.csv"])
        await jobs.clear("load", (await jobs.run_ids("load"))[1])
        assert await jobs.start() == {"load": ["b.csv"]}
        context = jobs.contexts["load"]
        [file] = context["triggering_asset_events"]["inbox"][0]["extra"]["files"]
        assert context["left_out"] == {}
        if isinstance(place, FolderPlace):
            template = "{{ triggering_asset_events.inbox[0].extra.files[0].path }}"
            submission = make_submission(jobs.open[0].key.task_instance_id, Path("x.py"), template)
            rendered = await with_rendered_arguments(replace(submission, key=jobs.open[0].key), database)
            assert [*rendered.application.args] == [file["path"]] == [f"{place.done}/b.csv"]
            assert file["moved_from"] == before["path"]
            assert Path(file["path"]).stat().st_ino == file["inode"]
        else:
            assert (file["bucket"], file["key"]) == (place.bucket, "done/b.csv")
            assert file["moved_from"] == f"s3://{place.bucket}/{before['key']}"
            head = place.server.client.head_object(Bucket=place.bucket, Key="done/b.csv")
            assert file["etag"] == head["ETag"].strip('"')


@on_both
async def test_a_start_waits_while_files_are_being_removed_and_a_succeeded_run_is_not_cleared(
    database: Database, folder: FolderPlace, tmp_path: Path
) -> None:
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.load("a.csv", "b.csv")
        await jobs.reload({"load": DEFINITION, "later": CATCHUP})
        await jobs.scheduler.check()
        [first, _] = [row.id for row in await jobs.world.rows(select(asset_event.c.id).order_by(asset_event.c.id))]
        async with database.transaction() as connection:
            await removed_files.take_in_hand(connection, [FileOfEvent(first, 0)], moves=False)
        assert await jobs.start() == {}
        refused = await jobs.clear("load", (await jobs.run_ids("load"))[0], 409)
        assert "a.csv" in refused["detail"]
        async with database.transaction() as connection:
            await removed_files.forget(connection, [FileOfEvent(first, 0)])
        assert await jobs.start() == {"later": ["a.csv", "b.csv"]}


@on_both
async def test_a_file_that_two_events_name_is_gone_for_the_runs_of_both(
    database: Database, place: Place, tmp_path: Path
) -> None:
    """Another watcher, without `clean_source`, has reported it as well; its job gets nothing that is not there."""
    others = {"copies": {}}
    async with job_world(
        database, place, tmp_path, others=others, jobs={"load": ("inbox",), "copy": ("copies",)}
    ) as jobs:
        of_copies = JobDefinition.from_json(DEFINITION.replace("inbox", "copies"))
        await jobs.world.do(update(job).where(job.c.dag_id == "copy").values(definition=of_copies))
        place.write("a.csv", "a")
        await jobs.world.reported(2)
        await jobs.scheduler.check()
        await jobs.starter.look()
        assert len(jobs.started) == 2
        await jobs.end()
        await jobs.world.clean()
        assert place.names() == []
        [copied] = await jobs.run_ids("copy")
        refused = await jobs.clear("copy", copied, 409)
        assert "a.csv" in refused["detail"]


@on_both
async def test_a_removed_job_is_owed_nothing(database: Database, folder: FolderPlace, tmp_path: Path) -> None:
    async with job_world(database, folder, tmp_path, jobs={"load": ("inbox",), "copy": ("inbox",)}) as jobs:
        folder.write("a.csv")
        await jobs.world.reported(1)
        await jobs.world.load("load")
        await jobs.world.clean()
        assert folder.names() == ["a.csv"]
        await jobs.reload({"load": DEFINITION})
        await jobs.world.clean()
        assert folder.names() == []


async def test_a_clear_waits_for_the_step_that_takes_files_in_hand(
    database: Database, folder: FolderPlace, tmp_path: Path
) -> None:
    """Else it would not see them, and the run would begin with files that go."""
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.load("a.csv")
        [event_id] = [row.id for row in await jobs.world.rows(select(asset_event.c.id))]
        [run_id] = await jobs.run_ids("load")
        async with anyio.create_task_group() as tasks, database.transaction() as connection:
            await removed_files.exclude_runs(connection)
            await removed_files.take_in_hand(connection, [FileOfEvent(event_id, 0)], moves=False)
            tasks.start_soon(partial(jobs.clear, "load", run_id, 409))
            await until_somebody_waits(database)
        assert await jobs.runs("load") == [("success", None)]


async def test_a_removal_waits_for_a_clear_and_then_leaves_the_files(
    database: Database, folder: FolderPlace, tmp_path: Path
) -> None:
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.load("a.csv")
        [run_id] = await jobs.run_ids("load")
        async with anyio.create_task_group() as tasks, database.transaction() as connection:
            await decisions.clear(connection, "load", run_id, item_hooks=ITEM_HOOKS)
            tasks.start_soon(jobs.world.clean)
            await until_somebody_waits(database)
        assert folder.names() == ["a.csv"]
        assert await jobs.start() == {"load": ["a.csv"]}
