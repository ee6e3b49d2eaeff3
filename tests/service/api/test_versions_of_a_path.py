"""A job that misses a file: newer versions supersede it, or its try ends without using a retry until they can be known."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete, func, select, update

from store.database import Database
from store.database.schema import (
    asset_event,
    database_now,
    database_time_in,
    queued_event,
    run,
    task_instance,
    task_try,
    watcher,
)
from store.fates import Fate
from store.features.versions import superseded_items
from store.processes import cleanup
from store.processes.cleanup import Retention
from store.processes.tokens import digest
from store.runs.tries import changed_items, superseding, tries, try_lookup
from store.runs.tries.changed_items import ChangedItems
from tests.databases import on_both
from tests.features import HOOKS, ITEM_HOOKS, KEPT_EVENTS
from tests.service.api.application import Api, Try
from tests.service.api.explained_world import LONG_AGO, ExplainedWorld, explained_world
from tests.service.api.test_reconcile import reconciled
from tests.service.queued_tasks import queued_task_of
from triggers.local_folder.new_files import FileNewFiles
from watcher.features.versions.routes import MOST_PATHS
from watcher.host.metrics import Metrics
from watcher.scheduling.tries.try_end import record_end
from watcher.submit.base import Status

pytestmark = [pytest.mark.service, pytest.mark.feature("folder", "explain", "reconcile", "versions")]
FILES: Mapping[str, Any] = {"start": "all", "interval": "1ms", "min_age": "0s"}


@dataclass(kw_only=True)
class Jobs:
    """A watched folder, and the tries of the job `load`, which are started and ended step by step."""

    world: ExplainedWorld
    folder: Path
    api: Api = field(init=False)

    def __post_init__(self) -> None:
        self.api = Api(client=self.world.client, context=self.world.context, asset_ids={})

    @property
    def database(self) -> Database:
        return self.world.database

    async def write(self, name: str, text: str) -> str:
        """Write a file anew, and let the watcher report it; return its path."""
        new = self.folder.with_name(".new")
        new.write_text(text)
        new.rename(self.folder / name)
        await self.world.poll("files")
        return str(self.folder / name)

    async def queue(self) -> str:
        """Make a run of all that is queued."""
        return await self.world.consume("queued")

    async def start(self, run_id: str) -> Try | str:
        """Start the next try as the leader does; return it, or how the run has ended, or that it waits."""
        async with self.database.transaction() as connection:
            task = await queued_task_of(connection, run_id)
            if task is None:
                return "waits"
            changed = await ITEM_HOOKS.of_run(connection, task.number, lock=True)
            if task.key.try_number > 1 and await superseding.postpone(connection, task, changed):
                return "waits"
            if await changed_items.nothing_left(connection, task.number, changed):
                assert await tries.skip(connection, task, Fate.SUPERSEDED, changed) is not None
                return "skipped"
            tag = f"{task.key.task_instance_id}-{task.key.try_number}"
            made = self.api.as_try(task.key.task_instance_id, task.key.try_number, run_id)
            await tries.commit_intent(
                connection, task, home_id="home", tag=tag, token_hash=digest(made.token), changed=changed
            )
        return made

    async def started(self, run_id: str) -> tuple[Try, Mapping[str, Any]]:
        """Start and claim the next try; return it with its context."""
        made = await self.start(run_id)
        assert isinstance(made, Try)
        return made, await made.done("POST", "tries/claim", body={"nonce": "n"})

    async def fail(self, made: Try, *missing: str, overwritten: bool = False) -> None:
        """Let the job report that it failed, for files that it missed, and let its process end."""
        files = [{"path": path, "overwritten": overwritten} for path in missing]
        await made.done("POST", "tries/finish", body={"state": "failed", "message": "gone", "missing": files})
        async with self.database.reading() as connection:
            [open_try] = [
                each for each in await try_lookup.open_tries(connection, "home") if each.key.run_id == made.run_id
            ]
        await record_end(
            self.database.transaction, open_try, Status(phase="exited", exit_code=1), Metrics(), hooks=HOOKS
        )

    async def succeed(self, made: Try) -> None:
        await made.done("POST", "tries/finish", body={"state": "success"})

    async def end(self, made: Try | str) -> None:
        """Let the job succeed, and its process end."""
        assert isinstance(made, Try)
        await self.succeed(made)
        async with self.database.reading() as connection:
            [open_try] = await try_lookup.open_tries(connection, "home")
        status = Status(phase="exited", exit_code=0)
        await record_end(self.database.transaction, open_try, status, Metrics(), hooks=HOOKS)

    async def scan(self, *, seconds: float = 10) -> None:
        """Let a scan that began so many seconds from now have been committed."""
        polled = {"last_poll_at": database_time_in(seconds), "lag_seconds": 0}
        async with self.database.transaction() as connection:
            await connection.execute(update(watcher).values(**polled))

    async def look(self) -> None:
        """Let the time of the next look come."""
        async with self.database.transaction() as connection:
            await connection.execute(update(task_instance).values(not_before=database_now()))

    async def state(self, run_id: str) -> tuple[str, list[tuple[str | None, bool]]]:
        """Return the state of a run, and of each of its tries how it finished and whether it used a retry."""
        async with self.database.reading() as connection:
            of_run = await connection.scalar(select(run.c.state).where(run.c.run_id == run_id))
            query = select(task_try.c.finish_state, task_try.c.counted).join(
                task_instance, task_instance.c.id == task_try.c.task_instance_id
            )
            query = query.where(task_instance.c.run_id == run_id).order_by(task_try.c.try_number)
            return str(of_run), [(row.finish_state, row.counted) for row in await connection.execute(query)]


def names(files: Any) -> list[str]:
    return [Path(file["path"]).name for file in files]


def given(context: Mapping[str, Any]) -> list[str]:
    """Return the names of the files that a try gets."""
    return [name for event in context["triggering_asset_events"]["files"] for name in names(event["extra"]["files"])]


@pytest.fixture
async def jobs(database: Database, tmp_path: Path) -> AsyncIterator[Jobs]:
    async with _jobs(database, tmp_path) as made:
        yield made


@asynccontextmanager
async def _jobs(database: Database, tmp_path: Path) -> AsyncIterator[Jobs]:
    folder = tmp_path / "in"
    folder.mkdir()
    triggers: Mapping[str, Any] = {"files": (FileNewFiles, {**FILES, "path": str(folder)})}
    async with explained_world(database, triggers, {"files"}, tmp_path) as world:
        yield Jobs(world=world, folder=folder)


@on_both
async def test_of_several_versions_in_one_run_the_newest_counts(jobs: Jobs) -> None:
    await jobs.write("a", "1")
    await jobs.write("b", "1")
    await jobs.write("a", "22")
    run_id = await jobs.queue()
    made, context = await jobs.started(run_id)
    assert sorted(given(context)) == ["a", "b"]
    assert [
        file["size"] for event in context["triggering_asset_events"]["files"] for file in event["extra"]["files"]
    ] == [1, 2]
    assert [(Path(file["path"]).name, file["size"]) for file in context["left_out"]["superseded"]] == [("a", 1)]
    await jobs.succeed(made)
    assert await jobs.state(run_id) == ("success", [("success", True)])


@on_both
async def test_a_job_that_misses_a_file_leaves_out_what_a_newer_version_supersedes(jobs: Jobs) -> None:
    path, other = await jobs.write("a", "1"), await jobs.write("b", "1")
    run_id = await jobs.queue()
    made, _ = await jobs.started(run_id)
    asked = {"paths": [path, other, "/elsewhere"]}
    assert await made.done("POST", "superseded", body=asked) == {"superseded": []}
    await jobs.write("a", "22")
    assert await made.done("POST", "superseded", body=asked) == {"superseded": [path]}
    async with jobs.database.reading() as connection:
        kept = ChangedItems.from_json(await connection.scalar(select(task_try.c.changed_items)))
    assert [(item.fate, item.number) for item in kept.items] == [("superseded", 0)]


@on_both
async def test_one_of_many_files_is_found_among_many_events(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(superseded_items, "_SOON_READ", 0)
    for number in range(150):
        (jobs.folder / f"{number}").write_text("1")
    path = await jobs.write("a", "1")
    made, context = await jobs.started(await jobs.queue())
    assert len(given(context)) == 151
    for number in range(5):
        await jobs.write("a" if number == 2 else f"new-{number}", "22")
    paths = [path, *(str(jobs.folder / f"{number}") for number in range(150))]
    assert await made.done("POST", "superseded", body={"paths": paths}) == {"superseded": [path]}


@on_both
@pytest.mark.parametrize("lost_by", ["dropped", "failed"])
async def test_a_newer_version_that_is_not_to_be_loaded_supersedes_nothing(jobs: Jobs, lost_by: str) -> None:
    path = await jobs.write("a", "1")
    run_id = await jobs.queue()
    made, _ = await jobs.started(run_id)
    await jobs.write("a", "22")
    if lost_by == "dropped":
        answer = await jobs.world.client.delete("/api/v2/dags/load/assets/queuedEvents")
        assert answer.status_code == 204, answer.text
    else:
        await jobs.world.consume("failed")
    assert await made.done("POST", "superseded", body={"paths": [path]}) == {"superseded": []}


@on_both
async def test_a_try_that_misses_a_file_uses_no_retry_and_the_next_one_waits_for_a_scan(jobs: Jobs) -> None:
    path = await jobs.write("a", "1")
    await jobs.write("b", "1")
    run_id = await jobs.queue()
    made, _ = await jobs.started(run_id)
    await jobs.fail(made, path, overwritten=True)
    assert await jobs.state(run_id) == ("running", [("superseding", False)])
    assert await jobs.start(run_id) == "waits"
    await jobs.scan(seconds=-60)
    await jobs.look()
    assert await jobs.start(run_id) == "waits"
    await jobs.write("a", "22")  # what the job missed is known to be superseded by now: no scan is needed
    await jobs.look()
    made, context = await jobs.started(run_id)
    assert (given(context), names(context["left_out"]["superseded"])) == (["b"], ["a"])
    first = min(event["id"] for event in context["triggering_asset_events"]["files"])
    await jobs.succeed(made)
    assert await jobs.state(run_id) == ("success", [("superseding", False), ("success", True)])
    await jobs.world.consume("success")
    [answer] = await jobs.world.explained("a", watcher="files")
    assert answer["state"] == "loaded"
    assert f"its earlier version of event {first} was superseded at load" in answer["sentence"]


@on_both
async def test_what_is_still_missing_after_a_scan_was_deleted_and_fails_its_run(jobs: Jobs) -> None:
    path = await jobs.write("a", "1")
    run_id = await jobs.queue()
    made, _ = await jobs.started(run_id)
    await jobs.fail(made, path)
    await jobs.scan()
    made, context = await jobs.started(run_id)
    assert given(context) == ["a"]
    await jobs.fail(made, path)
    assert await jobs.state(run_id) == ("failed", [("superseding", False), ("failed", True)])


@on_both
async def test_a_file_that_is_written_again_and_again_keeps_its_run_from_failing_for_an_hour(jobs: Jobs) -> None:
    path = await jobs.write("a", "1")
    run_id = await jobs.queue()
    for _ in range(2):
        made, _context = await jobs.started(run_id)
        await jobs.fail(made, path, overwritten=True)
        await jobs.scan()
    assert (await jobs.state(run_id))[0] == "running"
    async with jobs.database.transaction() as connection:
        long_ago = {"ended_at": database_time_in(-2 * superseding.LONGEST.total_seconds())}
        await connection.execute(update(task_try).values(**long_ago))
    made, _ = await jobs.started(run_id)
    await jobs.fail(made, path, overwritten=True)
    assert await jobs.state(run_id) == ("failed", [("superseding", False), ("superseding", False), ("failed", True)])


@on_both
async def test_a_run_waits_an_hour_at_most_for_a_watcher_that_does_not_scan(jobs: Jobs) -> None:
    path = await jobs.write("a", "1")
    run_id = await jobs.queue()
    made, _ = await jobs.started(run_id)
    await jobs.fail(made, path, overwritten=True)
    assert await jobs.start(run_id) == "waits"
    async with jobs.database.transaction() as connection:
        ended = database_time_in(-superseding.LONGEST.total_seconds() - 1)
        await connection.execute(update(task_try).values(ended_at=ended))
    await jobs.look()
    assert isinstance(await jobs.start(run_id), Try)


@on_both
async def test_a_run_of_which_nothing_is_left_is_skipped(jobs: Jobs) -> None:
    path = await jobs.write("a", "1")
    run_id = await jobs.queue()
    made, context = await jobs.started(run_id)
    first = context["triggering_asset_events"]["files"][0]["id"]
    await jobs.fail(made, path, overwritten=True)
    await jobs.write("a", "22")
    assert await jobs.start(run_id) == "skipped"
    shown = (await jobs.world.client.get(f"/api/v2/dags/load/dagRuns/{run_id}")).json()
    assert (shown["state"], shown["reason"], shown["superseded"]) == ("success", "superseded", 1)
    [answer] = await jobs.world.explained("a", watcher="files")
    assert answer["state"] == "queued"
    assert f"its earlier version of event {first} was superseded at load" in answer["sentence"]


async def test_a_run_that_has_succeeded_leaves_out_nothing_so(jobs: Jobs) -> None:
    path = await jobs.write("a", "1")
    run_id = await jobs.queue()
    await jobs.end(await jobs.start(run_id))
    answer = await jobs.world.client.post(f"/api/v2/dags/load/dagRuns/{run_id}/clear", json={"dry_run": False})
    assert answer.is_success, answer.text
    made, _ = await jobs.started(run_id)
    await jobs.write("a", "22")
    assert await made.done("POST", "superseded", body={"paths": [path]}) == {"superseded": []}
    await jobs.fail(made, path, overwritten=True)
    assert (await jobs.state(run_id))[0] == "failed"


@on_both
async def test_a_run_that_has_succeeded_is_not_run_again_without_what_is_superseded_since(jobs: Jobs) -> None:
    path = await jobs.write("a", "1")
    await jobs.write("b", "1")
    run_id, client = await jobs.queue(), jobs.world.client
    await jobs.end(await jobs.start(run_id))
    await jobs.write("a", "22")
    clear, everything = f"/api/v2/dags/load/dagRuns/{run_id}/clear", "/api/v2/dags/load/dagRuns/clear"
    refused = await client.post(clear, json={"dry_run": False})
    assert (refused.status_code, "1 superseded" in refused.text, path in refused.text) == (409, True, True)
    assert "include_superseded" in refused.text
    left_out = (await client.post(everything, json={"dry_run": False})).json()
    assert (left_out["expected_count"], left_out["superseded"], left_out["cleaned"]) == (0, 1, 0)
    replay = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    preview = (await client.post("/api/v2/dags/load/replay", json=replay)).json()
    assert (preview["cleared_runs"], preview["superseded"], preview["waiting"]) == (0, 1, 1)
    included = (await client.post("/api/v2/dags/load/replay", json={**replay, "include_superseded": True})).json()
    assert included["cleared_runs"] == 1
    again = await client.post(clear, json={"dry_run": False, "include_superseded": True})
    assert again.status_code == 200, again.text
    made, context = await jobs.started(run_id)
    assert given(context) == ["b"]
    await jobs.end(made)
    shown = (await client.get(f"/api/v2/dags/load/dagRuns/{run_id}")).json()
    assert (shown["state"], shown["superseded"], shown["cleaned"]) == ("success", 1, 0)
    once_more = await client.post(clear, json={"dry_run": False})  # its part was written without that file
    assert once_more.status_code == 200, once_more.text


@on_both
async def test_a_run_that_was_cleared_after_a_success_goes_only_without_what_a_person_has_agreed_to(jobs: Jobs) -> None:
    """Found by a history: a newer version that came between the clear and the start was left out, and its rows were gone."""
    await jobs.write("a", "1")
    await jobs.write("b", "1")
    run_id, client = await jobs.queue(), jobs.world.client
    await jobs.end(await jobs.start(run_id))
    await jobs.write("a", "22")
    clear = {"dry_run": False, "include_superseded": True}
    agreed = await client.post(f"/api/v2/dags/load/dagRuns/{run_id}/clear", json=clear)
    assert agreed.status_code == 200, agreed.text
    shown = (await client.get(f"/api/v2/dags/load/dagRuns/{run_id}")).json()
    assert (shown["state"], shown["superseded"]) == ("queued", 1)
    path = await jobs.write("b", "22")
    made, context = await jobs.started(run_id)
    assert given(context) == ["b"]
    await jobs.fail(made, path, overwritten=True)
    assert (await jobs.state(run_id))[0] == "failed"
    refused = await client.post(f"/api/v2/dags/load/dagRuns/{run_id}/clear", json={"dry_run": False})
    assert (refused.status_code, "1 superseded" in refused.text, path in refused.text) == (409, True, True)


@on_both
async def test_a_run_that_was_cleared_after_a_success_leaves_out_nothing_that_is_superseded_later(jobs: Jobs) -> None:
    await jobs.write("a", "1")
    run_id = await jobs.queue()
    await jobs.end(await jobs.start(run_id))
    cleared = await jobs.world.client.post(f"/api/v2/dags/load/dagRuns/{run_id}/clear", json={"dry_run": False})
    assert cleared.status_code == 200, cleared.text
    path = await jobs.write("a", "22")
    made, context = await jobs.started(run_id)
    assert given(context) == ["a"]
    await jobs.fail(made, path, overwritten=True)
    assert (await jobs.state(run_id))[0] == "failed"


@on_both
async def test_a_run_of_several_versions_runs_again_as_it_has_run(jobs: Jobs) -> None:
    await jobs.write("a", "1")
    await jobs.write("a", "22")
    run_id = await jobs.queue()
    await jobs.end(await jobs.start(run_id))
    answer = await jobs.world.client.post(f"/api/v2/dags/load/dagRuns/{run_id}/clear", json={"dry_run": False})
    assert answer.status_code == 200, answer.text
    _, context = await jobs.started(run_id)
    assert given(context) == ["a"]


async def test_more_than_ten_thousand_paths_are_too_many(jobs: Jobs) -> None:
    await jobs.write("a", "1")
    made, _ = await jobs.started(await jobs.queue())
    most = await made.call("POST", "superseded", body={"paths": ["x"] * MOST_PATHS})
    more: httpx.Response = await made.call("POST", "superseded", body={"paths": ["x"] * (MOST_PATHS + 1)})
    assert (most.status_code, more.status_code) == (200, 413)
    assert timedelta(hours=1) == superseding.LONGEST


@on_both
async def test_what_was_superseded_stays_so_when_its_run_is_forgotten(jobs: Jobs) -> None:
    """In a run of several versions, in one that found out, and in one that was skipped."""
    await jobs.write("both", "1")
    await jobs.write("both", "22")
    together = await jobs.queue()
    await jobs.end(await jobs.start(together))
    path = await jobs.write("found", "1")
    await jobs.write("other", "1")
    found = await jobs.queue()
    made, _ = await jobs.started(found)
    await jobs.write("found", "22")
    assert await made.done("POST", "superseded", body={"paths": [path]}) == {"superseded": [path]}
    await jobs.end(made)
    await jobs.end(await jobs.start(await jobs.queue()))
    path = await jobs.write("skipped", "1")
    skipped = await jobs.queue()
    made, _ = await jobs.started(skipped)
    await jobs.fail(made, path, overwritten=True)
    await jobs.write("skipped", "22")
    assert await jobs.start(skipped) == "skipped"
    await jobs.end(await jobs.start(await jobs.queue()))

    names = ("both", "found", "other", "skipped")
    kept = {name: (await jobs.world.explained(name, watcher="files"))[0] for name in names}
    counted = await reconciled(jobs.world, "files")
    assert await jobs.world.forget_runs() == 5
    forgotten = {name: (await jobs.world.explained(name, watcher="files"))[0] for name in names}
    assert await reconciled(jobs.world, "files") == counted
    assert {name: each["state"] for name, each in forgotten.items()} == dict.fromkeys(names, "loaded")
    for name in ("both", "found", "skipped"):
        for answer in (kept[name], forgotten[name]):
            assert re.search("its earlier version of event [0-9]+ was superseded at load", answer["sentence"]), answer
    assert "superseded" not in forgotten["other"]["sentence"]


@on_both
async def test_a_superseded_version_whose_newest_event_is_gone_stays_superseded(jobs: Jobs) -> None:
    path = await jobs.write("a", "1")
    first = await jobs.queue()
    made, _ = await jobs.started(first)
    await jobs.fail(made, path, overwritten=True)
    await jobs.write("a", "22")
    assert await jobs.start(first) == "skipped"
    await remove_newest_event(jobs.database)
    Path(path).unlink()

    async def at_load() -> tuple[str, Mapping[str, str]]:
        [answer] = await jobs.world.explained("a", watcher="files")
        return answer["state"], {each["dag_id"]: each["state"] for each in answer["jobs"]}

    before = await at_load()
    await jobs.world.forget_runs()
    assert before == await at_load() == ("superseded", {"load": "superseded"})


async def remove_newest_event(database: Database) -> None:
    """Delete the newest event, as no program of ours does."""
    async with database.transaction() as connection:
        newest = select(func.max(asset_event.c.id)).scalar_subquery()
        await connection.execute(delete(queued_event).where(queued_event.c.event_id == newest))
        await connection.execute(delete(asset_event).where(asset_event.c.id == newest))


@on_both
@pytest.mark.parametrize("newer", ["queued", "loaded", "forgotten"])
async def test_retention_of_events_beside_a_try_that_is_superseding_takes_nothing_that_decides(
    jobs: Jobs, newer: str
) -> None:
    """What was loaded is known for as long as its event is kept, though its run is forgotten."""
    path = await jobs.write("a", "1")
    await jobs.write("b", "1")
    run_id = await jobs.queue()
    made, _ = await jobs.started(run_id)
    await jobs.fail(made, path, overwritten=True)
    await let_events_be_old(jobs.database)
    await jobs.world.forget_runs()
    assert await sweep_events(jobs.database) == 0, "they belong to a run that goes on"
    await jobs.write("a", "22")
    if newer != "queued":
        await jobs.world.consume("success")
    if newer == "forgotten":
        assert await jobs.world.forget_runs() == 1
    assert await sweep_events(jobs.database) == 0
    await jobs.look()
    made, context = await jobs.started(run_id)
    assert (given(context), names(context["left_out"]["superseded"])) == (["b"], ["a"])
    await jobs.succeed(made)


async def let_events_be_old(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(update(asset_event).values(timestamp=LONG_AGO))


async def sweep_events(database: Database) -> int:
    """Remove the events past their retention; return how many."""
    days = {"task_days": 30, "history_days": 90, "event_days": 90, "run_days": 90, "orphan_days": 30}
    sweeps = await cleanup.sweeps(database, Retention(**days), KEPT_EVENTS)
    async with database.transaction() as connection:
        removed = [
            await each.remove(connection, 1_000, None, database.dialect)
            for each in sweeps
            if each.name in {"events", "events of deleted runs"}
        ]
    return sum(each.rows for each in removed)
