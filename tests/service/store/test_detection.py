"""The one transaction of a detection: all of it or nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Table, event
from sqlalchemy.exc import IntegrityError

from store.base import AssetStoreWriterKind, Writer
from store.database import Database
from store.database.asset_events import NewEvent
from store.database.schema import (
    asset_event,
    asset_store,
    asset_store_history,
    queued_event,
    watcher,
    watcher_position,
    watcher_position_row,
)
from store.detection import detections, positions, rewind
from store.detection.detections import Committed, Detection
from store.detection.interest import NO_HOOKS
from store.detection.position_rows import RowDifferences
from store.detection.positions import HeldPosition, NewPosition
from store.errors import NotFound, PositionLost, StoreError
from tests.service.store.words import apply, beat, declared, rows
from tests.service.store.words import event as new_event

WRITTEN: tuple[Table, ...] = (
    watcher_position,
    watcher_position_row,
    asset_event,
    queued_event,
    asset_store,
    asset_store_history,
    watcher,
)


@pytest.fixture
async def asset_id(database: Database) -> int:
    wanted = declared(assets={"a": "test://a"}, watchers={"files": "a"}, jobs={"one": ["a"], "two": ["a"]})
    return (await apply(database, wanted)).asset_ids["a"]


@pytest.fixture
async def held(database: Database) -> HeldPosition:
    await beat(database, "t1")
    async with database.transaction() as session:
        loaded = await positions.claim(session, "files", "t1", database.dialect)
    assert loaded is not None
    return loaded.held


@pytest.fixture
def found(asset_id: int, held: HeldPosition) -> Detection:
    return Detection(
        held=held,
        asset_id=asset_id,
        position=NewPosition(
            source_identity='"s"',
            state='{"n": 1}',
            watermark='{"up_to": 1}',
            rows=RowDifferences(insert={1: 1, 2: 2}),
        ),
        writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher="files", write_id="w1"),
        events=[new_event(asset_id, event_id=name, source_watcher="files") for name in ("e1", "e2")],
    )


def with_rows(detection: Detection, **rows: Any) -> Detection:
    return replace(detection, position=replace(detection.position, rows=RowDifferences(**rows)))


async def commit(database: Database, found: Detection, then: Callable[[], object] = lambda: None) -> HeldPosition:
    async with database.transaction() as session:
        (answer,) = await detections.commit(session, [found], NO_HOOKS)
        if isinstance(answer, PositionLost):
            raise answer
        then()
    return answer.held


async def everything(database: Database) -> dict[str, list[dict[str, Any]]]:
    return {table.name: await rows(database, table) for table in WRITTEN}


async def test_a_detection_writes_all_its_parts(database: Database, found: Detection, asset_id: int) -> None:
    assert await commit(database, found) == replace(found.held, version=1)
    stored = await everything(database)
    (position,) = stored["watcher_position"]
    assert (position["version"], position["state"], position["watermark"]) == (1, '{"n": 1}', '{"up_to": 1}')
    assert [row["member"] for row in stored["watcher_position_row"]] == [1, 2]
    assert [row["event_id"] for row in stored["asset_event"]] == ["e1", "e2"]
    assert [row["dag_id"] for row in stored["queued_event"]] == ["one", "one", "two", "two"]
    (entry,) = stored["asset_store"]
    (history,) = stored["asset_store_history"]
    assert (entry["asset_id"], entry["key"], entry["value"]) == (asset_id, "files.watermark", '{"up_to": 1}')
    assert (entry["last_updated_by_kind"], entry["last_updated_by_watcher"]) == ("watcher", "files")
    assert entry["last_updated_by_write_id"] == history["write_id"] == "w1"
    assert stored["watcher"][0]["last_event_at"] is not None


async def test_events_of_several_assets_are_stored_by_one_commit_and_queued_for_the_jobs_of_each(
    database: Database, found: Detection, asset_id: int
) -> None:
    b = await with_further_asset(database)
    of_b = new_event(b, event_id="e3", source_watcher="files")
    async with database.transaction() as session:
        [answer] = await detections.commit(session, [replace(found, events=[*found.events, of_b])], NO_HOOKS)
    assert isinstance(answer, Committed)
    assert answer.dag_ids == {"one", "of_b"}
    stored = await everything(database)
    assert [(row["event_id"], row["asset_id"]) for row in stored["asset_event"]] == [
        ("e1", asset_id),
        ("e2", asset_id),
        ("e3", b),
    ]
    assert [row["dag_id"] for row in stored["queued_event"]] == ["of_b", "one", "one"]
    assert [row["asset_id"] for row in stored["asset_store"]] == [asset_id], "one watermark, on the watcher's own asset"


async def test_an_event_of_an_asset_that_the_applied_configuration_does_not_name_is_refused(
    database: Database, found: Detection
) -> None:
    b = await with_further_asset(database)
    await with_further_asset(database, further=())
    before = await everything(database)
    with pytest.raises(StoreError, match="or with other `assets`"):
        await commit(database, replace(found, events=[*found.events, new_event(b, source_watcher="files")]))
    assert await everything(database) == before
    await commit(database, found)


async def with_further_asset(database: Database, further: Collection[str] = ("b",)) -> int:
    """Apply a configuration in which the watcher has events of these assets as well, and return the id of `b`."""
    assets = {"a": "test://a", "b": "test://b"}
    wanted = declared(assets=assets, watchers={"files": "a"}, jobs={"one": ["a"], "of_b": ["b"]})
    [watcher] = wanted.watchers
    applied = await apply(database, replace(wanted, watchers=[replace(watcher, further_assets=further)]))
    return applied.asset_ids["b"]


async def test_a_detection_of_a_process_that_knows_the_watcher_under_another_asset_writes_nothing(
    database: Database, found: Detection
) -> None:
    """It has not followed a reload yet; the jobs of the watcher's asset would never get these events."""
    assets = {"a": "test://a", "b": "test://b"}
    await apply(database, declared(assets=assets, watchers={"files": "b"}, jobs={"one": ["b"], "two": ["a"]}))
    before = await everything(database)
    with pytest.raises(StoreError, match="has files under another asset than this process"):
        await commit(database, found)
    assert await everything(database) == before


async def test_an_exception_after_commit_leaves_nothing(database: Database, found: Detection) -> None:
    before = await everything(database)
    with suppress(ZeroDivisionError):
        await commit(database, found, then=lambda: 1 // 0)
    assert await everything(database) == before
    assert (await commit(database, found)).version == 1


async def test_a_failure_of_any_statement_leaves_nothing(database: Database, found: Detection) -> None:
    """Each statement of the transaction fails once."""
    full = with_rows(found, insert={1: 1, 2: 2}, delete_below=1, delete=[3])
    before = await everything(database)
    engine = database._writer.sync_engine
    failed = 0
    for fatal in range(1, 100):
        seen = 0

        def fail(*_: Any, fatal: int = fatal) -> None:
            nonlocal seen
            seen += 1
            if seen == fatal:
                raise _Injected

        event.listen(engine, "before_cursor_execute", fail)
        try:
            await commit(database, full)
        except _Injected:
            failed += 1
        else:
            break
        finally:
            event.remove(engine, "before_cursor_execute", fail)
        assert await everything(database) == before
    assert failed >= (5 if database.dialect == "postgresql" else 9)
    assert (await everything(database))["watcher_position"][0]["version"] == 1


class _Injected(Exception):
    """A statement that failed."""


async def test_a_lost_position_writes_nothing(database: Database, found: Detection) -> None:
    before = await everything(database)
    for lost in (replace(found.held, epoch=0), replace(found.held, version=1)):
        with pytest.raises(PositionLost):
            await commit(database, replace(found, held=lost))
    assert await everything(database) == before


async def test_a_detection_on_an_asset_that_is_not_there_leaves_nothing(database: Database, found: Detection) -> None:
    before = await everything(database)
    missing = found.asset_id + 1
    events = [replace(each, asset_id=missing) for each in found.events]
    with pytest.raises((NotFound, IntegrityError)):
        await commit(database, replace(found, asset_id=missing, events=events))
    assert await everything(database) == before


async def test_the_same_detection_cannot_be_committed_twice(database: Database, found: Detection) -> None:
    held = await commit(database, found)
    once = await everything(database)
    with pytest.raises(PositionLost):
        await commit(database, found)
    with pytest.raises(IntegrityError):  # the second guard: the events' own ids
        await commit(database, replace(found, held=held))
    assert await everything(database) == once


async def test_a_detection_without_events_moves_the_position_alone(database: Database, found: Detection) -> None:
    await commit(database, with_rows(replace(found, events=[])))
    stored = await everything(database)
    assert stored["watcher_position"][0]["version"] == 1
    assert stored["asset_event"] == stored["queued_event"] == []
    assert stored["asset_store"][0]["value"] == '{"up_to": 1}'
    assert stored["watcher"][0]["last_event_at"] is None


async def test_a_state_kept_silently_leaves_no_trace_but_its_version(database: Database, found: Detection) -> None:
    """What an undo goes back to stays too."""
    held = await commit(database, with_rows(found, insert={1: 10}))
    async with database.transaction() as session:
        back = NewPosition(source_identity="{}", state='{"n": 0}', watermark="0")
        await rewind.rewind(session, "files", held.version, back, database.dialect)
    before = await everything(database)
    newer = replace(back, state='{"n": 9}', watermark="9", rows=RowDifferences(insert={5: 50}))
    async with database.transaction() as session:
        held = await detections.keep(session, replace(held, version=held.version + 1), newer)
    after = await everything(database)
    (position,) = after["watcher_position"]
    assert (position["version"], position["state"], position["watermark"]) == (held.version, '{"n": 9}', "0")
    assert position["previous"] is not None
    assert [row["member"] for row in after["watcher_position_row"] if row["watcher"] == "files"] == [1, 5]
    for table in ("asset_store", "asset_store_history", "asset_event", "watcher"):
        assert after[table] == before[table]
    with pytest.raises(PositionLost):
        async with database.transaction() as session:
            await detections.keep(session, replace(held, version=1), newer)


async def test_row_changes_are_committed_with_the_events(database: Database, found: Detection) -> None:
    held = await commit(database, with_rows(found, insert={1: 10, 2: 20, 3: 30}))
    again = with_rows(replace(found, held=held, events=[]), delete_below=20, delete=[2], insert={2: 1, 4: 40})
    await commit(database, again)
    kept = {row["member"]: row["value"] for row in await rows(database, watcher_position_row)}
    assert kept == {2: 1, 3: 30, 4: 40}


async def test_many_events_at_once_are_all_queued(database: Database, found: Detection, asset_id: int) -> None:
    many: list[NewEvent] = [new_event(asset_id, event_id=f"e{number}") for number in range(1_500)]
    await commit(database, replace(found, events=many))
    stored = await rows(database, asset_event)
    assert [row["event_id"] for row in stored] == [f"e{number}" for number in range(1_500)]
    assert len(await rows(database, queued_event)) == 3_000
