"""What an answer costs, counted in transactions and statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import event

from store.database import Database
from tests.service.api.application import Api


@dataclass
class Cost:
    transactions: int = 0
    statements: list[str] = field(default_factory=list)


@contextmanager
def counted(database: Database) -> Iterator[Cost]:
    """What the block reads; SQLite's readers have connections of their own, where nothing else is done."""
    cost, engine = Cost(), database._reader.sync_engine

    def begin(_connection: Any) -> None:
        cost.transactions += 1

    def execute(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            cost.statements.append(statement)

    event.listen(engine, "begin", begin)
    event.listen(engine, "before_cursor_execute", execute)
    try:
        yield cost
    finally:
        event.remove(engine, "begin", begin)
        event.remove(engine, "before_cursor_execute", execute)


async def cost_of(api: Api, path: str) -> tuple[int, int]:
    await api.get(path)  # whatever is done once only
    with counted(api.database) as cost:
        await api.get(path)
    return cost.transactions, len(cost.statements)


async def test_one_asset_is_read_in_one_transaction_with_four_statements(api: Api) -> None:
    assert await cost_of(api, f"/api/v2/assets/{api.asset_ids['orders']}") == (1, 4)


async def test_a_list_of_assets_costs_as_many_and_their_number(api: Api) -> None:
    assert await cost_of(api, "/api/v2/assets") == (1, 5)


async def test_health_is_one_transaction_and_the_probe_of_the_process_none(api: Api) -> None:
    assert await cost_of(api, "/api/v2/monitor/health") == (1, 2)
    assert await cost_of(api, "/healthz") == (0, 0)


async def test_a_job_reads_an_asset_with_two_statements(api: Api) -> None:
    one = await api.start_try()
    with counted(api.database) as cost:
        await one.done("GET", "assets/by-name", query={"name": "orders"})
    assert (cost.transactions, len(cost.statements)) == (1, 2)
