"""What a detection, or a job's write, has to see of those it waited for: why each is two statements and not one.

A statement of PostgreSQL sees what was committed when it began, also when it then waits. Each test lets somebody commit
while the first statement waits for his lock, and asks whether the second saw it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetScope, AssetStoreWriterKind, Writer
from store.catalog import aliases, catalog_sync
from store.database import Database, configuration_lock
from store.database.schema import (
    asset_alias,
    asset_event,
    asset_store,
    asset_store_history,
    job_outlet,
    job_schedule_alias,
    queued_event,
    watcher_position,
)
from store.detection import detections, positions, rewind
from store.detection.detections import Committed, Detection
from store.detection.interest import NO_HOOKS
from store.detection.positions import NewPosition
from store.errors import PositionLost, StoreError
from store.keys import AssetRef, TryRef
from store.metastore import MetastoreStoreBackend
from store.runs import runs
from store.runs.tries import startable, tries
from store.runs.tries.try_lock import AssetSelector, lock_asset
from store.state.attributed import AttributedEntries
from store.state.entries import EntryChange
from tests.service.store.words import apply, beat, declared, event, rows, until_somebody_waits

pytestmark = pytest.mark.service

CONFIGURED = declared(assets={"a": "test://a"}, watchers={"files": "a"}, jobs={"load": []})
WATERMARK = "files.watermark"


@pytest.fixture
async def detection(postgres: Database) -> Detection:
    """One event and a new position of the watcher `files`, on an asset that no job is scheduled on."""
    asset_id = (await apply(postgres, CONFIGURED)).asset_ids["a"]
    await beat(postgres, "t1")
    async with postgres.transaction() as connection:
        loaded = await positions.claim(connection, "files", "t1", "postgresql")
    assert loaded is not None
    return Detection(
        held=loaded.held,
        asset_id=asset_id,
        position=NewPosition(source_identity="{}", state="{}", watermark='"1"'),
        writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher="files", write_id="w"),
        events=[event(asset_id)],
    )


async def committed_behind(
    postgres: Database,
    detection: Detection,
    first: Callable[[AsyncConnection], Awaitable[object]],
) -> Committed | PositionLost:
    """The answer to a detection that waits for the transaction of `first`."""
    answers: Sequence[Committed | PositionLost] = ()

    async def commit() -> None:
        nonlocal answers
        async with postgres.transaction() as connection:
            answers = await detections.commit(connection, [detection], NO_HOOKS)

    async with anyio.create_task_group() as tasks, postgres.transaction() as connection:
        await first(connection)
        tasks.start_soon(commit)
        await until_somebody_waits(postgres)
    (answer,) = answers
    return answer


async def test_an_event_that_waited_for_an_association_is_queued_for_the_aliases_jobs(
    postgres: Database, detection: Detection
) -> None:
    async with postgres.transaction() as connection:
        alias_id = (
            await connection.execute(insert(asset_alias).values(name="daily").returning(asset_alias.c.id))
        ).scalar_one()
        await connection.execute(insert(job_schedule_alias).values(dag_id="load", alias_id=alias_id))

    answer = await committed_behind(
        postgres,
        detection,
        lambda connection: aliases.associate(connection, {(detection.asset_id, alias_id)}, "postgresql"),
    )
    assert isinstance(answer, Committed)
    assert answer.dag_ids == {"load"}
    assert [row["dag_id"] for row in await rows(postgres, queued_event)] == ["load"]


async def test_an_event_that_waited_for_a_reload_which_renamed_its_asset_is_queued_by_the_new_edges(
    postgres: Database, detection: Detection
) -> None:
    reloaded = declared(assets={"renamed": "test://a"}, watchers={"files": "renamed"}, jobs={"load": ["renamed"]})
    answer = await committed_behind(
        postgres, detection, lambda connection: catalog_sync.apply(connection, reloaded, "postgresql")
    )
    assert isinstance(answer, Committed)
    assert answer.dag_ids == {"load"}
    (queued,) = await rows(postgres, queued_event)
    assert (queued["dag_id"], queued["asset_id"]) == ("load", detection.asset_id)


async def test_an_event_that_waited_for_a_reload_which_moved_its_watcher_is_refused(
    postgres: Database, detection: Detection
) -> None:
    reloaded = declared(assets={"a": "test://a", "b": "test://b"}, watchers={"files": "b"}, jobs={"load": ["b"]})
    with pytest.raises(ExceptionGroup) as refused:
        await committed_behind(
            postgres, detection, lambda connection: catalog_sync.apply(connection, reloaded, "postgresql")
        )
    assert refused.group_contains(StoreError, match="under another asset")
    assert await rows(postgres, asset_event) == []


async def test_a_detection_waits_with_its_position_for_whoever_applies_a_configuration(
    postgres: Database, detection: Detection
) -> None:
    answer = await committed_behind(postgres, detection, configuration_lock.exclude)
    assert isinstance(answer, Committed)


async def test_who_applies_a_configuration_waits_for_events_that_are_being_appended(
    postgres: Database, detection: Detection
) -> None:
    order: list[str] = []

    async def apply() -> None:
        async with postgres.transaction() as connection:
            await configuration_lock.exclude(connection)
            order.append("applied")

    async with anyio.create_task_group() as tasks, postgres.transaction() as connection:
        await detections.commit(connection, [detection], NO_HOOKS)
        tasks.start_soon(apply)
        await until_somebody_waits(postgres)
        order.append("appended")
    assert order == ["appended", "applied"]


async def test_a_detection_that_waited_for_a_rewind_writes_nothing(postgres: Database, detection: Detection) -> None:
    back = NewPosition(source_identity="{}", state="[]", watermark='"0"')
    answer = await committed_behind(
        postgres, detection, lambda connection: rewind.rewind(connection, "files", 0, back, "postgresql")
    )
    assert isinstance(answer, PositionLost)
    assert await rows(postgres, asset_event) == []
    assert await rows(postgres, asset_store) == []
    (position,) = await rows(postgres, watcher_position)
    assert (position["version"], position["state"]) == (1, "[]")


async def test_versions_continue_after_a_delete_of_the_watermark_that_was_waited_for(
    postgres: Database, detection: Detection
) -> None:
    entries = AttributedEntries("postgresql")
    asset = AssetRef(id=detection.asset_id, name="a", uri="test://a")
    await MetastoreStoreBackend(postgres).aset(AssetScope(asset_id=asset.id), WATERMARK, '"0"')
    gone = EntryChange(asset=asset, key=WATERMARK, value=None, writer=None)
    answer = await committed_behind(postgres, detection, lambda connection: entries.apply(connection, gone))
    assert isinstance(answer, Committed)
    history = await rows(postgres, asset_store_history)
    assert [(row["version"], row["deleted"]) for row in history] == [(1, False), (2, True), (3, False)]


async def test_versions_of_a_jobs_write_continue_after_a_delete_that_was_waited_for(
    postgres: Database, detection: Detection
) -> None:
    entries, selector = AttributedEntries("postgresql"), AssetSelector(by="name", text="a")
    asset = AssetRef(id=detection.asset_id, name="a", uri="test://a")
    await MetastoreStoreBackend(postgres).aset(AssetScope(asset_id=asset.id), "key", "1")
    async with postgres.transaction() as connection:
        await connection.execute(insert(job_outlet).values(dag_id="load", asset_id=asset.id))
        await runs.create_run(connection, "load", "r", "load", triggered_by="cli")
        (task,) = await startable.next_startable(connection)
        await tries.commit_intent(connection, task, home_id="home", tag="tag", token_hash="h")
    versions: list[int] = []

    async def write() -> None:
        async with postgres.transaction() as connection:
            locked = await lock_asset(
                connection, TryRef(task_instance_id=task.key.task_instance_id, try_number=1), selector, key="key"
            )
            change = EntryChange(asset=locked.asset, key="key", value="2", writer=None, lock=locked.lock)
            versions.append(await entries.apply(connection, change))

    async with anyio.create_task_group() as tasks, postgres.transaction() as connection:
        await entries.apply(connection, EntryChange(asset=asset, key="key", value=None, writer=None))
        tasks.start_soon(write)
        await until_somebody_waits(postgres)
    assert versions == [3]


async def test_the_order_of_locks_is_that_of_a_reload(postgres: Database, detection: Detection) -> None:
    """Many detections and reloads at once never wait in a circle."""
    reloads = [CONFIGURED, declared(assets={"a": "test://b"}, watchers={"files": "a"}, jobs={"load": ["a"]})]
    held = detection.held

    async def detect() -> None:
        nonlocal held
        for _ in range(20):
            async with postgres.transaction() as connection:
                (answer,) = await detections.commit(
                    connection, [Detection(**{**vars(detection), "held": held})], NO_HOOKS
                )
            assert isinstance(answer, Committed)
            held = answer.held

    async def reload() -> None:
        for turn in range(20):
            async with postgres.transaction() as connection:
                await catalog_sync.apply(connection, reloads[turn % 2], "postgresql")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(detect)
        tasks.start_soon(reload)
    async with postgres.reading() as connection:
        assert (await connection.execute(select(watcher_position.c.version))).scalar_one() == 20
