"""What became of an item stays what it was when the clean-up has removed the run that decided it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, func, select, update

from store.database import Database
from store.database.schema import asset_event, dropped_event, job
from tests.databases import on_both
from tests.service.api.explained_world import explained_world
from tests.service.api.test_reconcile import differing, reconciled
from triggers.local_folder.new_files import FileNewFiles

pytestmark = pytest.mark.service
FILES: Mapping[str, Any] = {"start": "all", "interval": "1ms", "min_age": "0s", "batch": {"max_files": 1}}
EVER = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}


def watched(folder: Path, *names: str) -> Mapping[str, Any]:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("x")
    return {"files": (FileNewFiles, {**FILES, "path": str(folder)})}


def at_jobs(answer: Any) -> Mapping[str, str]:
    return {each["dag_id"]: each["state"] for each in answer["jobs"]}


@on_both
async def test_a_loaded_file_stays_loaded_while_its_event_waits_for_another_job(
    database: Database, tmp_path: Path
) -> None:
    triggers, never = watched(tmp_path / "in", "a", "b"), {"never": ["files", "others"]}
    async with explained_world(database, triggers, {"files"}, tmp_path, jobs=never) as world:
        await world.poll("files")
        run_id = await world.consume("success")
        before, [kept] = await reconciled(world, "files"), await world.explained("a", watcher="files")
        assert await world.forget_runs() == 1
        after, [forgotten] = await reconciled(world, "files"), await world.explained("a", watcher="files")
    assert (before["loaded"], differing(before)) == (2, {})
    assert (after["loaded"], differing(after), after["exact"]) == (2, {}, True)
    assert at_jobs(kept) == at_jobs(forgotten) == {"load": "loaded", "never": "queued"}
    assert kept["state"] == forgotten["state"]
    assert "queue of never" in forgotten["sentence"]
    assert f"load has loaded it by run {run_id}" in forgotten["sentence"]
    assert [(each["run"], each["forgotten_at"]) for each in kept["jobs"]] == [(run_id, None), (None, None)]
    [load, _] = forgotten["jobs"]
    assert (load["run"], load["ended_at"]) == (None, "2026-01-01T00:00:00Z")
    assert load["forgotten_at"] is not None


@pytest.mark.parametrize(("state", "fate"), [("success", "loaded"), ("failed", "failed")])
async def test_forgetting_a_run_changes_no_fate_and_a_record_of_before_is_unknown(
    database: Database, tmp_path: Path, state: str, fate: str
) -> None:
    async with explained_world(database, watched(tmp_path / "in", "a"), {"files"}, tmp_path) as world:
        await world.poll("files")
        await world.consume(state, reason="the disk was full")
        [kept] = await world.explained("a", watcher="files")
        await world.forget_runs()
        [forgotten] = await world.explained("a", watcher="files")
        result = await reconciled(world, "files")
        await of_before(database)
        [unknown] = await world.explained("a", watcher="files")
        of_unknown = await reconciled(world, "files")
    assert kept["state"] == forgotten["state"] == fate
    assert at_jobs(forgotten) == {"load": fate}
    assert (result["loaded"], differing(result)) == ((1, {}) if fate == "loaded" else (0, {"failed": 1}))
    assert (unknown["state"], at_jobs(unknown), differing(of_unknown)) == (
        "unknown",
        {"load": "unknown"},
        {"unknown": 1},
    )
    assert unknown["jobs"][0]["forgotten_at"] is not None


async def of_before(database: Database) -> None:
    """Let the records be those of a release that stored no outcome."""
    async with database.transaction() as connection:
        await connection.execute(update(dropped_event).values(outcome=None, run_id=None, ended_at=None))


@on_both
async def test_a_replay_counts_forgotten_events_apart_and_takes_them_only_when_asked(
    database: Database, tmp_path: Path
) -> None:
    triggers = watched(tmp_path / "in")
    async with explained_world(database, triggers, {"files"}, tmp_path) as world:

        async def replayed(*, include: bool = False) -> Any:
            body = {**EVER, "include_dropped": include}
            answer = await world.client.post("/api/v2/dags/load/replay", json=body)
            return answer.raise_for_status().json()

        for name, state in (("old", "success"), ("loaded", "success"), ("failed", "failed")):
            (tmp_path / "in" / name).write_text("x")
            await world.poll("files")
            await world.consume(state)
            await world.forget_runs()
            if name == "old":
                await of_before(database)
        (tmp_path / "in" / "dropped").write_text("x")
        await world.poll("files")
        await world.client.delete("/api/v2/dags/load/assets/queuedEvents")
        (tmp_path / "in" / "waits").write_text("x")
        await world.poll("files")

        left, taken = await replayed(), await replayed(include=True)
    assert (left["expected_count"], left["dropped"], left["waiting"]) == (0, 1, 1)
    assert left["forgotten"] == taken["forgotten"] == {"loaded": 1, "failed": 1, "unknown": 1}
    assert (taken["expected_count"], taken["queued"], taken["dropped"]) == (4, 4, 0)
    assert left["fates"] == {"loaded": 1, "failed": 1, "unknown": 1, "dropped": 1, "queued": 1}


async def test_what_a_person_dropped_or_no_schedule_took_is_told_apart_by_each_job(
    database: Database, tmp_path: Path
) -> None:
    triggers, never = watched(tmp_path / "in", "a"), {"never": ["files", "others"]}
    async with explained_world(database, triggers, {"files"}, tmp_path, jobs=never) as world:
        await world.poll("files")
        answer = await world.client.delete("/api/v2/dags/load/assets/queuedEvents")
        assert answer.status_code == 204, answer.text
        [dropped] = await world.explained("a", watcher="files")
        async with database.transaction() as connection:
            await connection.execute(delete(dropped_event))
        [not_taken] = await world.explained("a", watcher="files")
        async with database.transaction() as connection:
            await connection.execute(
                update(job).values(unrecorded_to=select(func.max(asset_event.c.id)).scalar_subquery())
            )
        [of_an_older_release] = await world.explained("a", watcher="files")
    assert at_jobs(dropped) == {"load": "dropped", "never": "queued"}
    assert at_jobs(not_taken) == {"load": "not_taken", "never": "queued"}
    assert at_jobs(of_an_older_release) == {"load": "dropped", "never": "queued"}
