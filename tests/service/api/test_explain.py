"""Each file and row of a source is explained: by the event that named it and its run, or by what kept it from both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg

from store.database import Database
from tests.databases import on_both
from tests.servers import PostgresDatabase, S3Server
from tests.service.api.explained_sources import s3_connection
from tests.service.api.explained_world import explained_world
from tests.service.api.test_reconcile import reconciled
from triggers.local_folder.new_files import FileNewFiles
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.s3.new_files import S3NewFiles

OPTIONS = {"match": "**/*.csv", "min_size": 2, "min_age": "0s", "interval": "1ms", "batch": {"max_files": 7}}


def put(folder: Path, name: str, content: str = "xx") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


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


async def test_what_is_younger_than_the_retention_and_no_event_names_was_not_reported(
    database: Database, tmp_path: Path
) -> None:
    triggers: Mapping[str, Any] = {"files": (FileNewFiles, {"path": str(tmp_path / "in"), **OPTIONS, "start": "all"})}
    put(tmp_path / "in", "a.csv")
    async with explained_world(database, triggers, set(), tmp_path) as world:
        await world.poll("files")
        async with database.transaction() as connection:
            await connection.exec_driver_sql("DELETE FROM asset_event")
            await connection.exec_driver_sql("UPDATE asset SET created_at = created_at - interval '200 days'")
        [answer] = await world.explained("a.csv", watcher="files")
        [item] = (await reconciled(world, "files"))["items"]
    assert (answer["state"], answer["state_before"], item["state"]) == ("not_reported", "before_start", "not_reported")


async def test_a_file_that_no_event_can_name_is_rejected_and_a_young_one_waits(
    database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    put(folder, "b.txt")
    put(folder, os.fsdecode(b"a\xff.csv"))
    common = {"path": str(folder), **OPTIONS}
    triggers: Mapping[str, Any] = {
        "files": (FileNewFiles, {**common, "start": "all", "on_bad_row": "report"}),
        "stops": (FileNewFiles, {**common, "start": "all"}),
        "young": (FileNewFiles, {**common, "start": "all", "min_age": "1h"}),
        "later": (FileNewFiles, {**common, "start": "2999-01-01T00:00:00Z"}),
        "large": (FileNewFiles, {**common, "min_size": 1000}),
        "begins": (FileNewFiles, {**common, "start": "now"}),
    }
    async with explained_world(database, triggers, {"files"}, tmp_path) as world:
        await world.poll("files")
        good = put(folder, "c.csv")
        states = {name: await world.state("c.csv", name) for name in triggers}
        assert states == {
            "files": "waiting",
            "stops": "waiting",
            "young": "waiting",
            "later": "before_start",
            "large": "not_matched",
            "begins": "before_start",
        }
        [rejected] = await world.explained("a\\xff.csv", watcher="files")
        assert (rejected["state"], "UTF-8" in rejected["facts"]["reason"]) == ("rejected", True)
        assert await world.state("b.txt", "files") == "not_matched"
        assert await world.state(f"../{good.name}", "files") == "outside"


async def test_a_file_is_known_by_its_event_while_the_bucket_does_not_answer(
    database: Database, s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    s3_server.client.put_object(Bucket=bucket, Key="in/a.csv", Body=b"x")
    options = {"bucket": bucket, "prefix": "in/", "start": "all", "interval": "1ms"}
    triggers: Mapping[str, Any] = {"bucket": (S3NewFiles, options)}
    connection = s3_connection(s3_server)
    async with explained_world(database, triggers, {"bucket"}, tmp_path, s3=connection) as world:
        await world.poll("bucket")
        await world.consume("success")
    gone = connection.model_copy(update={"endpoint_url": "http://127.0.0.1:9"})
    async with explained_world(database, triggers, {"bucket"}, tmp_path, s3=gone) as world:
        [loaded] = await world.explained(f"s3://{bucket}/in/a.csv")
        [unknown] = await world.explained(f"s3://{bucket}/in/b.csv")
    assert (loaded["state"], unknown["state"]) == ("loaded", "unknown")


async def test_rows_in_a_gap_rejected_and_behind_a_lock(
    database: Database, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    rows, writer = [await asyncpg.connect(postgres_database.dsn) for _ in range(2)]
    await rows.execute("CREATE TABLE orders (id bigint PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, weight int)")
    connection = PostgresConnection.model_validate({"type": "postgres", "dsn": postgres_database.dsn})
    options = {"table": "public.orders", "where": "1 / weight > 0", "on_bad_row": "report", "interval": "1ms"}
    triggers: Mapping[str, Any] = {"rows": (NewRows, {**options, "start": 1, "lock_timeout": "10ms"})}
    async with explained_world(database, triggers, set(), tmp_path, postgres=connection) as world:
        await rows.execute("INSERT INTO orders (weight) VALUES (1), (1), (0)")  # 1 to 3
        transaction = writer.transaction()
        await transaction.start()
        await writer.execute("INSERT INTO orders (weight) VALUES (1)")  # 4
        await rows.execute("INSERT INTO orders (weight) VALUES (1)")  # 5
        await world.poll("rows")
        answered = {item: (await world.explained(item, watcher="rows"))[0] for item in ("1", "2", "3", "4", "5", "x")}
        pid = await writer.fetchval("SELECT pg_backend_pid()")
        await transaction.rollback()
        transaction = writer.transaction()
        await transaction.start()
        await writer.execute("LOCK TABLE orders")
        [locked] = await world.explained("77")
        await transaction.rollback()
    assert {item: answer["state"] for item, answer in answered.items()} == {
        "1": "before_start",
        "2": "reported",
        "3": "rejected",
        "4": "waiting",
        "5": "reported",
        "x": "outside",
    }
    assert (answered["4"]["facts"]["reason"], str(pid) in answered["4"]["sentence"]) == ("gap", True)
    assert (locked["state"], locked["facts"]["reason"], str(pid) in locked["sentence"]) == ("waiting", "lock", True)
    await rows.close()
    await writer.close()


@on_both
async def test_a_file_that_the_selection_leaves_out_by_now_keeps_the_fate_of_its_event(
    database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    names = ("loaded", "failed", "passed")
    triggers: Mapping[str, Any] = {"files": (FileNewFiles, {"path": str(folder), **OPTIONS, "start": "all"})}
    async with explained_world(database, triggers, {"files"}, tmp_path) as world:
        for name, state in zip(names, ("success", "failed", "success"), strict=True):
            put(folder, f"{name}.csv")
            await world.poll("files")
            await world.consume(state)
        for name in names[:2]:
            put(folder, f"{name}.csv", "x")
        put(folder, "passed.csv", "xxx")
        answer = await world.client.post("/api/v2/watchers/files/rewind", json={"to": "now"})
        assert answer.is_success, answer.text
        answers = {name: (await world.explained(f"{name}.csv", watcher="files"))[0] for name in names}
        items = {Path(each["item"]).stem: each["state"] for each in (await reconciled(world, "files"))["items"]}
    assert {name: each["state"] for name, each in answers.items()} == {
        "loaded": "loaded",
        "failed": "failed",
        "passed": "before_start",
    }
    assert items == {"loaded": "missing", "failed": "failed", "passed": "before_start"}
    for name in names[:2]:
        assert "the watcher does not select it any more: its size of 1 bytes" in answers[name]["sentence"]
    assert "only its earlier contents are named by events" in answers["passed"]["sentence"]


@on_both
async def test_a_rewind_to_now_passes_over_rows_before_its_next_poll(
    database: Database, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    rows = await asyncpg.connect(postgres_database.dsn)
    await rows.execute(
        "CREATE TABLE notes (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,"
        " updated_at timestamptz NOT NULL DEFAULT clock_timestamp());"
        "CREATE INDEX ON notes (updated_at)"
    )
    options = {"table": "public.notes", "start": "all", "interval": "1ms"}
    triggers: Mapping[str, Any] = {
        "ids": (NewRows, options),
        "changes": (NewRows, {**options, "mode": "updated_at"}),
    }
    postgres = PostgresConnection.model_validate({"type": "postgres", "dsn": postgres_database.dsn})
    async with explained_world(database, triggers, set(), tmp_path, postgres=postgres) as world:
        for name in triggers:
            await world.poll(name)
        await rows.execute("INSERT INTO notes DEFAULT VALUES")
        for name in triggers:
            assert await world.state("1", name) == "waiting"
            answer = await world.client.post(f"/api/v2/watchers/{name}/rewind", json={"to": "now"})
            assert answer.is_success, answer.text
            assert await world.state("1", name) == "before_start"
    await rows.close()
