"""The statements that run all day: each finds its rows by an index, and there are few of them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from store.base import AssetScope, AssetStoreWriterKind, TaskScope, Writer
from store.database import Database
from store.database.paging import PageRequest
from store.database.schema import watcher_position_row
from store.detection import detections, event_lists, events, position_rows, positions
from store.detection.detections import Committed, Detection
from store.detection.event_lists import EventFilter
from store.detection.interest import NO_HOOKS, EventOrigin
from store.detection.position_rows import RowDifferences
from store.features.explain import item_search
from store.features.explain.item_search import ItemName
from store.features.pages import activity, run_history, run_spans
from store.keys import TryRef
from store.runs import runs
from store.runs.queue import queues
from store.runs.tries import answers, startable, tries, try_lookup
from store.runs.tries.answers import IdempotencyKey
from store.runs.tries.try_lock import AssetSelector, lock_asset
from store.state.transactions import EntryTransaction
from tests.databases import statements_of
from tests.service.store import words
from tests.service.store.small_world import World, small_world
from tests.service.store.words import append, apply, consume_events, declared, event, lock_queue, rows
from tests.service.triggerer.group_world import detectors


@pytest.fixture
async def world(database: Database) -> World:
    return await small_world(database)


REQUEST = IdempotencyKey(key="k", request="r")
CHANGES = EntryTransaction(
    ordinal=1, reads={"read": 0}, sets={"set": "1"}, increments={"total": 1}, deletes=frozenset({"key"})
)
WRITER = Writer(
    kind=AssetStoreWriterKind.TASK, write_id="w", dag_id="load", run_id="r", task_id="load", map_index=-1, try_number=1
)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
END = BEGIN + timedelta(days=1)
ITEM = ItemName(watcher="files", asset_ids=[0], name="a.csv", number=5)
TASK = TaskScope(dag_id="load", run_id="r", task_id="load")

Hot = Callable[[AsyncConnection, World], Awaitable[Any]]

HOT: dict[str, Hot] = {
    "claim": lambda session, w: positions.claim(session, "files", "t1", w.database.dialect),
    "advance": lambda session, w: words.advance(session, w.held, source_identity="{}", state="{}", watermark="{}"),
    "change_rows": lambda session, w: position_rows.change_rows(
        session,
        "files",
        RowDifferences(delete_below=1, delete=[1, 2], insert={3: 3}, delete_chunks_below=1, chunks={1: b"1"}),
        w.database.dialect,
    ),
    "detection": lambda session, w: detections.commit(session, [w.found(events=2)], NO_HOOKS),
    "detection_skipping": lambda session, w: detections.commit(
        session, [w.found(events=2)], NO_HOOKS, skip_locked=True
    ),
    "keep": lambda session, w: detections.keep(session, w.held, w.found().position),
    "append": lambda session, w: events.append(session, [event(w.asset_id)], origin=EventOrigin.POST, hooks=NO_HOOKS),
    "lock_queue": lambda session, _: lock_queue(session, "load"),
    "newest": lambda session, _: queues.newest(session, "load"),
    "span": lambda session, _: queues.span(session, "load"),
    "create_triggered_run": lambda session, _: _consume(session),
    "startable": lambda session, _: startable.next_startable(session),
    "running_runs": lambda session, _: runs.running_runs(session),
    "open_tries": lambda session, _: try_lookup.open_tries(session, "home"),
    "fence": lambda session, w: tries.fence(session, TryRef(task_instance_id=w.task_instance_id, try_number=1)),
    "fence_once": lambda session, w: tries.fence(
        session, TryRef(task_instance_id=w.task_instance_id, try_number=1), request=REQUEST
    ),
    "lock_asset": lambda session, w: lock_asset(
        session,
        TryRef(task_instance_id=w.task_instance_id, try_number=1),
        AssetSelector(by="uri", text="test://a"),
        key="key",
    ),
    "lock_asset_once": lambda session, w: lock_asset(
        session,
        TryRef(task_instance_id=w.task_instance_id, try_number=1),
        AssetSelector(by="name", text="a"),
        key="key",
        request=REQUEST,
    ),
    "lock_either_asset": lambda session, w: lock_asset(
        session, TryRef(task_instance_id=w.task_instance_id, try_number=1), AssetSelector(by="either", text="a")
    ),
    "keep_response": lambda session, w: answers.keep(session, w.task_instance_id, REQUEST, "{}"),
    "transact": lambda session, w: w.entries.transact(
        session, w.ref, CHANGES, task_instance_id=w.task_instance_id, writer=WRITER
    ),
    "claim_try": lambda session, w: tries.claim(
        session, TryRef(task_instance_id=w.task_instance_id, try_number=1), "n"
    ),
    "finish": lambda session, w: tries.finish(
        session, TryRef(task_instance_id=w.task_instance_id, try_number=1), finish_state="success", message=None
    ),
    "get_by_id": lambda session, w: w.backend.aget(w.asset, "key", session=AsyncSession(session)),
    "get_by_name": lambda session, w: w.backend.aget(AssetScope(name="a"), "key", session=AsyncSession(session)),
    "get_by_uri": lambda session, w: w.backend.aget(AssetScope(uri="test://a"), "key", session=AsyncSession(session)),
    "set": lambda session, w: w.backend.aset(w.asset, "key", "2", session=AsyncSession(session)),
    "set_new": lambda session, w: w.backend.aset_asset_store(
        w.asset, "new", "2", if_version=0, session=AsyncSession(session)
    ),
    "delete": lambda session, w: w.backend.adelete(w.asset, "key", session=AsyncSession(session)),
    "clear": lambda session, w: w.backend.aclear(w.asset, session=AsyncSession(session)),
    "get_task": lambda session, w: w.backend.aget(TASK, "key", session=AsyncSession(session)),
    "set_task": lambda session, w: w.backend.aset(TASK, "key", "1", session=AsyncSession(session)),
    "jobs_of_a_span": lambda session, _: run_spans.jobs_in(session, BEGIN, END, limit=50),
    "runs_of_a_span": lambda session, _: run_spans.groups_in(session, {"load"}, BEGIN, END, apart=240),
    "before_a_span": lambda session, _: run_spans.is_anything_before(session, BEGIN),
    "runs_of_strips": lambda session, _: run_history.newest_of_jobs(session, ["load"]),
    "events_naming_a_file": lambda session, w: item_search.events_naming(
        session, replace(ITEM, asset_ids=[w.asset_id])
    ),
    "events_naming_a_row": lambda session, w: item_search.events_naming(
        session, replace(ITEM, asset_ids=[w.asset_id], in_ranges=True, name=7, number=7)
    ),
    "clear_task": lambda session, w: w.backend.aclear(TASK, all_map_indices=True, session=AsyncSession(session)),
}


async def _consume(session: AsyncConnection) -> None:
    queue = await lock_queue(session, "load")
    assert queue is not None
    taken = list(await queues.oldest(session, "load", 10, None))
    await consume_events(session, queue, "r2", taken, completed_by=taken[0])


async def explained(database: Database, statement: str, parameters: Any) -> str:
    async with database.transaction() as session:
        connection = session
        if database.dialect == "sqlite":
            rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return "\n".join(row.detail for row in rows)
        await session.execute(text("SET LOCAL enable_seqscan = off"))
        rows = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
        return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("name", HOT)
async def test_hot_statements_find_their_rows_by_an_index(world: World, name: str) -> None:
    with statements_of(world.database) as sent:
        async with world.database.transaction() as session:
            await HOT[name](session, world)
    assert sent
    for statement, parameters in sent:
        plan = await explained(world.database, statement, parameters)
        assert not re.search(
            r"Seq Scan|SCAN (?!CONSTANT|\(subquery|asked|queued_|head|page|of_span|kind|some|task_try USING INDEX ix_task_try_open)",
            plan,
        ), f"{statement}\n{plan}"


async def test_the_hours_of_a_chart_are_found_by_an_index(world: World) -> None:
    """Going through the index from its beginning would be no scan of the table, and take as long."""
    with statements_of(world.database) as sent:
        async with world.database.reading() as connection:
            await activity.by_hour(connection, [world.asset_id])
    plans = [await explained(world.database, statement, parameters) for statement, parameters in sent]
    found = {"postgresql": r"Index Cond: \(\"?timestamp", "sqlite": r"SEARCH asset_event .*timestamp>"}
    assert len(re.findall(found[world.database.dialect], plans[0])) == activity.HOURS, plans[0]


async def test_a_sequential_scan_would_be_noticed(world: World) -> None:
    for statement in ("SELECT * FROM job WHERE task_id = 'x'", "DELETE FROM asset_event WHERE extra = 'x'"):
        assert re.search(r"Seq Scan|SCAN", await explained(world.database, statement, ()))


async def count(world: World, what: Callable[[AsyncConnection], Awaitable[Any]]) -> int:
    with statements_of(world.database) as sent:
        async with world.database.transaction() as session:
            await what(session)
    return len(sent)


async def test_a_detection_costs_few_statements(world: World) -> None:
    """PostgreSQL: advance with asset, key lock and events; queue rows with entry, history and the watcher's row."""

    async def commit(session: AsyncConnection, events: int) -> None:
        nonlocal world
        (answer,) = await detections.commit(session, [world.found(events)], NO_HOOKS)
        assert isinstance(answer, Committed)
        world = replace(world, held=answer.held)

    counts = [await count(world, lambda session, n=n: commit(session, n)) for n in (0, 0, 1, 500)]
    if world.database.dialect == "postgresql":
        assert counts == [2, 2, 2, 2]
    else:  # advance, entry, history; events, queue rows, the watcher's row; an order of ids is promised only one by one
        assert counts == [3, 3, 6, 5 + 500]


async def test_detections_of_many_watchers_cost_as_few_statements_as_one(postgres: Database) -> None:
    """What is locked, what is read because of that, and between them one for each kind of change of large sets."""
    changes = RowDifferences(
        clear=True, delete_below=2, delete=[1], insert={1: 1}, delete_chunks_below=2, chunks={1: b"1"}
    )
    for rows_of_each, statements in ((RowDifferences(), 2), (changes, 2 + 7)):
        ready = [with_rows(one.detection(), rows_of_each) for one in await detectors(postgres, 20)]
        with statements_of(postgres) as sent:
            async with postgres.transaction() as session:
                answers = await detections.commit(session, ready, NO_HOOKS, skip_locked=True)
        assert all(isinstance(answer, Committed) for answer in answers)
        assert len(sent) == statements
    assert [row["member"] for row in await rows(postgres, watcher_position_row)] == [1] * 20


def with_rows(detection: Detection, changes: RowDifferences) -> Detection:
    return replace(detection, position=replace(detection.position, rows=changes))


async def test_reading_and_writing_an_entry_costs_few_statements(world: World) -> None:
    backend = world.backend
    assert await count(world, lambda session: backend.aget(world.asset, "key", session=AsyncSession(session))) == 2
    writing = 3  # the asset; the lock and the entry with its history, or these two
    assert (
        await count(world, lambda session: backend.aset(world.asset, "key", "2", session=AsyncSession(session)))
        == writing
    )


async def test_a_jobs_write_is_fenced_authorized_and_remembered_by_one_statement(world: World) -> None:
    """Only SQLite, where statements cost no round trip, keeps the answer by another."""
    for name in ("fence", "lock_asset", "lock_either_asset"):
        assert await count(world, lambda session, name=name: HOT[name](session, world)) == 1
    once = 1 if world.database.dialect == "postgresql" else 2
    for name in ("fence_once", "lock_asset_once"):
        assert await count(world, lambda session, name=name: rolled_back(session, HOT[name](session, world))) == once


async def rolled_back(session: AsyncConnection, what: Awaitable[Any]) -> None:
    await what
    await session.rollback()


async def test_a_scheduler_that_finds_nothing_due_sends_two_statements(world: World) -> None:
    assert await count(world, lambda session: lock_queue(session, "load")) == 2


async def test_events_before_a_page_are_skipped_before_anything_is_joined(postgres: Database) -> None:
    asset_id = (await apply(postgres, declared(assets={"a": "test://a"}))).asset_ids["a"]
    await append(postgres, [event(asset_id) for _ in range(300)])
    async with postgres.transaction() as connection:
        with statements_of(postgres) as sent:
            page = await event_lists.listed(
                connection, EventFilter(), PageRequest(limit=10, offset=200, order_by=["-timestamp"])
            )
        statement, parameters = sent[-1]
        answer = await connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        [plan] = answer.scalar_one()
    joined = [node["Actual Rows"] * node["Actual Loops"] for node in nodes(plan["Plan"]) if "Join Type" in node]
    assert [row.id for row in page.rows] == list(range(100, 90, -1))
    assert max(joined) == 10


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)
