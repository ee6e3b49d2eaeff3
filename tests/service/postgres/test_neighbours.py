"""A locked or slow table delays only its own watcher: the others keep their rhythm, with a few sessions."""

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
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.server import session
from triggers.postgres.server.session import StatementLimits

pytestmark = pytest.mark.service

NORMAL = [f"t{number}" for number in range(20)]
IN_PARTITIONS = """
CREATE TABLE locked (id bigserial PRIMARY KEY, note text) PARTITION BY RANGE (id);
CREATE TABLE locked_partition PARTITION OF locked DEFAULT;
"""


@pytest.fixture(autouse=True)
def probed_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NewRows, "probed_from", timedelta(0))


@asynccontextmanager
async def normal_watchers(
    database: PostgresDatabase, admin: asyncpg.Connection, pool_size: int = 3
) -> AsyncIterator[tuple[Crowd, list[Watched]]]:
    """Twenty resting watchers of a connection with two quick sessions and a patient one; with a `pool_size` of 1, one of each."""
    for name in NORMAL:
        await admin.execute(TABLE.format(name=name))
    async with crowd(database, pool_size=pool_size) as many:
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


@pytest.mark.parametrize("relation", ["locked", "locked_partition"])
async def test_a_locked_table_delays_only_its_own_watcher_which_names_the_lock_holder(
    postgres_database: PostgresDatabase, connect: Connect, relation: str
) -> None:
    admin, holder = await connect(), await connect()
    await admin.execute(IN_PARTITIONS)
    await holder.execute("SET application_name = 'nightly migration'")
    async with normal_watchers(postgres_database, admin) as (many, watchers):
        locked = many.watch("locked", lock_timeout="200ms")
        await until_all_rest([*watchers, locked])
        async with holder.transaction():
            await holder.execute(f"LOCK TABLE {relation} IN ACCESS EXCLUSIVE MODE; INSERT INTO locked DEFAULT VALUES")
            begins = many.watch("locked", lock_timeout="200ms")
            for _ in range(3):
                await all_find_a_row(admin, watchers)
            for watcher in (locked, begins):
                with anyio.fail_after(PATIENCE):
                    while watcher.error is None:
                        await anyio.sleep(0.01)
                assert isinstance(watcher.error, SourceBusy)
                sentence = str(watcher.error)
                assert sentence.startswith(f"pid {holder.get_server_pid()} locks public.locked (user postgres, ")
                assert "application nightly migration, since 20" in sentence
                assert "query " in sentence
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


async def test_the_error_names_a_session_that_waits_to_lock_and_the_session_it_waits_for(
    postgres_database: PostgresDatabase, connect: Connect
) -> None:
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
        sentence = str(locked.error)
        assert f"pid {holder.get_server_pid()} waits to lock public.locked" in sentence
        assert f"query ALTER TABLE) behind pid {reader.get_server_pid()} (user postgres" in sentence
        assert sentence.endswith("query SELECT); the watcher continues when that ends")


@pytest.mark.parametrize("pool_size", [1, 3])
async def test_slow_partitions_and_conditions_delay_only_their_own_watchers(
    postgres_database: PostgresDatabase, connect: Connect, monkeypatch: pytest.MonkeyPatch, pool_size: int
) -> None:
    """There are more slow watchers than sessions."""
    quick = StatementLimits(statement=timedelta(milliseconds=300), lock=timedelta(milliseconds=100))
    monkeypatch.setattr(session, "QUICK", quick)
    admin = await connect()
    await admin.execute(f"{IN_PARTITIONS};{TABLE.format(name='slow')}")
    async with normal_watchers(postgres_database, admin, pool_size) as (many, watchers):
        slow = [
            many.watch(name, where="pg_sleep(0.7) IS NOT NULL", unsafe_where=True) for name in ["slow", "locked"] * 2
        ]
        await until_all_rest([*watchers, *slow])
        await admin.execute("; ".join(INSERT.format(name=name) for name in ("slow", "locked")))
        for _ in range(3):
            await all_find_a_row(admin, watchers)
        with anyio.fail_after(PATIENCE):
            while any(watcher.committed.ids != [1] for watcher in slow):
                await anyio.sleep(0.01)
        assert [watcher.error for watcher in (*watchers, *slow)] == [None] * 24


async def test_a_statement_that_is_cancelled_on_a_quick_session_is_repeated_on_the_patient_session(
    postgres_database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = StatementLimits(statement=timedelta(milliseconds=50), lock=timedelta(milliseconds=50))
    monkeypatch.setattr(session, "QUICK", quick)
    async with PostgresConnection.model_validate({"dsn": postgres_database.dsn}).open() as client:
        lane = client.lane("a", timedelta(seconds=1), is_alone=False)
        [row] = (await lane.fetch("SELECT pg_backend_pid() AS pid, pg_sleep(0.2)")).rows
        patient = (await client.patient.fetch("SELECT pg_backend_pid() AS pid")).rows[0]["pid"]
        assert row["pid"] == patient
        [row] = (await lane.fetch("SELECT pg_backend_pid() AS pid")).rows
        assert row["pid"] == patient, "who was slow stays there for a while"
