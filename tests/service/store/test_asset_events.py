"""Events, and the queue rows that come with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import anyio
import pytest
from sqlalchemy import delete
from sqlalchemy.exc import IntegrityError

from store.base import AssetStoreWriterKind, Writer
from store.database import Database
from store.database.schema import asset_event, job_schedule_asset, queued_event
from store.detection import detections, events, positions
from store.detection.detections import Committed, Detection
from store.detection.interest import NO_HOOKS, EventOrigin
from store.detection.positions import NewPosition
from store.keys import JobDefinition
from store.processes import posts
from store.processes.posts import EventPost
from tests.databases import on_both
from tests.service.store.words import append, apply, beat, declared, event, rows, until_somebody_waits


async def test_events_get_their_ids_in_the_order_given(database: Database) -> None:
    """Across the driver's pages of many rows, where a database may answer in another order."""
    ids = (await apply(database, declared(assets={"a": "test://a"}))).asset_ids
    stored = await append(database, [event(ids["a"], extra=f'{{"n": {number}}}') for number in range(2_500)])
    assert list(stored) == sorted(stored)
    extras = {row["id"]: row["extra"] for row in await rows(database, asset_event)}
    assert [extras[event_id] for event_id in stored] == [f'{{"n": {number}}}' for number in range(2_500)]


async def test_each_event_is_queued_once_for_every_job_scheduled_on_its_asset(database: Database) -> None:
    ids = (
        await apply(
            database,
            declared(
                assets={"a": "test://a", "b": "test://b", "c": "test://c"},
                jobs={"on_a": ["a"], "on_both": ["a", "b"], "idle": ["c"]},
                paused=["on_a"],
            ),
        )
    ).asset_ids
    first, second, third = await append(database, [event(ids["a"]), event(ids["b"]), event(ids["a"])])
    queued = await rows(database, queued_event)
    assert [(row["dag_id"], row["event_id"], row["asset_id"]) for row in queued] == [
        ("on_a", first, ids["a"]),
        ("on_a", third, ids["a"]),
        ("on_both", first, ids["a"]),
        ("on_both", second, ids["b"]),
        ("on_both", third, ids["a"]),
    ]
    at = {row["id"]: row["timestamp"] for row in await rows(database, asset_event)}
    assert all(row["created_at"] == at[row["event_id"]] for row in queued)


async def test_no_events_need_no_statement(database: Database) -> None:
    assert await append(database, []) == []


async def test_an_event_keeps_its_source(database: Database) -> None:
    ids = (await apply(database, declared(assets={"a": "test://a"}))).asset_ids
    task: dict[str, Any] = {"source_dag_id": "load", "source_run_id": "r", "source_task_id": "t", "source_map_index": 2}
    sources: list[dict[str, Any]] = [{"source_watcher": "files", "event_id": "e" * 64}, task, {"source_actor": "ann"}]
    await append(database, [event(ids["a"], **source) for source in sources])
    nothing = dict.fromkeys(("event_id", "source_watcher", *task, "source_actor")) | {"source_map_index": -1}
    stored = [{name: row[name] for name in nothing} for row in await rows(database, asset_event)]
    assert stored == [nothing | source for source in sources]


async def test_the_same_event_of_a_watcher_cannot_be_stored_twice(database: Database) -> None:
    ids = (await apply(database, declared(assets={"a": "test://a"}, jobs={"job": ["a"]}))).asset_ids
    await append(database, [event(ids["a"], event_id="e")])
    with pytest.raises(IntegrityError):
        await append(database, [event(ids["a"], event_id="other"), event(ids["a"], event_id="e")])
    assert len(await rows(database, queued_event)) == 1


@on_both
async def test_a_job_with_where_gets_the_events_that_say_so_however_they_come(database: Database) -> None:
    """Posted, reported by a watcher, and emitted by tasks: each way queues by statements of its own."""
    wheres = {"eu": {"extra.region": "eu"}, "none": {"extra.region": None}, "key": {"partition_key": "k"}}
    jobs = {name: {"asset": "a", "where": where} for name, where in wheres.items()} | {"all": "a"}
    base = declared(assets={"a": "test://a"}, watchers={"files": "a"}, jobs=dict.fromkeys(jobs, ("a",)))
    filtered = [replace(each, definition=JobDefinition(schedule=jobs[each.dag_id])) for each in base.jobs]
    asset_id = (await apply(database, replace(base, jobs=filtered))).asset_ids["a"]
    eu, other = event(asset_id, '{"region": "eu"}'), event(asset_id, '{"region": "us"}', partition_key="k")

    async with database.transaction() as connection:
        appended = await events.append(connection, [eu, other], origin=EventOrigin.POST, hooks=NO_HOOKS)
    assert appended.dag_ids == {"all", "eu", "key"}
    posted = [EventPost(new=replace(eu, trace_id="1" * 32, source_actor="me"), write_id="w")]
    async with database.transaction() as connection:
        assert (await posts.store_all(connection, posted, NO_HOOKS))[0].dag_ids == {"all", "eu"}
    await beat(database, "t1")
    async with database.transaction() as connection:
        loaded = await positions.claim(connection, "files", "t1", database.dialect)
        assert loaded is not None
        detection = Detection(
            held=loaded.held,
            asset_id=asset_id,
            position=NewPosition(source_identity='"s"', state="{}", watermark="{}"),
            writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher="files", write_id="w1"),
            events=[replace(other, event_id="e1"), replace(eu, extra='{"region": null}', event_id="e2")],
        )
        (committed,) = await detections.commit(connection, [detection], NO_HOOKS)
    assert isinstance(committed, Committed)
    assert committed.dag_ids == {"all", "key", "none"}
    queued = Counter(row["dag_id"] for row in await rows(database, queued_event))
    assert queued == {"all": 5, "eu": 2, "key": 2, "none": 1}


async def test_a_job_that_is_removed_at_the_same_moment_leaves_no_row_in_the_queue(postgres: Database) -> None:
    """The reload waits for the event's transaction and then finds its queue row."""
    ids = (await apply(postgres, declared(assets={"a": "test://a"}, jobs={"job": ["a"]}))).asset_ids
    dequeued = []

    async def reload() -> None:
        dequeued.append((await apply(postgres, declared(assets={"a": "test://a"}))).dequeued)

    async with anyio.create_task_group() as tasks, postgres.transaction() as session:
        await events.append(session, [event(ids["a"])], origin=EventOrigin.POST, hooks=NO_HOOKS)
        tasks.start_soon(reload)
        await until_somebody_waits(postgres)
    assert dequeued == [1]
    assert await rows(postgres, queued_event) == []


async def test_an_event_that_waited_for_a_reload_is_not_queued_by_a_removed_edge(postgres: Database) -> None:
    ids = (await apply(postgres, declared(assets={"a": "test://a"}, jobs={"job": ["a"]}))).asset_ids
    async with anyio.create_task_group() as tasks, postgres.transaction() as session:
        await session.execute(delete(job_schedule_asset))
        tasks.start_soon(append, postgres, [event(ids["a"])])
        await until_somebody_waits(postgres)
    assert len(await rows(postgres, asset_event)) == 1
    assert await rows(postgres, queued_event) == []
