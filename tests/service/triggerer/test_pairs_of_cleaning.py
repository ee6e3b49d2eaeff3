"""Files that `clean_source` has removed, beside a rename, another process, further deliveries, newer versions and a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from store.database import Database
from store.database.schema import asset, asset_event
from tests.databases import on_both
from tests.service.api.explained_world import explained_world
from tests.service.store.words import apply
from tests.service.store.words import declared as declared_anyhow
from tests.service.triggerer.cleaning_world import FolderPlace
from tests.service.triggerer.test_cleaning_kills import Fate, Killed, fated
from tests.service.triggerer.test_removed_files_of_runs import (
    CATCHUP,
    DEFINITION,
    DELETE,
    EVER,
    JobWorld,
    folder,
    job_world,
)
from triggers.local_folder.new_files import FileNewFiles
from watcher.scheduling.tries import run_starter

pytestmark = [on_both, pytest.mark.service]
__all__ = ["folder"]
BOTH_JOBS = {"load": ("inbox",), "later": ("inbox",)}
AGAIN = (
    '{"schedule": "inbox", "retries": 0, "max_active_runs": 4, "batch": {"mode": "per_partition",'
    ' "complete": {"marker": "**/_SUCCESS", "again": true}}}'
)


async def replayed(jobs: JobWorld, dag_id: str = "load", **more: Any) -> Any:
    answer = await jobs.api.client.post(f"/api/v2/dags/{dag_id}/replay", json={**EVER, **more})
    return answer.raise_for_status().json()


async def test_after_a_rename_of_the_asset_its_removed_files_are_left_out_and_explained(
    database: Database, folder: FolderPlace, tmp_path: Path
) -> None:
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.load("a.csv", "b.csv")
        await jobs.clean("a.csv")
        await jobs.reload({"load": DEFINITION, "later": CATCHUP.replace("inbox", "arrivals")}, "arrivals")
        assert [row.name for row in await jobs.world.rows(select(asset.c.name).where(asset.c.active))] == ["arrivals"]
        preview = await replayed(jobs)
        assert (preview["expected_count"], preview["cleaned"]) == (1, 1)
        await jobs.clear("load", (await jobs.run_ids("load"))[0], 409)
        assert await jobs.start() == {"later": ["b.csv"]}
        assert len(jobs.contexts["later"]["left_out"]["cleaned"]) == 1


async def test_explain_knows_a_removed_file_of_a_renamed_asset(database: Database, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "a.csv").write_text("x")
    options = {"path": str(inbox), "start": "all", "interval": "1ms", "min_age": "0s", "clean_source": DELETE}
    async with explained_world(database, {"files": (FileNewFiles, options)}, {"files"}, tmp_path) as world:
        await world.poll("files")
        await world.consume("success")
        await world.clean("files")
        assert await world.state("a.csv", "files") == "cleaned"
        renamed = declared_anyhow(
            assets={"arrivals": "x://files"}, watchers={"files": "arrivals"}, jobs={"load": ["arrivals"]}
        )
        await apply(database, renamed)
        [answer] = await world.explained("a.csv", watcher="files")
    assert (answer["state"], answer["asset"]) == ("cleaned", "arrivals")


@pytest.mark.parametrize("waits", [True, False], ids=["the start waits", "the start goes on after a minute"])
async def test_another_process_ends_the_removal_that_one_left_in_hand(
    database: Database, folder: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """`later` gets the events by a replay while a file is in hand of a process that was killed."""
    async with job_world(database, folder, tmp_path, jobs=BOTH_JOBS) as jobs:
        await jobs.reload({"load": DEFINITION})
        await jobs.load("a.csv", "b.csv")
        with fated(Fate(kill_at=0, after=True, write_at=-1, write=lambda: None), monkeypatch), pytest.raises(Killed):
            await jobs.clean("a.csv")
        assert folder.names() == ["a.csv", "b.csv"]
        await jobs.reload({"load": DEFINITION, "later": DEFINITION})
        assert (await replayed(jobs, "later", dry_run=False))["expected_count"] == 2
        if waits:
            assert await jobs.start() == {}
        else:
            monkeypatch.setattr(run_starter, "_LONGEST_DELAY", 0)
            assert await jobs.start() == {"later": ["a.csv", "b.csv"]}
            await jobs.end("failed")
    async with job_world(database, folder, tmp_path, jobs=BOTH_JOBS) as jobs:
        await jobs.reload({"load": DEFINITION, "later": DEFINITION})
        await jobs.clean("a.csv")
        if waits:  # nothing was removed yet, and by now it is owed to the run that waits
            assert folder.names() == ["a.csv", "b.csv"]
            assert await jobs.start() == {"later": ["a.csv", "b.csv"]}
            await jobs.end()
            await jobs.clean("a.csv")
            assert folder.names() == ["b.csv"]
        else:
            assert folder.names() == ["b.csv"]
            await jobs.clear("later", (await jobs.run_ids("later"))[0])
            assert await jobs.start() == {"later": ["b.csv"]}
            assert len(jobs.contexts["later"]["left_out"]["cleaned"]) == 1
            await jobs.end()
        assert await jobs.runs("later") == [("success", None)]


@pytest.mark.parametrize("moves", [False, True], ids=["deleted", "moved"])
async def test_a_partition_that_is_delivered_again_after_its_files_were_removed(
    database: Database, folder: FolderPlace, tmp_path: Path, moves: bool
) -> None:
    clean = {"move_to": folder.done, "after": "0s"} if moves else DELETE
    options: dict[str, Any] = {"partition": {"dt": "dt={}"}, "batch": {"max_files": 1}, "match": "**/*"}
    (tmp_path / "in" / "dt=1").mkdir()
    async with job_world(database, folder, tmp_path, clean_source=clean, **options) as jobs:
        await jobs.reload({"load": AGAIN})

        async def delivered(*names: str) -> None:
            for name in names:
                events = len(await jobs.world.rows(select(asset_event.c.id)))
                folder.write(f"dt=1/{name}", f"{name} {events}")
                await jobs.world.reported(events + 1)

        await delivered("a", "b")
        assert await jobs.start() == {}
        await delivered("_SUCCESS")
        assert await jobs.start() == {"load": ["_SUCCESS", "a", "b"]}
        await jobs.end()
        await jobs.world.clean()
        assert folder.names() == []
        (tmp_path / "in" / "dt=1").mkdir(exist_ok=True)
        await delivered("a", "c")
        assert await jobs.start() == {}, "what was removed does not complete the next delivery"
        await delivered("a", "_SUCCESS")
        assert await jobs.start() == {"load": ["_SUCCESS", "a", "c"]}
        context = jobs.contexts["load"]
        assert [Path(file["path"]).name for file in context["left_out"]["superseded"]] == ["a"]
        assert "cleaned" not in context["left_out"]
        await jobs.end()

        first, second = await jobs.run_ids("load")
        await jobs.clear("load", second)
        assert await jobs.start() == {"load": ["_SUCCESS", "a", "c"]}
        await jobs.end()
        if moves:
            await jobs.clear("load", first, 409)  # of `a` a newer version has been loaded
            await jobs.clear("load", first, include_superseded=True)
            assert await jobs.start() == {"load": ["b"]}
        else:
            refused = await jobs.clear("load", first, 409)
            assert "cleaned" in refused["detail"]


async def test_a_replay_that_includes_both_goes_on_after_a_restart(
    database: Database, folder: FolderPlace, tmp_path: Path
) -> None:
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.reload({"load": DEFINITION})
        await jobs.load("a.csv", "b.csv")
        folder.write("a.csv", "another")
        await jobs.world.reported(3)
        assert await jobs.start() == {"load": ["a.csv"]}
        await jobs.end()
        await jobs.clean("b.csv")
        assert folder.names() == ["a.csv"]
        left = await replayed(jobs)
        assert (left["expected_count"], left["cleaned"], left["superseded"]) == (1, 1, 1)
        both = {"include_cleaned": True, "include_superseded": True}
        for one in both:
            assert (await replayed(jobs, **{one: True}))["expected_count"] == 2
        begun = await replayed(jobs, **both, dry_run=False, expected_count=3)
        assert begun["expected_count"] == 3
    async with job_world(database, folder, tmp_path) as jobs:
        await jobs.reload({"load": DEFINITION})
        started = []
        for _ in range(3):
            started.append(await jobs.start())
            await jobs.end()
        assert sorted(names for each in started for names in each.values()) == [["a.csv"]]
        assert await jobs.runs("load") == [("success", "superseded"), ("success", "cleaned"), ("success", None)]
        assert await jobs.start() == {}
