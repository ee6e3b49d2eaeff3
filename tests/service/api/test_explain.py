"""Each file and row of a source is explained: by the event that named it and its run, or by what kept it from both."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import asyncpg

from store.database import Database
from tests.databases import on_both
from tests.effort import SEED, effort
from tests.servers import PostgresDatabase
from tests.service.api.explained_world import ExplainedWorld, explained_world
from triggers.local_folder.new_files import FileNewFiles
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows

OPTIONS = {"match": "**/*.csv", "min_size": 2, "min_age": "0s", "interval": "1ms", "batch": {"max_files": 7}}


def put(folder: Path, name: str, content: str = "xx") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


class Files:
    """Random files of a folder, each with the state that it is in by construction."""

    def __init__(self, folder: Path, count: int) -> None:
        seed = random.Random(SEED)
        self.folder = folder
        self.expected: dict[str, str] = {}
        self._names = iter(
            sorted({f"{seed.randrange(10)}/ü {seed.getrandbits(60)}" for _ in range(2 * count)}, key=hash)
        )

    def some(self, number: int, state: str, ending: str = ".csv", content: str = "xx") -> list[str]:
        names = [next(self._names) + ending for _ in range(number)]
        for name in names:
            put(self.folder, name, content)
            self.expected[name] = state
        return names


async def files_in_every_state(world: ExplainedWorld, files: Files, each: int) -> None:
    """Bring files into each state by what the watcher, the scheduler and people do."""
    files.some(each, "before_start")
    await anyio.sleep(
        0.1
    )  # by more than the kernel's clock for files may be behind, so that they are older than the start
    await world.poll("files")
    files.some(each, "not_matched", ".txt")
    files.some(each, "not_matched", content="x")
    files.some(each, "loaded")
    gone = files.some(each, "loaded")
    replaced = files.some(each, "replaced")
    await world.poll("files")
    await world.consume("success", bad_records=3)
    for state in ("failed", "running", "queued"):
        files.some(each, state)
        await world.poll("files")
        await world.consume(state, reason=f"the reason of {state}")
    files.some(each, "dequeued")
    await world.poll("files")
    answer = await world.client.delete("/api/v2/dags/load/assets/queuedEvents")
    assert answer.status_code == 204
    files.some(each, "queued")
    await world.poll("files")
    files.some(each, "waiting")
    for name in gone:
        (files.folder / name).unlink()
    for name in replaced:
        put(files.folder, name, "another content")
    for _ in range(each):
        files.expected[next(files._names) + ".csv"] = "missing"
        files.expected[f"../{next(files._names)}.csv"] = "outside"


@on_both
async def test_random_files_in_every_state_are_explained(database: Database, tmp_path: Path) -> None:
    each = effort(3, 70)
    files = Files(tmp_path / "in", 20 * each)
    files.folder.mkdir()
    triggers: Mapping[str, Any] = {"files": (FileNewFiles, {"path": str(files.folder), **OPTIONS})}
    async with explained_world(database, triggers, {"files"}, tmp_path) as world:
        await files_in_every_state(world, files, each)

        answered = {name: await world.state(name, "files") for name in files.expected}

    wrong = {name: (state, files.expected[name]) for name, state in answered.items() if state != files.expected[name]}
    assert wrong == {}
    assert set(answered.values()) >= {"loaded", "running", "queued", "failed", "dequeued", "replaced", "waiting"}


@on_both
async def test_an_answer_has_the_event_the_run_and_the_page(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    file = put(folder, "a.csv")
    triggers: Mapping[str, Any] = {
        "files": (FileNewFiles, {"path": str(folder), **OPTIONS, "start": "all"}),
        "quiet": (FileNewFiles, {"path": str(folder), **OPTIONS, "start": "all"}),
    }
    async with explained_world(database, triggers, {"files"}, tmp_path) as world:
        await world.poll("files")
        await world.poll("quiet")
        run_id = await world.consume("success", bad_records=2)

        loaded, reported = await world.explained(file.as_uri())

    [event] = loaded["events"]
    assert (loaded["watcher"], loaded["asset"], loaded["state"]) == ("files", "files", "loaded")
    assert loaded["runs"] == [
        {"dag_id": "load", "run_id": run_id, "state": "success", "reason": None, "table": None, "commit": None}
    ]
    assert loaded["url"] == f"/events/{event['id']}"
    assert loaded["facts"]["bad_records"] == 2
    assert run_id in loaded["sentence"]
    assert (reported["watcher"], reported["state"], reported["runs"]) == ("quiet", "reported", [])


async def test_a_file_below_no_watched_folder_is_outside_of_each(database: Database, tmp_path: Path) -> None:
    triggers: Mapping[str, Any] = {"files": (FileNewFiles, {"path": str(tmp_path), **OPTIONS})}
    async with explained_world(database, triggers, set(), tmp_path) as world:
        [answer] = await world.explained("s3://landing/a.csv")
        assert (answer["state"], answer["url"]) == ("outside", "/watchers/files")
        unknown = await world.client.get("/api/v2/explain", params={"item": "a", "watcher": "nobody"})
        assert unknown.status_code == 404


async def test_what_an_event_named_and_the_retention_removed_is_unknown(database: Database, tmp_path: Path) -> None:
    triggers: Mapping[str, Any] = {"files": (FileNewFiles, {"path": str(tmp_path / "in"), **OPTIONS, "start": "all"})}
    put(tmp_path / "in", "a.csv")
    async with explained_world(database, triggers, set(), tmp_path) as world:
        await world.poll("files")
        async with database.transaction() as connection:
            await connection.exec_driver_sql("DELETE FROM asset_event")
            await connection.exec_driver_sql("UPDATE asset SET created_at = created_at - interval '200 days'")
        assert await world.state("a.csv", "files") == "before_start"  # the file is younger than what was removed


async def test_random_rows_in_every_state_are_explained(
    database: Database, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    each = effort(3, 70)
    expected: dict[str, str] = {}
    source = await asyncpg.connect(postgres_database.dsn)
    writer = await asyncpg.connect(postgres_database.dsn)
    await source.execute(
        "CREATE TABLE orders (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, note text, weight int DEFAULT 1)"
    )
    connection = PostgresConnection.model_validate({"type": "postgres", "dsn": postgres_database.dsn})
    options = {
        "table": "public.orders",
        "where": "note <> 'hidden' AND 1 / weight > 0",
        "on_bad_row": "report",
        "interval": "1ms",
        "batch": {"max_rows": 5},
    }

    async def insert(state: str, note: str = "a", weight: int = 1, by: asyncpg.Connection = source) -> list[str]:
        rows = await by.fetch(
            "INSERT INTO orders (note, weight) SELECT $1, $3 FROM generate_series(1, $2) RETURNING id",
            note,
            each,
            weight,
        )
        ids = [str(row["id"]) for row in rows]
        expected.update(dict.fromkeys(ids, state))
        return ids

    triggers: Mapping[str, Any] = {"rows": (NewRows, options)}
    async with explained_world(database, triggers, {"rows"}, tmp_path, postgres=connection) as world:
        await insert("before_start")
        await world.poll("rows")
        transaction = writer.transaction()
        await transaction.start()
        await insert("waiting", by=writer)  # a gap
        await insert("not_matched", "hidden")
        await insert("rejected", weight=0)
        deleted = await insert("loaded")
        await insert("loaded")
        await world.poll("rows")
        await world.consume("success")
        for state in ("failed", "running", "queued"):
            await insert(state)
            await world.poll("rows")
            await world.consume(state)
        await insert("dequeued")
        await world.poll("rows")
        await world.client.delete("/api/v2/dags/load/assets/queuedEvents")
        late = await insert("waiting")
        await source.execute("DELETE FROM orders WHERE id = ANY($1::bigint[])", [int(number) for number in deleted])
        expected |= {str(int(late[-1]) + number): "missing" for number in range(1000, 1000 + each)}
        expected |= {"x": "outside", '["a"]': "outside"}

        answered = {
            item: await world.state(item, "rows")
            for item in random.Random(SEED).sample(sorted(expected), len(expected))
        }
        [gap] = await world.explained(next(item for item, state in expected.items() if state == "waiting"))
        await transaction.rollback()

    wrong = {item: (state, expected[item]) for item, state in answered.items() if state != expected[item]}
    assert wrong == {}
    assert gap["facts"]["reason"] == "gap"
    assert str(await writer.fetchval("SELECT pg_backend_pid()")) in gap["sentence"]
    await writer.close()
    await source.close()
