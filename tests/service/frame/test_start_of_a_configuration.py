"""A process applies its configuration at start, unless a living process runs the applied one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from store.catalog.catalog_sync import Declared
from store.database import Database, configuration_lock
from store.processes import triggerers
from store.processes.triggerers import ProcessInfo
from watcher.configuration.reloader import apply_at_start

pytestmark = pytest.mark.service
OTHER = ProcessInfo(id="11111111-1111-1111-1111-111111111111", host="there", pid=1)
LEASE = timedelta(minutes=10)


async def start(database: Database, hash_: str, *, force: bool = False) -> str | None:
    """Start a process and return the hash of the configuration that is applied afterwards."""
    declaration = Declared(hash=hash_, assets=[], watchers=[], jobs=[])
    async with database.transaction() as connection:
        await apply_at_start(connection, declaration, force=force)
        return await configuration_lock.applied_hash(connection)


async def test_a_process_applies_if_it_is_first_or_no_process_runs_the_applied_one_or_it_insists(
    database: Database,
) -> None:
    assert await start(database, "first") == "first"
    assert await start(database, "alone") == "alone"
    async with database.transaction() as connection:
        await triggerers.beat(connection, OTHER, LEASE, "postgresql")
        await triggerers.announce(connection, OTHER.id, "alone", {})
    assert await start(database, "another") == "alone"
    assert await start(database, "alone") == "alone"
    assert await start(database, "another", force=True) == "another"
    assert await start(database, "third") == "third", "who lives runs what was applied before"
    async with database.transaction() as connection:
        await triggerers.beat_dispatcher(connection, OTHER, LEASE, "postgresql", "third")
    assert await start(database, "fourth") == "third"
    async with database.transaction() as connection:
        await triggerers.beat_dispatcher(connection, OTHER, -LEASE, "postgresql", "third")
    assert await start(database, "fourth") == "fourth"
