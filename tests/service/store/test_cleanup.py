"""What is past its time goes, and nothing else does."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import Table, bindparam, delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from store.base import NEVER_EXPIRE, AssetScope, TaskScope
from store.database import Database, schema
from store.database.schema import UtcDateTime
from store.keys import JobDefinition
from store.memory import MemoryStoreBackend
from store.metastore import MetastoreStoreBackend
from store.processes import cleanup
from store.processes.cleanup import Retention
from store.runs import runs
from store.runs.tries import tries, try_lookup
from tests.databases import new_asset, statements_of
from tests.features import CHORES, KEPT_EVENTS
from tests.service.queued_tasks import queued_task_of
from watcher.host.logs.configuration import LogFiles
from watcher.host.logs.paths import try_log
from watcher.operations.cleanup import LOG_FILES, TRY_FOLDERS, Cleaner, CleanupLimits
from watcher.submit.local.folder import TryFolder, try_folder

NOW = datetime.now(UTC)
KEPT = Retention(task_days=30, history_days=90, event_days=90, run_days=90, orphan_days=30)
TASK = TaskScope(dag_id="load", run_id="r", task_id="load")


@pytest.fixture
def cleaner(database: Database, tmp_path: Path) -> Cleaner:
    return cleaner_of(database, tmp_path)


def cleaner_of(database: Database, logs: Path, *, batch_size: int = 0, retention: Retention = KEPT) -> Cleaner:
    limits = CleanupLimits(retention=retention, logs=timedelta(days=30), batch_size=batch_size)
    return Cleaner(database, MetastoreStoreBackend(database), logs / "home", logs, limits, KEPT_EVENTS, CHORES)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


async def cleaned(cleaner: Cleaner) -> Mapping[str, int]:
    """What a clean-up removed, which is what a dry run said before, and what a second one finds no more."""
    foretold = await cleaner.count()
    removed = await cleaner.clean()
    assert foretold == removed
    assert not any((await cleaner.clean()).values())
    return {name: count for name, count in removed.items() if count}


async def put_in(database: Database, table: Table, *rows: Mapping[str, Any]) -> None:
    async with database.transaction() as session:
        for row in rows:
            await session.execute(insert(table).values(**row))


async def all_of(database: Database, column: Any) -> list[Any]:
    async with database.reading() as session:
        return list((await session.execute(select(column).order_by(column))).scalars())


async def age(database: Database, table: Table, **columns: datetime) -> None:
    async with database.transaction() as session:
        await session.execute(update(table).values(**columns))


# --- the task store


async def test_task_entries_are_removed_after_their_expiry(database: Database, cleaner: Cleaner) -> None:
    store = MetastoreStoreBackend(database)
    await store.aset(TASK, "past", "1", expires_at=ago(0.001))
    await store.aset(TASK, "future", "1", expires_at=ago(-1))
    await store.aset(TASK, "never", "1", expires_at=NEVER_EXPIRE)
    await store.aset(TASK, "undated", "1")
    assert await cleaned(cleaner) == {"expired task entries": 1}

    await age(database, schema.task_store, updated_at=ago(31))
    assert await cleaned(cleaner) == {"task entries past the default": 1}
    assert await all_of(database, schema.task_store.c.key) == ["future", "never"]


async def test_a_default_of_no_days_keeps_for_ever(database: Database, tmp_path: Path) -> None:
    await MetastoreStoreBackend(database).aset(TASK, "undated", "1")
    await age(database, schema.task_store, updated_at=ago(31_000))
    assert await cleaned(cleaner_of(database, tmp_path, retention=replace(KEPT, task_days=0))) == {}


@pytest.mark.parametrize("batch_size", [1, 7])
async def test_many_entries_are_removed_in_batches_and_one_written_meanwhile_stays(
    database: Database, tmp_path: Path, batch_size: int
) -> None:
    store = MetastoreStoreBackend(database)
    for number in range(20):
        await store.aset(TASK, f"{number:02}", "1", expires_at=ago(number % 3 + 1))
    seen: list[int] = []

    def progress(_name: str, done: int, total: int) -> None:
        assert total == 20
        seen.append(done)

    assert (await cleaner_of(database, tmp_path, batch_size=batch_size).clean(progress))["expired task entries"] == 20
    size = cleanup.batch_size(batch_size, database.dialect)
    assert seen == [0, *(min(done, 20) for done in range(size, 20 + size, size))]


# --- the asset store


async def test_entries_of_assets_that_are_gone_are_removed_after_their_grace(
    database: Database, cleaner: Cleaner
) -> None:
    store = MetastoreStoreBackend(database)
    ids = {name: await new_asset(database, name) for name in ("active", "gone", "long gone")}
    for asset_id in ids.values():
        for key in ("k", "files.watermark", "old.watermark"):
            await store.aset_asset_store(AssetScope(asset_id=asset_id), key, "1")
    a, w = schema.asset, schema.watcher
    async with database.transaction() as session:
        for name, days in (("gone", 1), ("long gone", 31)):
            await session.execute(update(a).where(a.c.name == name).values(active=False, updated_at=ago(days)))
        await session.execute(insert(w).values(name="files", asset_id=ids["long gone"], trigger="t"))
        await session.execute(insert(w).values(name="old", asset_id=ids["long gone"], trigger="t", active=False))

    assert await cleaned(cleaner) == {"orphaned asset entries": 2}
    async with database.reading() as session:
        e = schema.asset_store.c
        left = (await session.execute(select(e.asset_id, func.count()).group_by(e.asset_id))).all()
    assert dict(map(tuple, left)) == {ids["active"]: 3, ids["gone"]: 3, ids["long gone"]: 1}
    assert await store.aget(AssetScope(name="long gone"), "files.watermark") == "1"
    assert await store.aset_asset_store(AssetScope(name="long gone"), "k", "2") == 3  # the sweep is in the history


async def test_history_is_removed_except_the_newest_row_of_a_key(database: Database, cleaner: Cleaner) -> None:
    store = MetastoreStoreBackend(database)
    orders = AssetScope(asset_id=await new_asset(database, "orders"))
    for value in ("1", "2", "3"):
        await store.aset_asset_store(orders, "kept", value)
        await store.aset_asset_store(orders, "deleted", value)
    await store.adelete(orders, "deleted")
    await age(database, schema.asset_store_history, written_at=ago(91))
    await store.aset_asset_store(orders, "young", "1")

    assert await cleaned(cleaner) == {"history": 5}
    assert await store.aset_asset_store(orders, "deleted", "1") == 5
    assert await store.aset_asset_store(orders, "kept", "1") == 4


# --- runs and events


async def a_run(database: Database, run_id: str, *, state: str, days: float, ended: bool = True) -> str:
    """A run with one try; returns its task instance's id."""
    async with database.transaction() as session:
        await runs.create_run(session, "load", run_id, "load", triggered_by="rest_api", conf="{}", note=None)
        task = await queued_task_of(session, run_id)
        assert task is not None
        assert await tries.commit_intent(session, task, home_id="home", tag=run_id, token_hash="")
        r, a, t = schema.run, schema.task_try, schema.task_instance
        await session.execute(update(r).where(r.c.run_id == run_id).values(state=state, end_date=ago(days)))
        await session.execute(update(t).where(t.c.run_id == run_id).values(state="success"))
        if ended:
            await session.execute(
                update(a).where(a.c.task_instance_id == task.key.task_instance_id).values(ended_at=ago(days))
            )
    return task.key.task_instance_id


JOB: Final = {"dag_id": "load", "task_id": "load", "definition": JobDefinition(), "created_at": NOW, "updated_at": NOW}


@pytest.fixture
async def job(database: Database) -> None:
    await put_in(database, schema.job, JOB)


@pytest.mark.feature("catchup")
@pytest.mark.usefixtures("job")
async def test_old_runs_are_removed_with_their_tries_and_free_their_events(
    database: Database, cleaner: Cleaner
) -> None:
    from store.features.catchup.tables import catchup  # noqa: PLC0415  a tree without the feature lacks it

    old = await a_run(database, "old", state="success", days=91)
    young = await a_run(database, "young", state="failed", days=89)
    await a_run(database, "going_on", state="running", days=91)
    await a_run(database, "not_gone_yet", state="success", days=91, ended=False)
    asset_id = await new_asset(database, "landing")
    consumers = ["old", "young", "not_gone_yet", "queued", None, "too young"]
    for number, consumer in enumerate(consumers, start=1):
        days = 1 if consumer == "too young" else 91
        event = {"id": number, "asset_id": asset_id, "timestamp": ago(days), "trace_id": "t"}
        await put_in(database, schema.asset_event, event)
        if consumer == "queued":
            waiting = {"dag_id": "load", "event_id": number, "asset_id": asset_id, "created_at": ago(91)}
            await put_in(database, schema.queued_event, waiting)
        elif consumer not in {None, "too young"}:
            taken = {"dag_id": "load", "run_id": consumer, "event_id": number}
            await put_in(database, schema.run_asset_event, taken)
    for task in (old, young):
        ledger = {"task_instance_id": task, "asset_id": asset_id, "ordinal": 1}
        await put_in(database, schema.asset_store_increment, ledger)

    async with database.transaction() as session:  # a job still has to get the events after the fourth
        await session.execute(insert(catchup).values(dag_id="load", at_event=4, to_event=6, assets="[1]"))
    assert (await cleaner.clean())["events"] == 1
    assert await all_of(database, schema.asset_event.c.id) == [2, 3, 4, 5, 6]
    async with database.transaction() as session:
        await session.execute(delete(catchup))

    removed = await cleaner.clean()
    assert removed["events"] == 1
    assert await cleaned(cleaner) == {}
    assert await all_of(database, schema.run.c.run_id) == ["going_on", "not_gone_yet", "young"]
    assert await all_of(database, schema.task_instance.c.run_id) == ["going_on", "not_gone_yet", "young"]
    assert await all_of(database, schema.task_try.c.tag) == ["going_on", "not_gone_yet", "young"]
    assert await all_of(database, schema.asset_event.c.id) == [2, 3, 4, 6]
    assert await all_of(database, schema.asset_store_increment.c.task_instance_id) == [young]


@pytest.mark.usefixtures("job")
async def test_that_a_deleted_run_consumed_an_event_is_known_for_as_long_as_another_job_keeps_the_event(
    database: Database, cleaner: Cleaner
) -> None:
    await put_in(database, schema.job, {**JOB, "dag_id": "waiting"})
    await a_run(database, "gone", state="deleted", days=91)
    asset_id = await new_asset(database, "landing")
    for number in (1, 2):
        await put_in(
            database, schema.asset_event, {"id": number, "asset_id": asset_id, "timestamp": ago(91), "trace_id": "t"}
        )
        await put_in(database, schema.run_asset_event, {"dag_id": "load", "run_id": "gone", "event_id": number})
    waiting = {"dag_id": "waiting", "event_id": 1, "asset_id": asset_id, "created_at": ago(91)}
    await put_in(database, schema.queued_event, waiting)

    await cleaner.clean()

    assert await all_of(database, schema.asset_event.c.id) == [1]
    assert await all_of(database, schema.run_asset_event.c.event_id) == []
    async with database.reading() as connection:
        d = schema.dropped_event.c
        kept = (await connection.execute(select(d.dag_id, d.event_id, d.run_id, d.outcome))).all()
    assert [tuple(row) for row in kept] == [("load", 1, "gone", "dropped")]


async def test_rows_kept_for_an_undo_are_removed_once_there_is_nothing_to_undo(
    database: Database, cleaner: Cleaner
) -> None:
    await put_in(database, schema.watcher_position, {"watcher": "over"}, {"watcher": "undoable", "previous": "{}"})
    names = ("over", "over@previous", "undoable", "undoable@previous")
    rows = [{"watcher": name, "member": number, "value": 1} for name in names for number in (1, 2)]
    await put_in(database, schema.watcher_position_row, *rows)

    assert await cleaned(cleaner) == {"rows of past rewinds": 2}
    assert set(await all_of(database, schema.watcher_position_row.c.watcher)) == set(names) - {"over@previous"}


async def test_responses_to_jobs_are_kept_for_a_day(database: Database, cleaner: Cleaner) -> None:
    for key, hours in (("a", 23), ("b", 25)):
        row = {"task_instance_id": "t", "key": key, "request": "r", "status": 204, "created_at": ago(hours / 24)}
        await put_in(database, schema.execution_answer, row)

    assert await cleaned(cleaner) == {"kept answers": 1}
    assert await all_of(database, schema.execution_answer.c.key) == ["a"]


async def test_states_of_watchers_are_kept_for_eight_days_with_the_one_that_each_began_these_with(
    database: Database, cleaner: Cleaner
) -> None:
    for watcher, days in (("files", 10), ("files", 9), ("files", 7), ("rows", 30)):
        await put_in(database, schema.watcher_state, {"watcher": watcher, "at": ago(days), "state": f"{days}"})

    assert await cleaned(cleaner) == {"states of watchers": 1}
    assert await all_of(database, schema.watcher_state.c.state) == ["30", "7", "9"]


# --- log files


@pytest.mark.usefixtures("job")
async def test_old_log_files_are_removed_except_those_of_running_tries(
    database: Database, cleaner: Cleaner, tmp_path: Path
) -> None:
    await a_run(database, "runs", state="running", days=0, ended=False)
    silent = try_log(tmp_path, "load", "runs", "load", -1, 1)
    over = try_log(tmp_path, "load", "over", "load", -1, 1)
    young = try_log(tmp_path, "load", "young", "load", -1, 1)
    of_watcher = tmp_path / "watchers" / "files" / "owner.log"
    for path in (silent, over, young, of_watcher):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a line\n")
        if path is not young:
            os.utime(path, (ago(31).timestamp(),) * 2)

    assert await cleaned(cleaner) == {LOG_FILES: 2}
    assert (silent.exists(), young.exists()) == (True, True)
    assert not (tmp_path / "runs" / "load" / "over").exists()
    assert (tmp_path / "watchers").is_dir()


@pytest.mark.usefixtures("job")
async def test_folders_of_tries_are_removed_with_their_runs_except_those_of_living_processes(
    database: Database, cleaner: Cleaner
) -> None:
    await a_run(database, "silent", state="running", days=0, ended=False)
    async with database.reading() as connection:
        [key] = await try_lookup.keys_of_open_tries(connection)
    home = cleaner.home
    silent, over, young, lived_in = (
        try_folder(home, key),
        *(home / "runs" / "load" / name / "1" for name in ("over", "young", "lived_in")),
    )
    for folder in (silent, over, young, lived_in):
        TryFolder(folder).make()
        ended = folder / "exit.json"
        ended.write_text("{}")
        for path in (folder, ended):
            os.utime(path, (ago(1 if folder is young else 91).timestamp(),) * 2)
    with (lived_in / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert await cleaned(cleaner) == {TRY_FOLDERS: 1}
        assert [folder.exists() for folder in (silent, over.parent, young, lived_in)] == [True, False, True, True]
    assert await cleaned(cleaner) == {TRY_FOLDERS: 1}
    assert not lived_in.exists()


def test_a_process_that_has_a_removed_file_open_begins_a_new_one(tmp_path: Path) -> None:
    files, path = LogFiles(max_bytes=1000), tmp_path / "watchers" / "files" / "owner.log"
    files.append(path, "before", rotate=True)
    path.unlink()
    files.append(path, "after", rotate=True)
    files.close()
    assert path.read_text() == "after\n"


# --- one at a time


async def test_two_clean_ups_do_not_work_at_the_same_time(postgres: Database, tmp_path: Path) -> None:
    await MetastoreStoreBackend(postgres).aset(TASK, "past", "1", expires_at=ago(1))
    cleaner = cleaner_of(postgres, tmp_path)
    async with postgres.transaction() as session:
        assert await cleanup.acquire(session, postgres.dialect)
        assert not any((await cleaner.clean()).values())
    assert (await cleaner.clean())["expired task entries"] == 1


async def test_a_row_that_somebody_has_locked_is_left_for_the_next_time(postgres: Database, tmp_path: Path) -> None:
    store, cleaner = MetastoreStoreBackend(postgres), cleaner_of(postgres, tmp_path)
    for key in ("held", "free"):
        await store.aset(TASK, key, "1", expires_at=ago(1))
    async with postgres.transaction() as session:
        await store.aset(TASK, "held", "2", expires_at=ago(-1), session=AsyncSession(session))
        assert (await cleaner.clean())["expired task entries"] == 1
    assert not any((await cleaner.clean()).values())
    assert await store.aget(TASK, "held") == "2"


async def test_a_backend_of_its_own_is_left_to_clean_up_itself(database: Database, tmp_path: Path) -> None:
    class Backend(MemoryStoreBackend):
        cleaned = 0

        def cleanup(self) -> None:
            self.cleaned += 1
            raise OSError("the cable is out")

    backend = Backend()
    limits = CleanupLimits(retention=KEPT, logs=timedelta(days=30), batch_size=0)
    assert not any((await Cleaner(database, backend, tmp_path, tmp_path, limits, (), ()).clean()).values())
    assert backend.cleaned == 1


# --- many events


MANY: Final = 100_000
"""Of fewer messages a planner reads all."""
FILL_MANY: Final = {
    "asset_event": "(id, asset_id, timestamp, trace_id) SELECT n, :asset_id, :at, 't' FROM {numbers}",
    "outbox": "(destination, lane, asset_event_id, created_at) SELECT 'airflow', 'x', n, :at FROM {numbers} WHERE n % 10 = 0",
    "queued_event": "(dag_id, event_id, asset_id, created_at) SELECT 'load', n, :asset_id, :at FROM {numbers} WHERE n % 7 = 0",
}
NUMBERS: Final = {
    "postgresql": f"generate_series(1, {MANY}) AS numbers (n)",
    "sqlite": f"(WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {MANY}) SELECT n FROM counted)",
}


@pytest.mark.feature("catchup")
async def test_of_many_events_those_that_features_need_stay_and_each_is_looked_up_by_an_index(
    database: Database,
) -> None:
    from store.features.catchup.tables import catchup  # noqa: PLC0415  a tree without the feature lacks it

    job = {"dag_id": "load", "task_id": "load", "definition": JobDefinition()}
    await put_in(database, schema.job, {**job, "created_at": NOW, "updated_at": NOW})
    await put_in(database, catchup, {"dag_id": "load", "at_event": MANY // 2, "to_event": MANY, "assets": "[]"})
    values = {"asset_id": await new_asset(database, "a"), "at": ago(100)}
    async with database.transaction() as session:
        for name, rows in FILL_MANY.items():
            filling = text(f"INSERT INTO {name} {rows.format(numbers=NUMBERS[database.dialect])}")
            typed = filling.bindparams(bindparam("at", type_=UtcDateTime()))
            await session.execute(typed, {key: value for key, value in values.items() if f":{key}" in filling.text})
        if database.dialect == "postgresql":
            await session.execute(text("ANALYZE asset_event, outbox, queued_event, catchup"))
    [old] = [sweep for sweep in await cleanup.sweeps(database, KEPT, KEPT_EVENTS) if sweep.name == "events"]
    stay = {n for n in range(1, MANY + 1) if n % 10 == 0 or n % 7 == 0 or n > MANY // 2}
    async with database.transaction() as session:
        with statements_of(database) as sent:
            removed = await old.remove(session, 1_000, None, database.dialect)
        [(statement, parameters)] = sent
        explain = "EXPLAIN" if database.dialect == "postgresql" else "EXPLAIN QUERY PLAN"
        plan = [str(row[-1]) for row in await session.exec_driver_sql(f"{explain} {statement}", parameters)]
    assert removed.rows == 1_000
    scanned = re.findall(r"(?:Seq Scan on|SCAN) (?:asset_event|outbox|queued_event|lacking)\b", "\n".join(plan))
    assert scanned == [], "\n".join(plan)
    left = {*await all_of(database, schema.asset_event.c.id)}
    assert stay < left
    async with database.reading() as session:
        assert await old.count(session) == len(left - stay)
