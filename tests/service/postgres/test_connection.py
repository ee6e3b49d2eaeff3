from __future__ import annotations

import anyio
import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted
from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.postgres.catalog.statements import LOCKS
from triggers.postgres.connection import PostgresClient, PostgresConnection

pytestmark = pytest.mark.service


def connection_to(database: PostgresDatabase, **values: object) -> PostgresConnection:
    return PostgresConnection.model_validate({"dsn": database.dsn, **values})


async def test_sessions_are_read_only_and_name_the_application(postgres_database: PostgresDatabase) -> None:
    async with connection_to(postgres_database).open() as client:
        session = client.session("any")
        with pytest.raises(ConfigurationError, match="cannot execute CREATE TABLE in a read-only transaction"):
            await session.fetch("CREATE TABLE t ()")
        [row] = (
            await session.fetch("SELECT current_setting('application_name'), current_setting('statement_timeout')")
        ).rows
        assert list(row) == ["asset-watcher", "1min"]


async def test_a_key_keeps_its_session_and_keys_are_distributed_over_sessions(
    postgres_database: PostgresDatabase,
) -> None:
    async with connection_to(postgres_database, pool_size=3).open() as client:
        sessions = [client.session(key) for key in "abcdef"]
        assert sessions == [client.session(key) for key in "abcdef"]
        assert len({id(session) for session in [*sessions, client.patient]}) == 3


async def test_no_session_is_opened_before_the_first_statement(
    connect: Connect, postgres_database: PostgresDatabase
) -> None:
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    admin = await connect()
    async with connection_to(postgres_database).open():
        assert await admin.fetchval(others) == 0


async def test_a_statement_of_a_terminated_session_is_repeated_once_on_a_new_one(
    connect: Connect, postgres_database: PostgresDatabase
) -> None:
    admin = await connect()
    async with connection_to(postgres_database, pool_size=1).open() as client:
        session = client.session("any")
        [row] = (await session.fetch("SELECT pg_backend_pid()")).rows
        async with anyio.create_task_group() as group:
            group.start_soon(end_once_busy, admin)
            [other] = (await session.fetch("SELECT pg_backend_pid(), pg_sleep(3)")).rows
        assert other[0] != row[0]
        async with anyio.create_task_group() as group:
            group.start_soon(end_twice, admin)
            with pytest.raises(SourceUnavailable):
                await session.fetch("SELECT pg_backend_pid(), pg_sleep(3)")


async def end_once_busy(admin: asyncpg.Connection) -> None:
    busy = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(3)' AND pid <> $1"
    while not await admin.fetchval(busy, admin.get_server_pid()):
        pass


async def end_twice(admin: asyncpg.Connection) -> None:
    await end_once_busy(admin)
    await anyio.sleep(1)
    await end_once_busy(admin)


async def test_a_cancelled_statement_leaves_the_session_usable(postgres_database: PostgresDatabase) -> None:
    async with connection_to(postgres_database, pool_size=1).open() as client:
        session = client.session("any")
        with anyio.move_on_after(0.1) as scope:
            await session.fetch("SELECT pg_sleep(60)")
        assert scope.cancelled_caught
        assert (await session.fetch("SELECT 1")).rows[0][0] == 1


async def test_a_statement_that_takes_too_long_may_succeed_next_time(postgres_database: PostgresDatabase) -> None:
    async with connection_to(postgres_database, pool_size=1).open() as client:
        session = client.session("any")
        await session.fetch("SET statement_timeout = '10ms'")
        with pytest.raises(SourceUnavailable, match="statement timeout"):
            await session.fetch("SELECT pg_sleep(60)")


async def test_one_list_of_lock_holders_serves_all_callers_that_wait_for_it(
    orders: asyncpg.Connection, postgres_database: PostgresDatabase
) -> None:
    await orders.execute("CREATE TABLE other (id int)")
    relations = [
        row[0] for row in await orders.fetch("SELECT oid FROM pg_class WHERE relname IN ('orders', 'other') ORDER BY 1")
    ]
    async with connection_to(postgres_database, pool_size=1).open() as client, orders.transaction():
        await orders.execute("INSERT INTO other VALUES (1)")
        asked = await statements_of(client)
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(assert_holders, client, relations[number % 2], number % 2, orders.get_server_pid())
        assert 1 <= asked.count(LOCKS) <= 2


async def statements_of(client: PostgresClient, key: str = "any") -> list[str]:
    """Return a list to which each statement of a session is appended."""
    statements: list[str] = []
    connection = await client.session(key)._connected()
    connection.add_query_logger(lambda record: statements.append(record.query))
    return statements


async def assert_holders(client: PostgresClient, relation: int, expected: int, pid: int) -> None:
    locks = await client.locks.read([relation])
    assert list(locks.holders.values()) == [pid] * expected


@pytest.mark.parametrize(("mode", "statements"), [("id", 1), ("updated_at", 2)])
async def test_an_idle_poll_sends_few_statements_each_prepared_and_planned_once(
    orders: asyncpg.Connection, postgres_database: PostgresDatabase, mode: str, statements: int
) -> None:
    await orders.execute("ALTER TABLE orders ADD updated_at timestamptz NOT NULL DEFAULT now()")
    await orders.execute("CREATE INDEX ON orders (updated_at)")
    async with hosted(postgres_database.dsn, mode=mode, start="all") as host:
        await orders.execute("INSERT INTO orders DEFAULT VALUES")
        await polled_until_idle(host)
        asked = await statements_of(host.client, "orders_rows")
        before = await plans_of(host.client, "orders_rows")
        for _ in range(5):
            await host.poll()
        polls, after = list(asked), await plans_of(host.client, "orders_rows")
    assert len(polls) == 5 * statements
    assert {statement: after[statement] - before[statement] for statement in {*polls}} == dict.fromkeys(polls, 0)


async def polled_until_idle(host: TinyHost) -> None:
    """Poll until a poll reports nothing; after that, the second statement of a poll with rows is prepared too."""
    for _ in range(3):
        await host.poll()


async def plans_of(client: PostgresClient, key: str) -> dict[str, int]:
    """Return how often each prepared statement of a session got a custom plan."""
    rows = (await client.session(key).fetch("SELECT statement, custom_plans FROM pg_prepared_statements")).rows
    return {row["statement"]: row["custom_plans"] for row in rows}
