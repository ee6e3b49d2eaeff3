"""The hot statements touch a few pages, however large the table is, with the plans PostgreSQL may choose for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import asyncpg
import pytest

from tests.servers import PostgresDatabase
from triggers.postgres.by_id.statements import NewsById, RowsById
from triggers.postgres.by_update.statements import NewsByUpdate, RowsByUpdate, old_rows_by_update
from triggers.postgres.catalog.sequences import DrawnIds
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.server.session import Session
from triggers.postgres.sql import news_of
from triggers.shared.postgres.sql import TableName, primary_key_as_json, row_as_json

pytestmark = pytest.mark.service

ROWS = 200_000
TABLES = {
    "plain": "CREATE TABLE t (id bigint PRIMARY KEY, note text)",
    "int4": "CREATE TABLE t (id int PRIMARY KEY, note text)",
    "partitioned": "CREATE TABLE t (id bigint PRIMARY KEY, note text) PARTITION BY RANGE (id);"
    f"CREATE TABLE low PARTITION OF t FOR VALUES FROM (1) TO ({ROWS // 2});"
    f"CREATE TABLE high PARTITION OF t FOR VALUES FROM ({ROWS // 2}) TO ({10 * ROWS})",
    "partitioned by another column": "CREATE TABLE t (id bigint, note text, PRIMARY KEY (id, note)) PARTITION BY LIST (note);"
    "CREATE TABLE even PARTITION OF t FOR VALUES IN ('0'); CREATE TABLE odd PARTITION OF t FOR VALUES IN ('1')",
}
DRAWN = DrawnIds(sequence="drawn", increment=1)
NOTE = row_as_json(["note"], {})
TABLE = TableName.parse("public.t")
SQL = RowsById(table=TABLE, column="id", where="note <> ''", row=NOTE)
SQL_OF_DRAWN = RowsById(table=TABLE, column="id", where="note <> ''", row=NOTE, drawn=DRAWN)
SQL_BESIDE_AHEAD = RowsById(table=TABLE, column="id", where="note <> ''", row=NOTE, drawn=DRAWN, free=True)
_updates = partial(
    RowsByUpdate.of,
    TableName.parse("public.t"),
    "updated_at",
    key=primary_key_as_json(["id"], {}),
    key_columns=["id"],
    where=None,
    row=row_as_json(["id"], {}),
    size=None,
)
UPDATES, UPDATES_IN_UTC = _updates(), _updates(time_zone="UTC")
WATCHED = {"t", "low", "high", "even", "odd"}
STATEMENTS = {
    "fresh": (SQL.fresh, f"({ROWS}, 1000)"),
    "fresh and late": (
        SQL.fresh_and_late,
        f"({ROWS}, 1000, '{{10,{ROWS // 2}}}', '{{12,{ROWS // 2 + 9}}}', 1000)",
    ),
    "a part of a large gap": (SQL.fresh_and_late, f"({ROWS}, 1000, '{{1}}', '{{{ROWS}}}', 100)"),
    "a part of a drain": (SQL.fresh, "(0, 100)"),
    "fresh, drawn": (SQL_OF_DRAWN.fresh, f"({ROWS}, 1000)"),
    "a part of a drain, drawn": (SQL_OF_DRAWN.fresh, "(0, 100)"),
    "fresh beside ids ahead": (SQL_BESIDE_AHEAD.fresh, f"({ROWS}, 1000, '{{{ROWS + 1}}}', '{{{2**63 - 1}}}')"),
    "fresh and late beside ids ahead": (
        SQL_BESIDE_AHEAD.fresh_and_late,
        f"({ROWS}, 1000, '{{{ROWS + 1}}}', '{{{2**63 - 1}}}', '{{10}}', '{{12}}', 1000)",
    ),
    "whether there are news": (
        news_of([NewsById(table=TableName.parse("public.t"), column="id", drawn=DRAWN)]),
        f"('{{{ROWS}}}', '{{}}')",
    ),
}


@pytest.mark.parametrize("mode", [pytest.param("force_custom_plan", marks=pytest.mark.slow), "force_generic_plan"])
@pytest.mark.parametrize("schema", TABLES.values(), ids=TABLES)
async def test_hot_statements_read_few_pages(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, schema: str, mode: str
) -> None:
    await orders.execute(f"{schema}; CREATE SEQUENCE drawn START {ROWS}; SELECT nextval('drawn')")
    # In a random order, so that the table's order gives the planner no reason to like the index.
    await orders.execute(
        f"INSERT INTO t SELECT n, (n % 2)::text FROM generate_series(1, {ROWS}) n"
        " WHERE n NOT IN (10, 12) ORDER BY hashint8(n)"
    )
    await orders.execute("VACUUM ANALYZE t")
    async with PostgresConnection.model_validate({"dsn": postgres_database.dsn}).open() as client:
        session = client.session("t")
        await session.fetch(f"SET plan_cache_mode = {mode}")
        plans = {name: await plan_of(session, *asked) for name, asked in STATEMENTS.items()}
    for name, plan in plans.items():
        nodes = {node["Node Type"] for node in nodes_of(plan)}
        whole = {node["Relation Name"] for node in nodes_of(plan) if node["Node Type"] == "Seq Scan"}
        assert whole.isdisjoint(WATCHED), name
        assert nodes.isdisjoint({"Sort", "Bitmap Heap Scan"}), name
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 200, name


@pytest.mark.parametrize("zone", [None, "UTC"])
async def test_a_poll_for_updates_reads_few_pages(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, zone: str | None
) -> None:
    kind, updates = ("timestamptz", UPDATES) if zone is None else ("timestamp", UPDATES_IN_UTC)
    await orders.execute(f"CREATE TABLE t (id int PRIMARY KEY, updated_at {kind} NOT NULL)")
    await orders.execute(
        f"INSERT INTO t SELECT n, now() - n * interval '1 second' FROM generate_series(1, {ROWS}) n ORDER BY hashint4(n)"
    )
    await orders.execute("CREATE INDEX ON t (updated_at)")
    await orders.execute("VACUUM ANALYZE t")
    floor = await orders.fetchval("SELECT (now() - interval '5 minutes')::text")
    arguments = f"('{{}}', '{floor}', '3', '{{}}', NULL, NULL, NULL)"
    found = await orders.fetch("SELECT tableoid::int8, ctid::text, xmin::text FROM t WHERE id % 1000 = 0")
    places = ", ".join(f"ARRAY[{', '.join(repr(value) for value in values)}]" for values in zip(*found, strict=True))
    question = NewsByUpdate(table=TableName.parse("public.t"), column="updated_at", time_zone=zone)
    news = news_of([question])
    async with PostgresConnection.model_validate({"dsn": postgres_database.dsn}).open() as client:
        session = client.session("t")
        plans = [
            await plan_of(session, updates.new_places, arguments, executions=10),
            await plan_of(session, updates.rows, f"({places})", executions=10),
            await plan_of(session, news, f"('{{3}}', '{{{floor}}}')", executions=10),
        ]
        await session.fetch("SET plan_cache_mode = force_generic_plan")
        plans.append(await plan_of(session, updates.new_places, arguments))

    for plan in plans:
        assert "Seq Scan on t" not in {f"{node['Node Type']} on {node.get('Relation Name')}" for node in nodes_of(plan)}
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 1000


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_rows_are_compared_with_many_xids_at_once(
    postgres_database: PostgresDatabase, orders: asyncpg.Connection, mode: str
) -> None:
    """A hash table is used, not a comparison with each xid: during a long transaction the xids of all others are remembered."""
    await orders.execute("CREATE TABLE t (id int PRIMARY KEY, updated_at timestamptz NOT NULL DEFAULT now())")
    await orders.execute("CREATE INDEX ON t (updated_at)")
    xids = ",".join(map(str, range(1_000_000, 1_300_000)))
    old_rows = old_rows_by_update(TABLE, "updated_at", "true")
    async with PostgresConnection.model_validate({"dsn": postgres_database.dsn}).open() as client:
        session = client.session("t")
        await session.fetch(f"SET plan_cache_mode = {mode}")
        plans = [
            await plan_of(session, UPDATES.new_places, f"('{{}}', 'now', '3', '{{{xids}}}', NULL, NULL, NULL)"),
            await plan_of(session, old_rows, f"(0, 'now', '3', '{{{xids}}}')"),
        ]
    for plan in plans:
        assert "hashed SubPlan" in json.dumps(plan)


async def plan_of(session: Session, statement: str, arguments: str, *, executions: int = 0) -> dict[str, Any]:
    """Return the plan after so many executions, by which PostgreSQL may have chosen a generic plan."""
    await session.fetch(f"PREPARE hot AS {statement}")
    for _ in range(executions):
        await session.fetch(f"EXECUTE hot{arguments}")
    [row] = (await session.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE hot{arguments}")).rows
    await session.fetch("DEALLOCATE hot")
    plan: dict[str, Any] = json.loads(row[0])[0]["Plan"]
    return plan


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes_of(below)
