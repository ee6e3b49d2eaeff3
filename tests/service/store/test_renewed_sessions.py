"""Metadata sessions leave a server that refuses writes or ends them, and no commit is lost, doubled or called unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass

import anyio
import psycopg
import pytest
from sqlalchemy import insert, make_url, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.database.notifications import listening
from store.database.schema import setting
from store.errors import CommitUnknown, ConnectionLost
from tests.databases import migrate
from tests.effort import PATIENCE, effort
from tests.postgres_proxy import Proxy, proxied
from tests.servers import running_postgres
from tests.service.postgres.conftest import MortalServer, mortal

pytestmark = pytest.mark.service
KILLS = effort(10, 300)
WRITERS = 10
Open = Callable[[Database], AbstractAsyncContextManager[AsyncConnection]]
WAYS: tuple[Open, ...] = (Database.transaction, Database.statement, Database.statements, Database.reading)
"""All ways to a session: three of one pool, and one of the other."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A primary and its hot standby, both with an empty metadata database."""

    primary: MortalServer
    standby: MortalServer

    def set(self, name: str, value: str) -> None:
        """Change a setting of the primary; its sessions stay."""
        execute(self.primary, f"ALTER SYSTEM SET {name} = '{value}'")
        execute(self.primary, "SELECT pg_reload_conf()")
        while execute(self.primary, f"SHOW {name}") != value:
            pass

    def fence(self) -> None:
        """Make the primary read-only, as a failover manager does."""
        self.set("default_transaction_read_only", "on")

    def lift_the_fence(self) -> None:
        self.set("default_transaction_read_only", "off")

    def hand_over(self) -> None:
        """Promote the standby once it has all that the primary committed."""
        lsn = execute(self.primary, "SELECT pg_current_wal_insert_lsn()::text")
        execute(self.primary, "SELECT pg_switch_wal()")
        while not execute(self.standby, f"SELECT pg_last_wal_replay_lsn() >= '{lsn}'"):
            pass
        self.standby.promote()


def execute(server: MortalServer, statement: str) -> object:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
    return row[0] if row else None


def end_sessions(server: MortalServer) -> object:
    return execute(
        server,
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = 'asset-watcher'",
    )


def metadata_on(server: MortalServer) -> str:
    url = make_url(server.dsn).set(drivername="postgresql+asyncpg", database="metadata")
    return url.render_as_string(hide_password=False)


def lead_to(proxy: Proxy, server: MortalServer) -> None:
    """Send new connections there; open ones stay where they are."""
    proxy.server = ("127.0.0.1", port_of(server))


def port_of(server: MortalServer) -> int:
    return make_url(server.dsn).port or 0


@contextmanager
def new_pair() -> Iterator[Pair]:
    with running_postgres() as server:
        server.execute("CREATE DATABASE {}", "metadata")
        migrate(server.sqlalchemy_url("metadata"))
        primary = mortal(server)
        with primary.with_standby() as standby:
            yield Pair(primary=primary, standby=standby)


@pytest.fixture(scope="module")
def lasting_pair() -> Iterator[Pair]:
    with new_pair() as pair:
        yield pair


@pytest.fixture
def pair(lasting_pair: Pair) -> Pair:
    """A pair that several tests use, and that none may promote."""
    with psycopg.connect(make_url(lasting_pair.primary.dsn).set(database="metadata").render_as_string(False)) as admin:
        admin.execute("TRUNCATE setting")
    return lasting_pair


@pytest.fixture
def pair_to_promote() -> Iterator[Pair]:
    with new_pair() as pair:
        yield pair


@asynccontextmanager
async def behind_a_proxy(server: MortalServer) -> AsyncIterator[tuple[Proxy, Database]]:
    async with proxied(metadata_on(server)) as proxy, Database.open(proxy.url, pool_size=WRITERS) as database:
        yield proxy, database


async def write(database: Database, key: str, way: Open = Database.transaction) -> None:
    async with way(database) as connection:
        await connection.execute(insert(setting).values(key=key, value="1"))


async def places(database: Database) -> set[int]:
    """The ports of the servers to which all ways lead."""
    ports: set[int] = set()
    for way in WAYS:
        async with way(database) as connection:
            ports.add((await connection.execute(text("SELECT inet_server_port()"))).scalar_one())
    return ports


async def test_both_pools_leave_a_server_that_became_read_only_for_the_promoted_one(pair_to_promote: Pair) -> None:
    pair = pair_to_promote
    async with behind_a_proxy(pair.primary) as (proxy, database):
        await write(database, "before")
        assert await places(database) == {port_of(pair.primary)}
        pair.fence()
        pair.hand_over()
        lead_to(proxy, pair.standby)
        with pytest.raises(ConnectionLost, match="the database is read-only"):
            await write(database, "refused")
        assert await places(database) == {port_of(pair.standby)}
        await write(database, "refused")
        assert database.outage is None


async def test_a_refused_write_of_a_reader_is_its_own_error_and_renews_nothing(pair: Pair) -> None:
    async with behind_a_proxy(pair.primary) as (_, database):
        before = [await backend_pid(database, way) for way in WAYS]
        with pytest.raises(Exception, match="read-only transaction") as refused:
            await write(database, "never", Database.reading)
        assert not isinstance(refused.value, ConnectionLost)
        assert [await backend_pid(database, way) for way in WAYS] == before


async def test_one_session_that_is_ended_renews_those_of_both_pools(pair: Pair) -> None:
    async with behind_a_proxy(pair.primary) as (_, database):
        before = {await backend_pid(database, way) for way in WAYS}
        with pytest.raises(ConnectionLost, match="the database is being stopped or started"):
            await end_own_session(database)
        assert before.isdisjoint([await backend_pid(database, way) for way in WAYS])


async def end_own_session(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


async def backend_pid(database: Database, way: Open) -> int:
    async with way(database) as connection:
        return int((await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one())


async def test_a_standby_is_refused_in_a_sentence_until_the_address_leads_to_a_primary(pair: Pair) -> None:
    async with behind_a_proxy(pair.standby) as (proxy, database):
        for way in WAYS:
            with pytest.raises(
                ConnectionLost, match=r"the database is read-only \(.*\); let it write, or name the primary"
            ):
                await backend_pid(database, way)
        lead_to(proxy, pair.primary)
        await write(database, "key")
        assert await places(database) == {port_of(pair.primary)}


async def test_an_address_with_several_servers_leads_to_the_one_that_writes(pair: Pair) -> None:
    hosts = [f"127.0.0.1:{port_of(server)}" for server in (pair.standby, pair.primary)]
    url = make_url(metadata_on(pair.primary)).set(host=None, port=None).update_query_dict({"host": hosts})
    async with Database.open(url) as database:
        assert await places(database) == {port_of(pair.primary)}


async def test_sessions_that_exist_go_on_where_only_new_ones_may_not_write(pair: Pair) -> None:
    """`ALTER DATABASE` does not concern them; a session that the pool would add is refused, and ends none of them."""
    async with behind_a_proxy(pair.primary) as (_, database):
        await write(database, "before")
        execute(pair.primary, "ALTER DATABASE metadata SET default_transaction_read_only = on")
        await write(database, "beside")
        async with database.transaction() as connection:
            with pytest.raises(ConnectionLost, match="the database is read-only"):
                await write(database, "another session")
            await connection.execute(insert(setting).values(key="after", value="1"))
        end_sessions(pair.primary)
        with pytest.raises(ConnectionLost):
            await write(database, "refused")
        execute(pair.primary, "ALTER DATABASE metadata RESET default_transaction_read_only")
        await write(database, "again")
        assert await keys(database) == {"before", "beside", "after", "again"}


async def test_a_listener_leaves_a_server_that_became_read_only(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.database.notifications.PROBE_EVERY", 0.2)
    async with behind_a_proxy(pair.primary) as (_, database), listening(database, "channel", print) as listener:
        with anyio.move_on_after(1) as early:
            await listener.wait_until_lost()
        assert early.cancelled_caught
        pair.fence()
        try:
            with anyio.fail_after(PATIENCE):
                await listener.wait_until_lost()
        finally:
            pair.lift_the_fence()


class Load:
    """Writers that try each key again until it is committed. A key that was written already is their failure."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.committed: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.ends = False

    async def write(self, name: int) -> None:
        number = 0
        while not self.ends:
            number += 1
            key, way = f"{name}-{number}", WAYS[number % 2]
            while key not in self.committed:
                try:
                    await write(self.database, key, way)
                    self.committed.add(key)
                except ConnectionLost:
                    self.seen["lost"] += 1
                except CommitUnknown:
                    self.seen["unknown"] += 1
                    self.committed |= {key} & await keys(self.database)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as writers:
                for name in range(WRITERS):
                    writers.start_soon(self.write, name)
                yield
                self.ends = True


async def keys(database: Database) -> set[str]:
    async with database.reading() as connection:
        return set((await connection.execute(select(setting.c.key))).scalars())


async def test_commits_while_all_sessions_are_ended_are_known_and_none_is_lost_or_doubled(pair: Pair) -> None:
    async with Database.open(metadata_on(pair.primary), pool_size=WRITERS) as database:
        load = Load(database)
        async with load.running():
            for _ in range(KILLS):
                await anyio.sleep(0.2)
                await anyio.to_thread.run_sync(end_sessions, pair.primary)
        assert await keys(database) == load.committed
    assert load.seen["lost"] >= KILLS
    assert load.seen["unknown"] == 0


@pytest.mark.parametrize("way", [Database.transaction, Database.statement])
async def test_a_commit_that_is_ended_while_it_waits_for_a_standby_is_unknown_and_was_kept(
    pair: Pair, way: Open
) -> None:
    """The server says it with a warning of the same code, 57P01, after it has committed."""

    async def end() -> None:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        while not await anyio.to_thread.run_sync(execute, pair.primary, waiting):
            pass
        await anyio.to_thread.run_sync(end_sessions, pair.primary)

    pair.set("synchronous_standby_names", "nobody")
    try:
        async with Database.open(metadata_on(pair.primary)) as database:
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(end)
                    with pytest.raises(CommitUnknown):
                        await write(database, "key", way)
            assert await keys(database) == {"key"}
    finally:
        pair.set("synchronous_standby_names", "")


async def test_commits_go_on_by_themselves_through_a_failover(pair_to_promote: Pair) -> None:
    pair = pair_to_promote
    async with behind_a_proxy(pair.primary) as (proxy, database):
        load = Load(database)
        async with load.running():
            await anyio.sleep(1)
            await anyio.to_thread.run_sync(pair.fence)
            await anyio.to_thread.run_sync(end_sessions, pair.primary)
            before = set(load.committed)
            await anyio.to_thread.run_sync(pair.hand_over)
            lead_to(proxy, pair.standby)
            while len(load.committed) < len(before) + WRITERS:
                await anyio.sleep(0.05)
        assert before
        assert load.seen["lost"]
        assert load.seen["unknown"] == 0
        assert await keys(database) == load.committed
