"""Loaded files are deleted or moved: only those, once all jobs have them, and nothing is reported again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from store.catalog import dropped_events
from store.database import Database
from store.database.lifecycle import delete_whole
from store.database.schema import (
    asset_event,
    audit,
    dropped_event,
    queued_event,
    run,
    watcher_position,
    watcher_position_row,
)
from store.detection import cleanings
from store.features.clean_source.tables import cleaning
from tests.databases import on_both
from tests.servers import S3Server
from tests.service.triggerer.cleaning_world import BucketPlace, FolderPlace, Place, cleaning_world

pytestmark = pytest.mark.service

DELETE = {"delete": True, "after": "0s"}


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


@on_both
@pytest.mark.parametrize("mode", ["strict", "window"])
async def test_files_that_every_job_has_loaded_are_deleted_and_not_reported_again(
    database: Database, place: Place, mode: str
) -> None:
    for number in range(25):
        place.write(f"{number:02}.csv")
    jobs = {"load": ("inbox",), "copy": ("inbox",)}
    async with cleaning_world(database, place, jobs=jobs, clean_source=DELETE, mode=mode) as world:
        await world.reported(1)
        await world.clean()
        assert len(place.names()) == 25
        await world.load("load")
        await world.clean()
        assert len(place.names()) == 25
        await world.load("copy")
        await world.clean()
        assert place.names() == []
        [(state, reason, removed)] = await world.states()
        assert (state, reason, removed) == ("done", None, 25)
        async with database.reading() as connection:
            counts = [
                await cleanings.removed_since(connection, "files", to)
                for to in ("start", "2026-01-01T00:00:00Z", "2926-01-01", "now", "here")
            ]
        assert counts == [25, 25, 0, 0, 0]
        await world.polled(3)
        assert "vanished" not in world.findings
        assert await world.remembered() == 0
        place.write("next.csv")
        await world.reported(2)
        assert len(await world.rows(select(asset_event.c.id))) == 2
        entries = await world.rows(select(audit.c.actor, audit.c.action, audit.c.target))
        assert entries == [("watcher", "source.clean", "files")]
        assert world.cleaning.metrics.cleaned.labels("files", "inbox")._value.get() == 25


@on_both
async def test_files_are_moved_with_their_names(database: Database, place: Place) -> None:
    place.write("a.csv", "a")
    place.write("b.csv", "b")
    async with cleaning_world(database, place, clean_source={"move_to": place.done, "after": "0s"}) as world:
        await world.reported(1)
        await world.load("load")
        await world.clean()
        assert place.names() == []
        assert place.names("done") == ["a.csv", "b.csv"]
        await world.polled()
        assert len(await world.rows(select(asset_event.c.id))) == 1


async def test_files_stay_for_a_while_after_the_last_success(database: Database, folder: FolderPlace) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, clean_source={"delete": True, "after": "1h"}) as world:
        await world.reported(1)
        await world.load("load", ago=timedelta(minutes=59))
        await world.clean()
        assert await world.states() == [("waiting", "after", 0)]
        await world.do(update(run).values(end_date=datetime.now(UTC) - timedelta(minutes=61)))
        await world.clean()
        assert folder.names() == []


@pytest.mark.parametrize(
    ("state", "reason", "why"),
    [("failed", None, "failed"), ("success", "marked as success", "marked"), ("deleted", None, "dropped")],
)
async def test_files_stay_and_are_listed_when_no_run_has_loaded_them(
    database: Database, folder: FolderPlace, state: str, reason: str | None, why: str
) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, clean_source=DELETE) as world:
        await world.reported(1)
        await world.load("load", state, reason=reason)
        await world.clean()
        assert folder.names() == ["a.csv"]
        assert await world.states() == [("staying", why, 0)]
        await world.polled()
        assert world.findings == ["clean_source"]
        await world.do(update(run).values(state="success", reason=None, end_date=run.c.queued_at))
        await world.clean()
        assert folder.names() == []
        await world.polled()
        assert world.findings == []


async def test_files_that_no_job_was_owed_stay(database: Database, folder: FolderPlace) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, jobs={}, clean_source=DELETE) as world:
        await world.reported(1)
        await world.clean()
        assert (folder.names(), await world.states()) == (["a.csv"], [("staying", "no_jobs", 0)])


async def test_files_stay_whose_event_somebody_took_off_a_queue(database: Database, folder: FolderPlace) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, clean_source=DELETE) as world:
        await world.reported(1)
        [(event_id,)] = await world.rows(select(asset_event.c.id))
        dropped = {
            "dag_id": "load",
            "event_id": event_id,
            "reason": "deleted",
            "outcome": "dropped",
            "dropped_at": datetime.now(UTC),
        }
        await world.do(delete(queued_event), insert(dropped_event).values(dropped))
        await world.clean()
        assert (folder.names(), await world.states()) == (["a.csv"], [("staying", "dropped", 0)])


@pytest.mark.parametrize(
    ("reason", "outcome", "states"),
    [
        (None, "loaded", [("done", None, 1)]),
        ("marked as success", "loaded", [("staying", "marked", 0)]),
        (None, None, [("staying", "unknown", 0)]),
    ],
)
async def test_a_file_goes_after_its_run_was_forgotten_if_that_is_known_to_have_loaded_it(
    database: Database, folder: FolderPlace, reason: str | None, outcome: str | None, states: list[Any]
) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, clean_source=DELETE) as world:
        await world.reported(1)
        await world.load("load", reason=reason)
        await world.do(update(run).values(end_date=datetime.now(UTC) - timedelta(days=100)))
        async with database.transaction() as connection:
            ids = (await connection.execute(select(run.c.id))).scalars().all()
            await dropped_events.record_of_runs(connection, ids)
            await delete_whole(connection, run, run.c.id.in_(ids))
            await connection.execute(update(dropped_event).values(outcome=outcome))
        await world.clean()
        assert await world.states() == states
        assert folder.names() == ([] if states[0][0] == "done" else ["a.csv"])


async def test_a_clear_puts_the_deletion_off(database: Database, folder: FolderPlace) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, clean_source=DELETE) as world:
        await world.reported(1)
        run_id = await world.load("load")
        await world.do(update(run).values(state="queued"))
        await world.clean()
        assert (folder.names(), await world.states()) == (["a.csv"], [("waiting", "running", 0)])
        await world.end(run_id, "success")
        await world.clean()
        assert folder.names() == []


async def test_files_from_before_the_start_or_the_option_are_never_touched(
    database: Database, folder: FolderPlace
) -> None:
    folder.write("before.csv")
    async with cleaning_world(database, folder) as world:
        await world.reported(1)
        await world.load("load")
    async with cleaning_world(database, folder, clean_source=DELETE) as world:
        folder.write("after.csv")
        await world.reported(2)
        await world.load("load")
        await world.clean()
        assert folder.names() == ["before.csv"]


async def test_what_was_written_over_a_loaded_file_stays_and_is_reported(database: Database, place: Place) -> None:
    place.write("a.csv", "old")
    async with cleaning_world(database, place, clean_source=DELETE) as world:
        await world.reported(1)
        await world.load("load")
        place.write("a.csv", "newer")
        await world.clean()
        assert place.names() == ["a.csv"]
        await world.reported(2)
        for _ in range(3):
            await world.clean()
        assert place.names() == ["a.csv"]
        await world.load("load")
        await world.clean()
        assert place.names() == []


async def test_all_watchers_of_a_file_must_be_done_with_it(database: Database, place: Place) -> None:
    place.write("a.csv")
    place.write("b.json")
    jobs = {"load": ("inbox",), "second": ("beside",)}
    async with cleaning_world(
        database, place, jobs=jobs, others={"beside": {"match": "*.csv"}}, clean_source=DELETE
    ) as world:
        await world.reported(2)
        await world.load("load")
        await world.clean()
        assert place.names() == ["a.csv"]
        assert await world.states() == [("staying", "shared", 1)]
        await world.load("second")
        await world.clean()
        assert place.names() == []


async def test_after_a_rewind_each_event_of_a_file_must_be_loaded(database: Database, folder: FolderPlace) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, clean_source=DELETE) as world:
        await world.reported(1)
        first = await world.load("load")
        rewound = {"actor": "me", "action": "watcher.rewind", "target": "files", "detail": '{"to": "start"}'}
        again = watcher_position.c.version + 1
        state = (
            '{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": null}'
        )
        await world.do(
            insert(audit).values(**rewound, at=datetime.now(UTC)),
            delete(watcher_position_row),
            update(watcher_position).values(version=again, state=state),
        )
        await world.reported(2)
        await world.clean()
        assert folder.names() == ["a.csv"]
        await world.load("load")
        await world.do(update(run).where(run.c.run_id == first).values(state="failed"))
        await world.clean()
        assert folder.names() == ["a.csv"]
        await world.end(first, "success")
        await world.clean()
        assert folder.names() == []


async def test_another_file_at_the_target_is_kept_and_the_move_is_tried_again(database: Database, place: Place) -> None:
    place.write("a.csv", "mine")
    async with cleaning_world(database, place, clean_source={"move_to": place.done, "after": "0s"}) as world:
        if isinstance(place, FolderPlace):
            (place.root / "done/a.csv").write_text("other")
        else:
            place.server.client.put_object(Bucket=place.bucket, Key="done/a.csv", Body=b"other")
        await world.reported(1)
        await world.load("load")
        await world.clean()
        assert await world.states() == [("staying", "exists", 0)]
        assert place.names() == ["a.csv"]
        if isinstance(place, FolderPlace):
            (place.root / "done/a.csv").unlink()
        else:
            place.server.client.delete_object(Bucket=place.bucket, Key="done/a.csv")
        await world.clean()
        assert (place.names(), place.names("done")) == ([], ["a.csv"])


async def test_only_the_process_that_has_the_position_cleans(database: Database, folder: FolderPlace) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, clean_source=DELETE) as world:
        await world.reported(1)
        await world.load("load")
        world.cleaning.owner = "another"
        await world.clean()
        assert folder.names() == ["a.csv"]


@on_both
async def test_a_removed_event_takes_its_cleaning_along(database: Database, folder: FolderPlace) -> None:
    folder.write("a.csv")
    async with cleaning_world(database, folder, jobs={}, clean_source=DELETE) as world:
        await world.reported(1)
        await world.do(delete(asset_event))
        assert await world.rows(select(cleaning)) == []
        await world.clean()
        assert folder.names() == ["a.csv"]
