"""A look of the scheduler costs what is new, not what is queued: counted in rows and pages, not in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text

from store.database import Database
from tests.databases import on_both, statements_of
from tests.service.store.words import append, apply, declared, event, lock_queue

ASSETS = {name: f"test://{name}" for name in "abcd"}
FEW = 10

FILL = {
    "postgresql": "generate_series(1, {count}) AS number",
    "sqlite": "(WITH RECURSIVE n(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM n WHERE number < {count})"
    " SELECT number FROM n)",
}


async def fill(database: Database, count: int) -> None:
    """Queue this many events of the asset a, and behind them one of b; none of c and d. `load` waits for all four."""
    numbers = FILL[database.dialect].format(count=count)
    trace_id = "md5(number::text)" if database.dialect == "postgresql" else "printf('%032x', number)"
    now = "clock_timestamp()" if database.dialect == "postgresql" else "datetime('now')"
    asset_of = f"(SELECT id FROM asset WHERE name = CASE WHEN number < {count} THEN 'a' ELSE 'b' END)"
    async with database.transaction() as connection:
        if database.dialect == "postgresql":  # half a million foreign keys are no part of what is counted
            await connection.execute(text("SET LOCAL session_replication_role = replica"))
        await connection.execute(
            text(
                "INSERT INTO asset_event (id, asset_id, timestamp, extra, trace_id, source_map_index)"
                f" SELECT number, {asset_of}, {now}, '{{}}', {trace_id}, -1 FROM {numbers}"
            )
        )
        await connection.execute(
            text(
                "INSERT INTO queued_event (dag_id, event_id, asset_id, created_at)"
                " SELECT 'load', id, asset_id, timestamp FROM asset_event"
            )
        )
    if database.dialect == "postgresql":
        async with database.transaction() as connection:
            await connection.execute(text("ANALYZE queued_event"))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Rows that any part of the plan handled, and pages of the database that were read; SQLite: steps of its machine."""

    rows: int
    pages: int


async def cost_of_a_look(database: Database) -> Cost:
    with statements_of(database) as sent:
        async with database.transaction() as connection:
            assert await lock_queue(connection, "load") is not None
    if database.dialect == "sqlite":
        return Cost(rows=await _steps(database), pages=0)
    rows = pages = 0
    async with database.transaction() as connection:
        for statement, parameters in sent:
            explained = await connection.exec_driver_sql(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters
            )
            (answer,) = explained.scalar_one()
            plan = answer["Plan"]
            pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            rows += sum(int(node["Actual Rows"] * node["Actual Loops"]) for node in _nodes(plan))
    return Cost(rows=rows, pages=pages)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)


async def _steps(database: Database) -> int:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    async with database.transaction() as connection:
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.set_progress_handler(step, 1)
        await lock_queue(connection, "load")
        await driver.set_progress_handler(None, 1)
    return steps


async def costs(database: Database, many: int) -> tuple[Cost, Cost]:
    """The costs of reading a few queued events, and many."""
    await apply(database, declared(assets=ASSETS, jobs={"load": ASSETS}))
    await fill(database, FEW)
    few = await cost_of_a_look(database)
    async with database.transaction() as connection:
        for table in ("queued_event", "asset_event"):
            await connection.execute(text(f"DELETE FROM {table}"))
    await fill(database, many)
    return few, await cost_of_a_look(database)


def assert_alike(few: Cost, many: Cost) -> None:
    """The index grows by a level or two; nothing else may."""
    assert many.rows <= few.rows + 20
    assert many.pages <= few.pages + 40


@on_both
async def test_reading_a_long_queue_costs_what_reading_a_short_one_costs(database: Database) -> None:
    assert_alike(*await costs(database, 5_000))


@pytest.mark.slow
@on_both
async def test_reading_half_a_million_events_costs_what_reading_ten_costs(database: Database) -> None:
    few, many = await costs(database, 500_000)
    print(f"{database.dialect}: a look at {FEW} events {few}, at 500,000 {many}")  # noqa: T201
    assert_alike(few, many)


@on_both
async def test_reading_a_whole_queue_would_be_noticed(database: Database) -> None:
    ids = (await apply(database, declared(assets=ASSETS, jobs={"load": ASSETS}))).asset_ids
    before = await cost_of_a_look(database)
    await append(database, [event(ids["a"]), event(ids["b"])])
    assert (await cost_of_a_look(database)).rows > before.rows
