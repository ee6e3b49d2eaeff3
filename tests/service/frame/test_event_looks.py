"""After a restore of the metadata database, the home knows how many events came since, and which of them come again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import insert

from store.database import Database
from store.database.schema import asset_event, database_now, watcher
from tests.databases import new_asset, on_both
from watcher.host.health import Health
from watcher.host.home import Home
from watcher.operations import event_looks
from watcher.operations.backup_watch import BackupWatch, in_words
from watcher.operations.event_looks import EventLook, EventLooks


def look(after: int, up_to: int, **origins: int) -> EventLook:
    return EventLook(after=after, up_to=up_to, origins=origins)


def test_the_newest_looks_are_kept_whatever_became_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_looks, "MOST_KEPT", 5)
    looks = EventLooks(file=tmp_path / "looks")
    assert (looks.all(), looks.beyond(0)) == ([], ({}, -1))
    made = [look(number, number + 1, post=1) for number in range(23)]
    for each in made:
        looks.add(each)
        assert len(looks.all()) <= 10
    assert [*looks.all()][-5:] == made[-5:]
    with looks.file.open("a") as file:
        file.write(
            '[]\n{"after": 3}\nno JSON\n{"after": 9, "up_to": 9, "origins": {}}\n{"after": 23, "up'
        )  # a power failure
    again = EventLooks(file=looks.file)
    again.add(look(20, 24, post=4))  # of which the home had not remembered the end
    again.add(look(24, 25, post=1))
    assert [*again.all()] == [*made[-5:], look(24, 25, post=1)]


@pytest.mark.parametrize(
    ("newest", "since", "known_from"),
    [
        (30, {}, -1),
        (20, {"post": 4}, 20),
        (15, {"post": 6, "a.b": 5}, 10),
        (10, {"post": 8, "a.b": 10}, 10),
        (0, {"post": 8, "a.b": 10}, 10),
    ],
)
def test_what_came_since_is_added_up(tmp_path: Path, newest: int, since: Mapping[str, int], known_from: int) -> None:
    looks = EventLooks(file=tmp_path / "looks")
    looks.add(EventLook(after=10, up_to=20, origins={"post": 4, "a.b": 10}))
    looks.add(EventLook(after=20, up_to=30, origins={"post": 4}))
    assert looks.beyond(newest) == (since, known_from)
    looks.go_back(20)
    looks.add(EventLook(after=20, up_to=22, origins={"job": 1}))
    assert looks.beyond(20) == ({"job": 1}, 20)


@pytest.mark.parametrize(
    ("since", "unknown", "sentence"),
    [
        (
            {"file.new_files": 4, "post": 530},
            0,
            (
                "about 4 events since then are emitted again (file.new_files 4), as far as their sources still have them; "
                "about 530 are not (REST 530)"
            ),
        ),
        (
            {"file.new_files": 4, "listening": 2, "s3.new_files": 1000, "post": 1, "job": 2},
            7,
            (
                "about 1,006 events since then are emitted again (Airflow 2, file.new_files 4, s3.new_files 1,000), as far as "
                "their sources still have them; about 3 are not (REST 1, jobs 2); of up to 7 this home does not know where they "
                "came from: those of watchers are emitted again"
            ),
        ),
    ],
)
def test_those_that_come_again_and_those_that_do_not_are_told_apart(
    since: Mapping[str, int], unknown: int, sentence: str
) -> None:
    assert in_words(since, unknown) == sentence


@on_both
async def test_a_home_counts_events_by_origin_at_each_look(database: Database, tmp_path: Path) -> None:
    health, home = Health(), Home(folder=tmp_path, id="")
    watch = BackupWatch(database=database, home=home, health=health, looks=EventLooks(file=tmp_path / "looks"))
    asset_id = await new_asset(database, "inbox")
    async with database.transaction() as connection:
        await connection.execute(insert(watcher).values(name="files", asset_id=asset_id, trigger="file.new_files"))
    await store(database, asset_id, [{}])
    await watch.check()
    newest = home.newest_event()
    await store(database, asset_id, [{"source_watcher": "files"}, {"source_actor": "me"}])
    await watch.check()
    await watch.check()  # nothing came
    await store(
        database,
        asset_id,
        [{"source_dag_id": "load", "source_run_id": "r"}, {"source_watcher": "gone"}, {}, {"source_actor": "me"}],
    )
    await watch.check()
    assert [dict(each.origins) for each in watch.looks.all()] == [
        {"listening": 1},
        {"file.new_files": 1, "post": 1},
        {"job": 1, "gone": 1, "listening": 1, "post": 1},
    ]
    assert health.restored is None
    since, known_from = watch.looks.beyond(newest)
    assert (since, known_from) == ({"file.new_files": 1, "post": 2, "job": 1, "gone": 1, "listening": 1}, newest)


async def store(database: Database, asset_id: int, rows: list[dict[str, str]]) -> None:
    async with database.transaction() as connection:
        for row in rows:
            event = {"asset_id": asset_id, "timestamp": database_now(), "trace_id": "0" * 32, **row}
            await connection.execute(insert(asset_event).values(event))
