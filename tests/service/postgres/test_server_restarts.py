from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable

import anyio
import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.effort import PATIENCE
from tests.service.postgres.conftest import MortalServer
from tests.service.postgres.tiny_host import TinyHost, hosted, options
from triggers.base import TriggerContext
from triggers.errors import SourceUnavailable
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.failures import NotPrimary
from triggers.postgres.new_rows import NewRows

pytestmark = pytest.mark.service

INSERT = "INSERT INTO orders (note) VALUES ('a'), ('a')"


async def catch_up_again(host: TinyHost) -> None:
    """As the daemon does: a new instance from the last commit after each passing error."""
    with anyio.fail_after(PATIENCE):
        while not await succeeds(host.catch_up):
            pass


async def succeeds(step: Callable[[], Awaitable[object]]) -> bool:
    """False: the source was not there, which may pass."""
    try:
        await step()
    except SourceUnavailable:
        return False
    return True


async def leave_gaps(dsn: str) -> asyncpg.Connection:
    """Ids 1, 2 drawn by a writer that stays open, 3, 4 by a prepared transaction, 5, 6 committed."""
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


async def test_a_crash_of_one_backend_ends_all_others_within_one_life_of_the_server(
    mortal_server: MortalServer,
) -> None:
    async with hosted(mortal_server.dsn) as host:
        slow = await leave_gaps(mortal_server.dsn)
        await host.catch_up()
        boot = (await host.client.session("test").fetch("SELECT 1")).server.boot

        os.kill(slow.get_server_pid(), signal.SIGKILL)
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
        assert [(entry["event"], entry["before"], entry["now"]) for entry in logs] == [
            ("postgres.timeline_changed", 1, 2)
        ]
