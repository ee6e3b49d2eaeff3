"""The cost of answers, counted in transactions and statements."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

from sqlalchemy import event

from store.database import Database
from store.database.asset_events import NewEvent
from store.detection.interest import NO_HOOKS
from store.processes import tokens
from store.processes.posts import EventPost, store_all
from tests.databases import on_both, statements_of
from tests.service.api.application import Api, claimed
from watcher.host.loops import Hint

pytestmark = on_both

ROOT = Path(__file__).parents[3]


@dataclass
class Cost:
    transactions: int = 0
    statements: list[str] = field(default_factory=list)


@contextmanager
def counted(database: Database) -> Iterator[Cost]:
    """Count the statements of the block. SQLite's readers have separate connections, on which nothing else runs."""
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


async def test_a_list_of_assets_costs_as_many_statements_and_one_for_their_number(api: Api) -> None:
    assert await cost_of(api, "/api/v2/assets") == (1, 5)


async def test_health_costs_one_transaction_and_the_liveness_probe_none(api: Api) -> None:
    assert await cost_of(api, "/api/v2/monitor/health") == (1, 2)
    assert await cost_of(api, "/healthz") == (0, 0)


async def test_a_job_reads_an_asset_with_two_statements(api: Api) -> None:
    one = await api.start_try()
    with counted(api.database) as cost:
        await one.done("GET", "assets/by-name", query={"name": "orders"})
    assert (cost.transactions, len(cost.statements)) == (1, 2)


async def test_a_post_of_an_event_costs_at_most_six_statements_sign_in_and_answer_included(guarded: Api) -> None:
    async with guarded.database.transaction() as connection:
        token = (await tokens.create(connection, "ann", "operator")).token
    body = {"asset_id": guarded.asset_ids["landing"], "extra": {}}
    headers = {"Authorization": f"Bearer {token}"}
    sent: list[str] = []

    def execute(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("BEGIN"):
            sent.append(statement)

    engines = [guarded.database._writer.sync_engine]  # PostgreSQL's reader is the same engine with other options
    if guarded.database.dialect == "sqlite":
        engines.append(guarded.database._reader.sync_engine)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", execute)
    try:
        answer = await guarded.client.post("/api/v2/assets/events", json=body, headers=headers)
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", execute)
    assert answer.status_code == 200, answer.text
    assert 0 < len(sent) <= 6, sent


async def test_posts_of_events_cost_two_statements_however_many_are_stored_together(api: Api) -> None:
    """One statement stores the events with the audit, one queues them. SQLite needs one for each, and one for the assets."""
    asset_id = api.asset_ids["landing"]
    await api.client.post("/api/v2/assets/events", json={"asset_id": asset_id})
    for number in (1, 5):
        new = [NewEvent(asset_id=asset_id, extra="{}", trace_id=uuid4().hex, source_actor="ann") for _ in range(number)]
        with statements_of(api.database) as sent:
            async with api.database.transaction() as connection:
                await store_all(connection, [EventPost(new=one, write_id="") for one in new], NO_HOOKS)
        assert len({statement for statement, _ in sent}) == (2 if api.database.dialect == "postgresql" else 4)


async def test_a_persons_write_of_the_store_is_one_statement(api: Api) -> None:
    """A delete takes three statements: the asset with lock and audit, the history, and the entry. SQLite needs one for each except the lock."""
    path = api.store("orders", "k")
    await api.client.put(path, json={"value": 1})
    costs = []
    for call in (api.client.put(path, json={"value": 2}), api.client.delete(path)):
        with statements_of(api.database) as sent:
            assert (await call).status_code == 204
        costs.append(len(sent))

    assert costs == ([1, 3] if api.database.dialect == "postgresql" else [4, 4])


async def test_an_event_wakes_only_the_jobs_that_wait_for_it(api: Api) -> None:
    for asset, jobs in {"landing": {"load_orders"}, "orders": {"report"}}.items():
        api.wakes.clear()
        await api.client.post("/api/v2/assets/events", json={"asset_id": api.asset_ids[asset]})
        assert api.wakes == [Hint(what="queues", names=frozenset(jobs))]


def ways_from(module: str) -> tuple[list[list[str]], Callable[[FrameType, str, Any], Any]]:
    """Yield the lists of our functions on the stack from a route in `module` down to each `execute`."""
    ways: list[list[str]] = []

    def profile(frame: FrameType, what: str, _argument: Any) -> None:
        if (
            what != "call"
            or frame.f_code.co_name != "execute"
            or "sqlalchemy/ext/asyncio" not in frame.f_code.co_filename
        ):
            return
        way: list[str] = []
        above: FrameType | None = frame
        while above is not None:
            path = above.f_code.co_filename
            if path.startswith((str(ROOT / "store"), str(ROOT / "watcher"))):
                way.append(f"{Path(path).relative_to(ROOT)} {above.f_code.co_name}")
                if path.endswith(module):
                    ways.append(way[::-1])
                    return
            above = above.f_back
        ways.append(way[::-1])

    return ways, profile


async def test_a_jobs_write_passes_at_most_six_functions_of_ours_from_its_route_to_the_database(api: Api) -> None:
    """FastAPI's dependencies and logging do not count. A function that is resumed counts each time."""
    one = await claimed(api)
    await one.put("orders", "key", 1)
    ways, profile = ways_from("api/execution/store.py")
    sys.setprofile(profile)
    try:
        answer = await one.put("orders", "key", 2)
    finally:
        sys.setprofile(None)
    assert answer.status_code == 204, answer.text
    assert len(ways) >= 2
    assert max(map(len, ways)) <= 6, ways
