"""One table's lock or slowness is its own watcher's matter: the others keep their rhythm, within a few sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import asyncpg
import pytest

from tests.effort import PATIENCE
from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.test_probes import INSERT, TABLE, Crowd, Watched, crowd
from triggers.errors import SourceBusy
from triggers.postgres import lanes
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.session import Limits

pytestmark = pytest.mark.service

NORMAL = [f"t{number}" for number in range(20)]


@pytest.fixture(autouse=True)
def probed_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewRows, "probed_from", timedelta(0))


@asynccontextmanager
async def normal_watchers(
    database: PostgresDatabase, admin: asyncpg.Connection
) -> AsyncIterator[tuple[Crowd, list[Watched]]]:
    """Twenty that rest, of a connection of two quick sessions and a patient one."""
    for name in NORMAL:
        await admin.execute(TABLE.format(name=name))
    async with crowd(database, pool_size=3) as many:
        watchers = [many.watch(name) for name in NORMAL]
        await until_all_rest(watchers)
        yield many, watchers


async def until_all_rest(watchers: list[Watched]) -> None:
    with anyio.fail_after(PATIENCE):
        while not all(watcher.rests for watcher in watchers):
            await anyio.sleep(0.01)


async def all_find_a_row(admin: asyncpg.Connection, watchers: list[Watched]) -> None:
    before = [len(watcher.committed.ids) for watcher in watchers]
    for name in NORMAL:
        await admin.execute(INSERT.format(name=name))
    with anyio.fail_after(PATIENCE):
        while any(len(watcher.committed.ids) == count for watcher, count in zip(watchers, before, strict=True)):
            await anyio.sleep(0.01)


async def test_a_lock_is_the_matter_of_its_own_watcher_and_its_holder_is_named(
    postgres_database: PostgresDatabase, connect: Connect
) -> None:
    admin, holder = await connect(), await connect()
    await admin.execute(TABLE.format(name="locked"))
    await holder.execute("SET application_name = 'nightly migration'")
    async with normal_watchers(postgres_database, admin) as (many, watchers):
        locked = many.watch("locked", lock_timeout="200ms")
        await until_all_rest([*watchers, locked])
        async with holder.transaction():
            await holder.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE; INSERT INTO locked DEFAULT VALUES")
            for _ in range(3):
                await all_find_a_row(admin, watchers)
            with anyio.fail_after(PATIENCE):
                while locked.error is None:
                    await anyio.sleep(0.01)
            assert isinstance(locked.error, SourceBusy)
            assert str(locked.error).startswith(f"pid {holder.get_server_pid()} locks public.locked (user postgres, ")
            assert "application nightly migration, since 20" in str(locked.error)
            assert "query " in str(locked.error)
            assert (
                await admin.fetchval("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'asset-watcher'")
                <= 6
            )
        again = many.watch("locked")
        again.committed = locked.committed
        with anyio.fail_after(PATIENCE):
            while again.committed.ids != [1]:
                await anyio.sleep(0.01)
        assert [watcher.error for watcher in watchers] == [None] * 20


async def test_who_waits_to_lock_is_named_too(postgres_database: PostgresDatabase, connect: Connect) -> None:
    admin, reader, holder = await connect(), await connect(), await connect()
    await admin.execute(TABLE.format(name="locked"))
    async with crowd(postgres_database) as many, anyio.create_task_group() as tasks:
        locked = many.watch("locked", lock_timeout="50ms")
        await until_all_rest([locked])
        async with reader.transaction():
            await reader.execute("SELECT * FROM locked")
            tasks.start_soon(holder.execute, "ALTER TABLE locked ADD more int")
            with anyio.fail_after(PATIENCE):
                while locked.error is None:
                    await anyio.sleep(0.01)
        assert f"pid {holder.get_server_pid()} waits to lock public.locked" in str(locked.error)
        assert str(locked.error).endswith("query ALTER TABLE); the watcher goes on once that ends")


async def test_a_slow_condition_is_the_matter_of_its_own_watcher(
    postgres_database: PostgresDatabase, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Limits(statement=timedelta(milliseconds=300), lock=timedelta(milliseconds=100))
    monkeypatch.setattr(lanes, "QUICK", quick)
    admin = await connect()
    await admin.execute(TABLE.format(name="slow"))
    async with normal_watchers(postgres_database, admin) as (many, watchers):
        slow = [many.watch("slow", where="pg_sleep(0.7) IS NOT NULL") for _ in range(4)]  # more than there are sessions
        await until_all_rest([*watchers, *slow])
        await admin.execute(INSERT.format(name="slow"))
        for _ in range(3):
            await all_find_a_row(admin, watchers)
        with anyio.fail_after(PATIENCE):
            while any(watcher.committed.ids != [1] for watcher in slow):
                await anyio.sleep(0.01)
        assert [watcher.error for watcher in (*watchers, *slow)] == [None] * 24


async def test_a_statement_that_is_ended_on_a_quick_session_is_made_by_the_patient_one(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Limits(statement=timedelta(milliseconds=50), lock=timedelta(milliseconds=50))
    monkeypatch.setattr(lanes, "QUICK", quick)
    async with PostgresConnection.model_validate({"dsn": postgres_database.dsn}).open() as client:
        lane = client.lane("a", timedelta(seconds=1), is_alone=False)
        [row] = (await lane.fetch("SELECT pg_backend_pid() AS pid, pg_sleep(0.2)")).rows
        patient = (await client.patient.fetch("SELECT pg_backend_pid() AS pid")).rows[0]["pid"]
        assert row["pid"] == patient
        [row] = (await lane.fetch("SELECT pg_backend_pid() AS pid")).rows
        assert row["pid"] == patient, "who was slow stays there for a while"
