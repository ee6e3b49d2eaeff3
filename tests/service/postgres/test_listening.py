"""`listen: true`: writers wake the watcher, and rows are found whatever happens to notifications."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.effort import PATIENCE
from tests.postgres_proxy import proxied
from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted, options
from triggers.base import Finding
from triggers.errors import ConfigurationError
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.server import notifications
from triggers.postgres.server.notifications import Notifications, definition, install
from triggers.shared.postgres.failures import CLOSE_TIMEOUT

pytestmark = pytest.mark.service

NEVER = {"listen": True, "interval": "1h"}
LISTENERS = (
    "FROM pg_stat_activity WHERE datname = current_database() AND query IN ('LISTEN \"asset_watcher\"', 'SELECT 1')"
)


async def installed(dsn: str, watched: NewRowsOptions) -> None:
    await install(PostgresConnection.model_validate({"dsn": dsn}), watched)


@pytest.fixture
async def listened(postgres_database: PostgresDatabase, orders: asyncpg.Connection) -> AsyncIterator[TinyHost]:
    """A host that polls only when it is woken, or after an hour; its connection has begun to listen and woken it once."""
    await orders.execute(definition(options()))
    async with hosted(postgres_database.dsn, **NEVER) as host:
        await connected(host)
        yield host


async def connected(host: TinyHost) -> None:
    """Wait until a host that begins to listen was woken once, because it may have missed a notification before."""
    with anyio.fail_after(PATIENCE):
        await host.poll()


async def found(host: TinyHost, *ids: int) -> None:
    with anyio.fail_after(PATIENCE):
        while host.committed.ids != [*ids]:
            await host.poll()


async def test_a_commit_ends_the_pause_between_polls(listened: TinyHost, orders: asyncpg.Connection) -> None:
    await orders.execute("INSERT INTO orders DEFAULT VALUES")
    await found(listened, 1)


async def test_each_commit_wakes_the_watcher_so_a_late_row_is_found_at_once(
    listened: TinyHost, orders: asyncpg.Connection, connect: Connect
) -> None:
    slow = await connect()
    async with slow.transaction():
        await slow.execute("INSERT INTO orders DEFAULT VALUES")
        await orders.execute("INSERT INTO orders DEFAULT VALUES")
        await found(listened, 2)
    await found(listened, 2, 1)


async def test_a_lost_connection_is_reopened_and_rows_written_in_the_meantime_are_found(
    listened: TinyHost, orders: asyncpg.Connection
) -> None:
    assert await orders.fetchval(f"SELECT count(pg_terminate_backend(pid, 5000)) {LISTENERS}") == 1
    await orders.execute("INSERT INTO orders DEFAULT VALUES")
    await found(listened, 1)
    await orders.execute("INSERT INTO orders DEFAULT VALUES")
    await found(listened, 1, 2)


async def test_watchers_share_one_listening_connection_and_only_those_of_the_table_are_woken(
    postgres_database: PostgresDatabase, listened: TinyHost, orders: asyncpg.Connection
) -> None:
    await orders.execute("CREATE TABLE other (id bigserial PRIMARY KEY)")
    await installed(postgres_database.dsn, options(table="public.other"))
    other = TinyHost(listened.client, options(table="public.other", **NEVER))
    await other.catch_up()
    await orders.execute("INSERT INTO other DEFAULT VALUES")
    await found(other, 1)

    assert await orders.fetchval(f"SELECT count(*) {LISTENERS}") == 1

    await other.stop()
    assert sum(map(len, listened.client.notifications._wakes.values())) == 1
    with anyio.move_on_after(0.2) as pause:
        await listened.poll()
    assert pause.cancelled_caught


async def test_polling_continues_while_listening_fails(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    role = f"reader_{postgres_database.name}"
    await orders.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1; GRANT SELECT ON orders TO {role}")
    dsn = postgres_database.dsn.replace("postgres@", f"{role}@")
    try:
        with capture_logs() as logs:
            async with hosted(dsn, listen=True) as host:
                with anyio.fail_after(PATIENCE):
                    while "postgres.listen_lost" not in {entry["event"] for entry in logs}:
                        await host.poll()
                await orders.execute("INSERT INTO orders DEFAULT VALUES")
                await found(host, 1)
    finally:
        await orders.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    assert "too many connections" in next(e["error"] for e in logs if e["event"] == "postgres.listen_lost")


async def test_updates_wake_a_watcher_of_mode_updated_at(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    await orders.execute(
        "ALTER TABLE orders ADD updated_at timestamptz NOT NULL DEFAULT now(); CREATE INDEX ON orders (updated_at)"
    )
    await orders.execute("INSERT INTO orders DEFAULT VALUES")
    await installed(postgres_database.dsn, options(mode="updated_at"))
    async with hosted(postgres_database.dsn, mode="updated_at", **NEVER) as host:
        await connected(host)
        await orders.execute("UPDATE orders SET note = 'b', updated_at = now()")
        await found(host, 1)


async def test_installing_the_trigger_again_changes_nothing_whatever_the_names(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    await orders.execute(
        'CREATE SCHEMA "a b"; CREATE TABLE "a b"."it\'s ""so""" (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)'
        ' PARTITION BY RANGE (id); CREATE TABLE low PARTITION OF "a b"."it\'s ""so""" FOR VALUES FROM (0) TO (9)'
    )
    watched = options(table='a b.it\'s "so"', **NEVER)
    for _ in range(2):
        await installed(postgres_database.dsn, watched)
    async with hosted(postgres_database.dsn, **watched.model_dump()) as host:
        await connected(host)
        await orders.execute('INSERT INTO "a b"."it\'s ""so""" DEFAULT VALUES')
        await found(host, 1)
    triggers = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    assert [row["tgname"] for row in await orders.fetch(triggers)] == ["asset_watcher_id"]


async def test_only_the_owner_may_install_the_trigger(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection
) -> None:
    role = f"reader_{postgres_database.name}"
    await orders.execute(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON orders TO {role}")
    try:
        with pytest.raises(ConfigurationError, match="permission denied"):
            await installed(postgres_database.dsn.replace("postgres@", f"{role}@"), options())
    finally:
        await orders.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def about_listening(host: TinyHost) -> list[Finding]:
    assert host.trigger is not None
    return [finding for finding in host.trigger.findings if finding.check == "listen"]


async def test_a_connection_that_died_silently_is_noticed_and_named(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert notifications.PROBE_EVERY + notifications.PROBE_TIMEOUT + CLOSE_TIMEOUT <= 40
    monkeypatch.setattr(notifications, "PROBE_EVERY", 0.2)
    monkeypatch.setattr(notifications, "PROBE_TIMEOUT", 0.2)
    monkeypatch.setattr("triggers.shared.postgres.failures.CLOSE_TIMEOUT", 0.2)
    await orders.execute(definition(options()))
    async with proxied(postgres_database.dsn) as proxy:
        real = PostgresConnection.model_validate({"dsn": postgres_database.dsn})
        async with real.open() as client, anyio.create_task_group() as tasks:
            through = PostgresConnection.model_validate({"dsn": proxy.url.replace("ssl=disable", "sslmode=disable")})
            client.notifications = Notifications(through.connect)
            tasks.start_soon(client.notifications.run)
            host = TinyHost(client, options(**NEVER))
            await host.start()
            await connected(host)
            assert about_listening(host) == []
            proxy.swallows = True
            with anyio.fail_after(PATIENCE):
                while not about_listening(host):
                    await host.poll()
            [finding] = about_listening(host)
            assert finding.level == "warning"
            assert finding.message.startswith("no notifications arrive (PostgreSQL did not answer: timeout)")
            await orders.execute("INSERT INTO orders DEFAULT VALUES")
            proxy.swallows = False
            await found(host, 1)
            assert about_listening(host) == []
            await host.stop()
            tasks.cancel_scope.cancel()
