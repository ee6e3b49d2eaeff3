"""The partition key of a change in mode `log` is in the columns of its row, beside a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import asyncpg
import pytest

from tests.effort import SEED, effort
from tests.servers import PostgresServer, running_postgres
from tests.service.postgres.logged import logged, logged_database
from tests.service.postgres.tiny_host import TinyHost
from triggers.base import Finding

pytestmark = pytest.mark.service
SALES = "CREATE TABLE sales (id bigint PRIMARY KEY, low date, region text, done boolean, code char(5), note text)"
PARTITION = {"day": "low", "region": "region"}
WATCHED: dict[str, Any] = {"table": "public.sales", "partition": PARTITION}
EU, US = "2026-11-20|eu", "2026-11-20|us"


@pytest.fixture(scope="module", params=[18, pytest.param(16, marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    settings = {"wal_level": "logical", "max_replication_slots": 50}
    with running_postgres(version=request.param, fsync="off", **settings) as server:
        yield server


@pytest.fixture
def dsn(server: PostgresServer) -> Iterator[str]:
    with logged_database(server) as dsn:
        yield dsn


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    await connection.execute(SALES)
    yield connection
    connection.terminate()


async def told(host: TinyHost) -> list[tuple[str | None, list[tuple[Any, ...]]]]:
    """The partition keys of the events since the last call, each with its changes: op, key, and where the row moved."""
    events: Any = [(event.partition_key, event.payload["changes"]) for event in await host.drain()]
    moved = ("moved_from", "moved_to")
    return [
        (
            key,
            [(change["op"], change["key"], *(change[name] for name in moved if name in change)) for change in changes],
        )
        for key, changes in events
    ]


def as_text(change: tuple[str, int, set[str | None]]) -> str:
    op, number, keys = change
    return f"{op} {number} {sorted(map(str, keys))}"


async def partition_findings(host: TinyHost) -> list[Finding]:
    assert host.trigger is not None
    return [each for each in host.trigger.findings if each.check == "partition"]


async def test_a_change_is_in_the_event_of_its_rows_key_and_a_move_in_both(dsn: str, admin: asyncpg.Connection) -> None:
    await admin.execute("ALTER TABLE sales REPLICA IDENTITY FULL")
    async with logged(dsn, **WATCHED) as host:
        await admin.execute(
            "INSERT INTO sales VALUES (1, '2026-11-20', 'eu'), (2, '2026-11-20', 'us'), (3, NULL, NULL), (4, NULL, 'a|b')"
        )
        assert await told(host) == [
            (EU, [("insert", 1)]),
            (US, [("insert", 2)]),
            ("|a\\|b", [("insert", 4)]),
            (None, [("insert", 3)]),
        ]
        await admin.execute("UPDATE sales SET region = 'us' WHERE id = 1; UPDATE sales SET note = 'x' WHERE id = 1")
        await admin.execute("UPDATE sales SET region = 'eu', low = '2026-11-20', id = 5 WHERE id = 3")
        assert await told(host) == [
            (EU, [("update", 1, US), ("update", 5, None)]),
            (US, [("update", 1, EU), ("update", 1)]),
            (None, [("update", 5, EU)]),
        ]
        await admin.execute(
            "DELETE FROM sales WHERE id = 2; TRUNCATE sales; INSERT INTO sales VALUES (1, '2026-11-20', 'eu')"
        )
        assert await told(host) == [
            (US, [("delete", 2)]),
            (None, [("truncate", None)]),
            (EU, [("insert", 1)]),
        ], "what comes after a TRUNCATE has events behind it"
        [finding] = await partition_findings(host)
        assert finding.message == "3 changes have no partition key; the first: 3"


async def test_without_the_row_before_a_deletion_has_the_parts_of_its_key(dsn: str, admin: asyncpg.Connection) -> None:
    await admin.execute("ALTER TABLE sales DROP CONSTRAINT sales_pkey, ADD PRIMARY KEY (id, low)")
    async with logged(dsn, **WATCHED) as host:
        assert host.trigger is not None
        [finding] = await partition_findings(host)
        assert (finding.level, "region" in finding.message, "low" in finding.message) == ("warning", True, False)
        assert finding.remedy == "ALTER TABLE sales REPLICA IDENTITY FULL"
        await admin.execute("INSERT INTO sales VALUES (1, '2026-11-20', 'eu'), (2, '2026-11-20', 'eu')")
        await admin.execute("UPDATE sales SET region = 'us' WHERE id = 1")
        await admin.execute("UPDATE sales SET id = 3 WHERE id = 2")
        assert await told(host) == [
            (EU, [("insert", [1, "2026-11-20"]), ("insert", [2, "2026-11-20"]), ("update", [3, "2026-11-20"])]),
            (US, [("update", [1, "2026-11-20"])]),
        ]
        await admin.execute("UPDATE sales SET low = '2026-11-21' WHERE id = 1; DELETE FROM sales WHERE id = 3")
        assert await told(host) == [
            ("2026-11-20|", [("update", [1, "2026-11-21"], "2026-11-21|us"), ("delete", [3, "2026-11-20"])]),
            ("2026-11-21|us", [("update", [1, "2026-11-21"], "2026-11-20|")]),
        ]


@pytest.mark.parametrize(
    ("column", "value", "key"), [("done", "true", "true"), ("code", "'ab'", "ab"), ("note", "' '", None)]
)
async def test_values_are_as_in_the_other_modes(
    dsn: str, admin: asyncpg.Connection, column: str, value: str, key: str | None
) -> None:
    async with logged(dsn, table="public.sales", partition={"part": column}) as host:
        await admin.execute(f"INSERT INTO sales (id, {column}) VALUES (1, {value})")
        assert await told(host) == [(key, [("insert", 1)])]


async def test_a_part_whose_column_is_newer_than_a_change_is_missing(dsn: str, admin: asyncpg.Connection) -> None:
    async with logged(dsn, **WATCHED) as host:
        await admin.execute(
            "ALTER TABLE sales RENAME region TO old_region; INSERT INTO sales VALUES (1, '2026-11-20', 'eu')"
        )
        await admin.execute("ALTER TABLE sales ADD region text; INSERT INTO sales (id, region) VALUES (2, 'us')")
        assert await told(host) == [("2026-11-20|", [("insert", 1)]), ("|us", [("insert", 2)])]


@pytest.mark.parametrize("identity", ["FULL", "DEFAULT"])
async def test_random_changes_stand_in_exactly_the_events_of_their_keys_over_crashes(
    dsn: str, admin: asyncpg.Connection, identity: str
) -> None:
    """Expected keys are those that the writer knows: of the row it wrote, and with `FULL` of the row it replaced."""
    await admin.execute(f"ALTER TABLE sales REPLICA IDENTITY {identity}")
    random, rows, owed = Random(f"{SEED}/{identity}"), dict[int, str | None](), list[tuple[str, int, set[str | None]]]()
    async with logged(dsn, **WATCHED, batch={"max_rows": 7}) as host:
        events = []
        for _ in range(effort(300, 3000)):
            number, region = random.randrange(20), random.choice(["eu", "us", "asia", None])
            key = None if region is None else f"|{region}"
            if number not in rows:
                await admin.execute("INSERT INTO sales (id, region) VALUES ($1, $2)", number, region)
                owed.append(("insert", number, {key}))
                rows[number] = key
            elif random.random() < 0.7:
                await admin.execute("UPDATE sales SET region = $2, note = 'x' WHERE id = $1", number, region)
                owed.append(("update", number, {key, rows[number]} if identity == "FULL" else {key}))
                rows[number] = key
            else:
                await admin.execute("DELETE FROM sales WHERE id = $1", number)
                before = rows.pop(number)
                owed.append(("delete", number, {before if identity == "FULL" else None}))
            if random.random() < 0.05:
                if random.random() < 0.5:
                    await host.crash()
                events += await host.drain()
        events += await host.drain()
    named: dict[str, tuple[str, int, set[str | None]]] = {}
    for event in events:
        changes: Any = event.payload["changes"]
        assert len(changes) <= 7
        for change in changes:
            op, number, keys = named.setdefault(change["lsn"], (change["op"], change["key"], set()))
            assert (op, number) == (change["op"], change["key"])
            assert event.partition_key not in keys
            keys.add(event.partition_key)
    assert sorted(map(as_text, named.values())) == sorted(map(as_text, owed))


async def test_a_column_that_the_publication_leaves_out_is_refused(dsn: str, admin: asyncpg.Connection) -> None:
    await admin.execute("CREATE PUBLICATION few FOR TABLE sales (id, low)")
    with pytest.raises(Exception, match=r"leaves the columns region of public.sales out"):
        async with logged(dsn, publish=False, publication="few", **WATCHED):
            pass
