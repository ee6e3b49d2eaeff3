"""What a watcher of a table says about one row."""

from __future__ import annotations

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted
from triggers.explanations import Explanation
from triggers.postgres.new_rows import NewRows

pytestmark = pytest.mark.service


async def explained(host: TinyHost, item: str) -> Explanation:
    return await NewRows(host.options, host.client, host.context).explain(item, host.committed.position)


async def test_each_row_is_explained_in_mode_id(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, connect: Connect
) -> None:
    writer = await connect()
    await orders.execute("INSERT INTO orders (note) SELECT 'a' FROM generate_series(1, 5)")
    async with hosted(postgres_database.dsn, start=2, where="note <> 'hidden'") as host:
        transaction = writer.transaction()
        await transaction.start()
        await writer.execute("INSERT INTO orders (note) VALUES ('open')")  # 6
        await orders.execute("INSERT INTO orders (note) VALUES ('a'), ('hidden'), ('gone')")  # 7, 8, 9
        await host.catch_up()
        await orders.execute("DELETE FROM orders WHERE id = 9")
        await orders.execute("INSERT INTO orders (note) VALUES ('next')")  # 10

        states = {
            item: (await explained(host, item)).state for item in ("2", "3", "7", "8", "9", "10", "11", "x", "1.5")
        }
        assert states == {
            "2": "before_start",
            "3": "reported",
            "7": "reported",
            "8": "not_matched",
            "9": "missing",
            "10": "waiting",
            "11": "missing",
            "x": "outside",
            "1.5": "outside",
        }
        gap = await explained(host, "6")
        pid = await writer.fetchval("SELECT pg_backend_pid()")
        assert gap.state == "waiting"
        assert [each["pid"] for each in gap.facts["holders"]] == [pid]
        assert str(pid) in gap.sentence
        await transaction.rollback()


async def test_each_row_is_explained_in_mode_updated_at(postgres_database: PostgresDatabase, connect: Connect) -> None:
    customers = await connect()
    await customers.execute(
        "CREATE TABLE customers (region text, id int, note text, updated_at timestamptz NOT NULL DEFAULT now(),"
        " PRIMARY KEY (region, id))"
    )
    await customers.execute("CREATE INDEX ON customers (updated_at)")
    await customers.execute(
        "INSERT INTO customers VALUES ('eu', 1, 'old', '2000-01-01'), ('eu', 2, 'a', DEFAULT), ('eu', 3, 'b', DEFAULT)"
    )
    options = {"table": "public.customers", "mode": "updated_at", "start": "2020-01-01", "where": "note <> 'hidden'"}
    async with hosted(postgres_database.dsn, **options) as host:
        await customers.execute("INSERT INTO customers VALUES ('eu', 4, 'hidden'), ('eu', 5, 'gone')")
        await host.catch_up()
        await customers.execute("DELETE FROM customers WHERE id = 5")
        await customers.execute("UPDATE customers SET note = 'c', updated_at = now() WHERE id = 3")

        asked = ('["eu", 1]', '{"id": 2, "region": "eu"}', '["eu", 3]', '["eu", 4]', '["eu", 5]', "5", '["eu", "x"]')
        assert [(await explained(host, item)).state for item in asked] == [
            "before_start",
            "reported",
            "waiting",
            "not_matched",
            "missing",
            "outside",
            "outside",
        ]
        named = await explained(host, '["eu", 2]')
        assert named.name == ["eu", 2]
        assert named.name in host.committed.events[0].payload["keys"]  # type: ignore[operator]
