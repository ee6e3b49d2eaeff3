"""Leader election: leadership is taken when a lease ends, a leader that slept notices, a campaign whose session is cut is retried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, event, update
from structlog.testing import capture_logs

from store.database import Database
from store.database.schema import database_time_in, leader
from store.errors import ConnectionLost, NotLeading
from tests.databases import on_both, statements_of
from tests.effort import PATIENCE
from tests.postgres_proxy import proxied
from watcher.host.leader_election import Leadership
from watcher.host.metadata import keep_unfrozen

pytestmark = pytest.mark.service
ONE, TWO = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
AGES = timedelta(days=1)


def candidate(
    database: Database, owner: str, lease: timedelta = AGES, on_taken: Callable[[], None] = lambda: None
) -> Leadership:
    return Leadership(database=database, owner=owner, heartbeat=AGES, lease=lease, on_taken=on_taken)


async def test_a_standby_leads_when_the_leaders_lease_has_ended(database: Database) -> None:
    """The standby's own heartbeat would come tomorrow."""
    leads = anyio.Event()
    first = candidate(database, ONE, timedelta(seconds=1))
    await first.campaign()
    second = candidate(database, TWO, on_taken=leads.set)
    async with anyio.create_task_group() as tasks:
        await tasks.start(second.run)
        with anyio.fail_after(PATIENCE):
            await leads.wait()
        assert second.leads
        with pytest.raises(NotLeading):
            async with first.transaction():
                pytest.fail("a leader that slept began to write")
        assert not first.leads
        tasks.cancel_scope.cancel()
    await first.campaign()
    assert first.leads, "who resigned can be followed at once"


async def test_a_leader_that_was_stopped_between_the_halves_of_a_statement_is_followed(database_url: str) -> None:
    """The session counts as busy with a statement that never arrives in whole, so it keeps the lock for good."""
    lease = timedelta(seconds=1)
    async with (
        Database.open(database_url, idle_in_transaction_timeout=0.5) as frozen,
        Database.open(database_url, idle_in_transaction_timeout=0.5) as living,
    ):
        first, second = candidate(frozen, ONE, lease), candidate(living, TWO)
        await first.campaign()
        stopped = first.transaction()
        connection = await stopped.__aenter__()
        await (await connection.get_raw_connection()).driver_connection.prepare("SELECT 1")
        async with anyio.create_task_group() as tasks:
            await tasks.start(keep_unfrozen, living)
            with anyio.fail_after(PATIENCE):
                while not second.leads:
                    await anyio.sleep(0.1)
                    await second.campaign()
            tasks.cancel_scope.cancel()
        with pytest.raises(ConnectionLost):
            await stopped.__aexit__(None, None, None)


async def test_a_renewal_and_a_failed_campaign_hold_no_lock_between_statements(database: Database) -> None:
    first, second = candidate(database, ONE), candidate(database, TWO)
    await first.campaign()
    with statements_of(database) as sent:
        await first.campaign()
        assert len(sent) == 1
        await second.campaign()
    assert (first.leads, second.leads) == (True, False)
    async with database.reading() as connection:
        assert not connection.sync_connection.connection.dbapi_connection.autocommit


async def test_a_first_campaign_whose_session_is_cut_is_retried(database_url: str) -> None:
    async with proxied(database_url) as proxy, Database.open(proxy.url) as database:
        proxy.refuses = 2
        leadership = candidate(database, ONE)
        with capture_logs() as records:
            async with anyio.create_task_group() as tasks:
                await tasks.start(leadership.run)
                assert leadership.leads
                tasks.cancel_scope.cancel()
    assert [record["event"] for record in records].count("leader.campaign_failed") == 2


@on_both
@pytest.mark.parametrize("late", [0.01, 0.7, 3.0, 3600.0])
async def test_a_lease_that_ends_before_its_answer_arrives_ends_nothing(database: Database, late: float) -> None:
    """The standby asks for the leadership, is refused, and learns when the lease ends after it has ended."""
    first, leads = candidate(database, ONE), anyio.Event()
    await first.campaign()
    second = candidate(database, TWO, on_taken=leads.set)
    with lease_ends_before_the_next_answer(database, late):
        async with anyio.create_task_group() as tasks:
            await tasks.start(second.run)
            with anyio.fail_after(PATIENCE):
                await leads.wait()
            assert second.leads
            tasks.cancel_scope.cancel()


@contextmanager
def lease_ends_before_the_next_answer(database: Database, late: float) -> Iterator[None]:
    """Let the leader's lease have ended `late` seconds ago as soon as another process was refused the leadership."""
    engine, changes = database._single.sync_engine, list[str]()

    def end_lease(connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("UPDATE leader") and not changes:
            changes.append(statement)
            connection.execute(update(leader).values(expires_at=database_time_in(-late)))

    event.listen(engine, "after_cursor_execute", end_lease)
    try:
        yield
    finally:
        event.remove(engine, "after_cursor_execute", end_lease)
    assert changes
