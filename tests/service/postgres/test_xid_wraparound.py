"""Rows hold 32 bits of their xid: the server is moved to where these wrap around, and watched while they do."""

from __future__ import annotations

from collections import Counter

import anyio
import asyncpg
import pytest

from tests.service.postgres.conftest import MortalServer
from tests.service.postgres.tiny_host import hosted

pytestmark = pytest.mark.service

LAST_XID = 2**32 - 1
INSERT = "INSERT INTO orders (note) VALUES ('a'), ('a')"
WITH_SAVEPOINTS = f"BEGIN; {INSERT}; SAVEPOINT a; {INSERT}; ROLLBACK TO a; SAVEPOINT b; {INSERT}; COMMIT"


@pytest.mark.slow
async def test_nothing_is_lost_or_repeated_while_xids_wrap_around(mortal_server: MortalServer) -> None:
    await anyio.to_thread.run_sync(mortal_server.go_on_at_xid, LAST_XID - 150)
    writer, slow = await asyncpg.connect(mortal_server.dsn), await asyncpg.connect(mortal_server.dsn)
    await writer.execute("ALTER TABLE orders ADD updated_at timestamptz NOT NULL DEFAULT now()")
    await writer.execute("CREATE INDEX ON orders (updated_at)")
    await writer.execute(INSERT)
    by_update = {"mode": "updated_at", "start": "all"}
    async with hosted(mortal_server.dsn, start="all") as ids, hosted(mortal_server.dsn, **by_update) as updates:
        await slow.execute(f"BEGIN; {INSERT}")
        await writer.execute(f"BEGIN; {INSERT}; PREPARE TRANSACTION 'waiting'")
        for number in range(80):
            await writer.execute([INSERT, WITH_SAVEPOINTS][number % 2])
            await [ids, updates][number % 2].poll()
            if number % 10 == 0:
                await ids.crash()
                await updates.crash()
        await slow.execute(f"{INSERT}; COMMIT")
        await writer.execute("COMMIT PREPARED 'waiting'")
        for host in (ids, updates):
            await host.catch_up()
            await host.catch_up()
    rows = await writer.fetch("SELECT id, xmin::text::int8 AS xid FROM orders")
    await writer.close()
    await slow.close()

    xids = {row["xid"] for row in rows}
    assert max(xids) > LAST_XID - 150
    assert min(xids) < 150
    committed = Counter(row["id"] for row in rows)
    assert Counter(ids.committed.ids) == committed
    assert Counter(updates.committed.ids) == committed
    assert updates.committed.rows == {}, "xids are remembered that no snapshot needs"
