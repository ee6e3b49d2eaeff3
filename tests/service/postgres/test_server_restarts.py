from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import anyio
import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.effort import PATIENCE
from tests.servers import running_postgres
from tests.service.postgres.conftest import ORDERS, MortalServer, mortal
from tests.service.postgres.tiny_host import TinyHost, hosted, options
from tests.torture.stepped_clock import SteppedClock, stepped_clock
from triggers.base import TriggerContext
from triggers.errors import SourceUnavailable
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.shared.postgres.failures import NotPrimary

pytestmark = pytest.mark.service

INSERT = "INSERT INTO orders (note) VALUES ('a'), ('a')"


async def catch_up_again(host: TinyHost) -> None:
    """Catch up as the daemon does: with a new instance from the last commit after each error that may pass."""
    with anyio.fail_after(PATIENCE):
        while not await succeeds(host.catch_up):
            pass


async def succeeds(step: Callable[[], Awaitable[object]]) -> bool:
    """Return False if the source was unavailable, which may pass."""
    try:
        await step()
    except SourceUnavailable:
        return False
    return True


async def leave_gaps(dsn: str) -> asyncpg.Connection:
    """Let an open writer draw the ids 1 and 2, a prepared transaction 3 and 4, and commit 5 and 6."""
    slow, quick = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    await slow.execute(f"BEGIN; {INSERT}")
    await quick.execute(f"BEGIN; {INSERT}; PREPARE TRANSACTION 'waiting'")
    await quick.execute(INSERT)
    await quick.close()
    return slow


@pytest.mark.parametrize("mode", [pytest.param("fast", marks=pytest.mark.slow), "immediate"])
async def test_a_restart_ends_open_writers_and_keeps_prepared_ones(mortal_server: MortalServer, mode: str) -> None:
    async with hosted(mortal_server.dsn) as host:
        slow = await leave_gaps(mortal_server.dsn)
        await host.catch_up()
        assert host.committed.ids == [5, 6]

        await anyio.to_thread.run_sync(mortal_server.restart, mode)
        slow.terminate()
        await catch_up_again(host)
        admin = await asyncpg.connect(mortal_server.dsn)
        await admin.execute(INSERT)
        await catch_up_again(host)
        assert host.committed.watermark["oldest"]["transaction"].startswith("-1/")

        await admin.execute("COMMIT PREPARED 'waiting'")
        await catch_up_again(host)
        await admin.close()
        assert sorted(host.committed.ids)[:4] == [3, 4, 5, 6]
        assert len(host.committed.ids) == len(set(host.committed.ids)) == 6


async def test_a_crash_of_one_backend_ends_all_others_without_a_new_boot_id(
    mortal_server: MortalServer,
) -> None:
    async with hosted(mortal_server.dsn) as host:
        slow, neighbour = await leave_gaps(mortal_server.dsn), await asyncpg.connect(mortal_server.dsn)
        await host.catch_up()
        boot = (await host.client.session("test").fetch("SELECT 1")).server.boot

        os.kill(slow.get_server_pid(), signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            while not neighbour.is_closed():  # until the server notices, and ends all sessions
                await anyio.sleep(0.01)
        await catch_up_again(host)
        slow.terminate()
        assert (await host.client.session("test").fetch("SELECT 1")).server.boot == boot

        admin = await asyncpg.connect(mortal_server.dsn)
        await admin.execute("COMMIT PREPARED 'waiting'")
        await catch_up_again(host)
        await admin.close()
        assert host.committed.ids == [5, 6, 3, 4]


@pytest.mark.slow
async def test_a_standby_is_refused_until_it_is_promoted(mortal_server: MortalServer) -> None:
    async with hosted(mortal_server.dsn) as host:
        await anyio.to_thread.run_sync(mortal_server.become_standby)
        while await succeeds(host.poll):
            pass
        with pytest.raises(NotPrimary):
            await host.client.session("test").fetch("SELECT 1")

        async with PostgresConnection.model_validate({"dsn": mortal_server.dsn}).open() as client:
            [finding] = await NewRows(options(), client, TriggerContext(watcher="other")).check()
        assert finding.message == "the server is a standby: connect to the primary"
        assert finding.remedy == "name the primary in the connection"

        await anyio.to_thread.run_sync(mortal_server.promote)
        writer = await asyncpg.connect(mortal_server.dsn)
        await writer.execute(INSERT)
        await writer.close()
        with capture_logs() as logs:
            await catch_up_again(host)
        assert len(host.committed.ids) == 2
        [change] = [entry for entry in logs if entry["event"] == "postgres.history_changed"]
        assert (change["timeline"], change["to"]["timeline"]) == (1, 2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppedClock]:
    """The clock of programs that are started from now on."""
    with stepped_clock() as clock:
        for name, value in clock.environment.items():
            monkeypatch.setenv(name, value)
        yield clock


@pytest.fixture
def server_by_the_clock(clock: SteppedClock) -> Iterator[MortalServer]:  # noqa: ARG001
    with running_postgres() as server:
        yield mortal(server)


FLOOR_FOLLOWS = "SELECT pg_sleep(1.2)"
"""Sleeps for longer than the second by which the floor lags behind the clock."""


@pytest.fixture
async def updates(server_by_the_clock: MortalServer) -> AsyncIterator[tuple[TinyHost, asyncpg.Connection]]:
    """A host whose floor has passed the only row."""
    admin = await asyncpg.connect(server_by_the_clock.dsn)
    await admin.execute(f"{ORDERS}; ALTER TABLE orders ADD updated_at timestamptz NOT NULL DEFAULT now()")
    await admin.execute("CREATE INDEX ON orders (updated_at)")
    async with hosted(server_by_the_clock.dsn, mode="updated_at") as host:
        await admin.execute("INSERT INTO orders DEFAULT VALUES")
        assert await host.catch_up() == [1]
        await admin.execute(FLOOR_FOLLOWS)
        for _ in range(3):
            await host.catch_up()
        yield host, admin
        await host.stop()
    await admin.close()


async def test_the_floor_goes_back_with_the_servers_clock(
    updates: tuple[TinyHost, asyncpg.Connection], clock: SteppedClock
) -> None:
    host, admin = updates
    clock.set(-5)
    await admin.execute("INSERT INTO orders DEFAULT VALUES")
    assert await host.catch_up() == [2]
    for _ in range(3):
        await host.catch_up()
    clock.set(-10)
    silent = host.committed.silent
    await host.catch_up()
    assert host.committed.silent == silent + 1  # also for whoever goes on from here
    await admin.execute("INSERT INTO orders DEFAULT VALUES")
    await host.crash()
    assert await host.catch_up() == [3]


async def test_a_clock_that_was_set_back_while_the_watcher_was_stopped_hides_no_row(
    updates: tuple[TinyHost, asyncpg.Connection], clock: SteppedClock
) -> None:
    host, admin = updates
    await host.stop()
    clock.set(-60)
    await admin.execute("INSERT INTO orders DEFAULT VALUES")
    assert await host.catch_up() == [2]


async def test_a_server_that_starts_with_a_clock_that_is_behind_hides_no_row(
    updates: tuple[TinyHost, asyncpg.Connection], clock: SteppedClock, server_by_the_clock: MortalServer
) -> None:
    host, _ = updates
    clock.set(-60)
    await anyio.to_thread.run_sync(server_by_the_clock.restart, "fast")
    again = await asyncpg.connect(server_by_the_clock.dsn)
    await again.execute("INSERT INTO orders DEFAULT VALUES")
    clock.set(0)
    await catch_up_again(host)
    assert host.committed.ids == [1, 2]
    await again.close()
