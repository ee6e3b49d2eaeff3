"""A watcher under another name goes on where it was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Boolean, Float, Integer, LargeBinary, Table, insert, select, update

from store.base import AssetStoreWriterKind, Writer
from store.database import Database
from store.database.lifecycle import Follows, HandedOver, NameRule, renamed
from store.database.schema import (
    UtcDateTime,
    asset_event,
    triggerer,
    watcher,
    watcher_position,
    watcher_position_row,
)
from store.detection import detections, positions, rewind
from store.detection.detections import Detection
from store.detection.interest import NO_HOOKS
from store.detection.position_rows import RowDifferences
from store.detection.positions import HeldPosition, LoadedPosition, NewPosition
from store.errors import Conflict, NotFound, PositionLost
from tests.features import TABLES
from tests.service.store.words import apply, beat, declared, event, rows


@pytest.fixture
async def asset_id(database: Database) -> int:
    await beat(database, "t1")
    return (await apply(database, declared(assets={"a": "test://a"}, watchers={"old": "a"}))).asset_ids["a"]


async def started(database: Database, name: str, owner: str = "t1") -> LoadedPosition:
    async with database.transaction() as session:
        loaded = await positions.claim(session, name, owner, database.dialect)
    assert loaded is not None
    return loaded


async def found(database: Database, asset_id: int, held: HeldPosition, state: str = '"here"') -> HeldPosition:
    """A commit of the watcher with one event and one row of its own."""
    one = Detection(
        held=held,
        asset_id=asset_id,
        position=NewPosition(
            source_identity='"source"', state=state, watermark=state, rows=RowDifferences(insert={held.version: 1})
        ),
        writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher=held.watcher, write_id="w"),
        events=[event(asset_id)],
    )
    async with database.transaction() as session:
        (answer,) = await detections.commit(session, [one], NO_HOOKS)
    if isinstance(answer, PositionLost):
        raise answer
    return answer.held


async def stopped(database: Database) -> None:
    async with database.transaction() as session:
        await positions.release(session, "t1")


async def rename(database: Database, old: str = "old", new: str = "new") -> rewind.Renamed:
    async with database.transaction() as session:
        return await rewind.rename(session, old, new, TABLES)


async def test_all_of_the_position_moves_with_what_people_asked_of_the_watcher(
    database: Database, asset_id: int
) -> None:
    held = await found(database, asset_id, (await started(database, "old")).held)
    async with database.transaction() as session:
        clear = RowDifferences(clear=True)
        to = NewPosition(source_identity='"source"', state='"back"', watermark='"back"', rows=clear)
        await rewind.rewind(session, "old", 1, to, database.dialect)
        await session.execute(update(watcher).values(paused=True))
    await stopped(database)

    moved = await rename(database)

    assert (moved.version, moved.watermark, moved.old_asset_id) == (3, '"back"', asset_id)
    await apply(database, declared(assets={"a": "test://a"}, watchers={"new": "a"}))
    [new, old] = await rows(database, watcher)
    assert (old["active"], new["active"], new["paused"]) == (False, True, True)
    now = await started(database, "new")
    assert (now.source_identity, now.state, now.rows, now.held.version) == ('"source"', '"back"', {}, 3)
    with pytest.raises(PositionLost):
        await found(database, asset_id, held)
    async with database.transaction() as session:
        await rewind.undo(session, "new")
    undone = await started(database, "new")
    assert (undone.state, undone.rows) == ('"here"', {0: 1})
    assert {row["watcher"] for row in await rows(database, watcher_position_row)} == {"new"}


async def test_event_ids_never_repeat_under_either_name(database: Database, asset_id: int) -> None:
    await found(database, asset_id, (await started(database, "old")).held)
    names = ("old", "new")
    for turn in range(4):
        here, there = names[turn % 2], names[1 - turn % 2]
        await stopped(database)
        await rename(database, here, there)
        fresh = await started(database, here)
        assert fresh.state is None
        await found(database, asset_id, (await started(database, there)).held)
    await found(database, asset_id, fresh.held)

    assert len(await rows(database, asset_event)) == 6


async def test_a_triggerer_that_has_just_begun_with_the_new_name_reads_the_moved_position(
    database: Database, asset_id: int
) -> None:
    await found(database, asset_id, (await started(database, "old")).held)
    await stopped(database)
    begun = (await started(database, "new")).held

    await rename(database)

    with pytest.raises(PositionLost):
        await found(database, asset_id, begun)
    assert (await started(database, "new")).state == '"here"'


async def test_a_position_that_is_watched_or_empty_is_not_renamed(database: Database, asset_id: int) -> None:
    begun = (await started(database, "old")).held
    for name in ("old", "nobody"):
        with pytest.raises(NotFound, match="no position"):
            await rename(database, name)

    await found(database, asset_id, begun)
    with pytest.raises(Conflict, match="still being watched"):
        await rename(database)
    async with database.transaction() as session:
        await session.execute(update(triggerer).values(expires_at=datetime.now(UTC) - timedelta(days=1)))
    await rename(database)


async def test_a_position_is_not_moved_over_another(database: Database, asset_id: int) -> None:
    for name in ("old", "new"):
        await found(database, asset_id, (await started(database, name)).held, state=f'"{name}"')
    await stopped(database)

    with pytest.raises(Conflict, match="new has a position already"):
        await rename(database)
    assert (await started(database, "new")).state == '"new"'


def filled(table: Table, asset_id: int, **values: Any) -> dict[str, Any]:
    """A row with something in every column but those that the database numbers."""
    of_type = {
        Boolean: True,
        Integer: 7,
        Float: 7.0,
        LargeBinary: b"x",
        UtcDateTime: datetime(2026, 11, 20, tzinfo=UTC),
    }
    some = {
        column.name: next((value for kind, value in of_type.items() if isinstance(column.type, kind)), "something")
        for column in table.c
        if not column.foreign_keys and column.autoincrement is not True
    }
    return {**some, **({"asset_id": asset_id} if "asset_id" in table.c else {}), **values}


async def test_every_table_does_at_a_rename_what_it_declares(database: Database, asset_id: int) -> None:
    """A new table that declares to follow a rename, and that nobody renames, fails here."""
    tables = TABLES
    follow = [(table, column, each) for table, column, rule in renamed(tables, Follows) for each in rule.suffixes]
    written = [(t, column) for t, column, rule in renamed(tables, NameRule) if column.endswith("watcher")]
    handed = [(table, column, rule) for table, column, rule in renamed(tables, HandedOver)]
    assert {table for table, _, _ in handed} == {watcher, watcher_position}
    rows_of_old = {}
    async with database.transaction() as session:
        await session.execute(insert(watcher_position).values(filled(watcher_position, asset_id, watcher="old")))
        await session.execute(update(watcher).values(paused=True))
        for table, column, suffix in follow:
            for name in ("old", "new"):
                event = filled(asset_event, asset_id, source_watcher="old", event_id=name + table.name + suffix)
                event_id = (
                    await session.execute(insert(asset_event).values(event).returning(asset_event.c.id))
                ).scalar()
                of_event = {"event_id": event_id} if "event_id" in table.c else {}
                await session.execute(
                    insert(table).values(filled(table, asset_id, **of_event, **{column: name + suffix}))
                )
        for table, column in written:
            await session.execute(insert(table).values(filled(table, asset_id, **{column: "old"})))
        for table, column, _ in handed:
            query = select(table).where(table.c[column] == "old")
            rows_of_old[table] = (await session.execute(query)).mappings().one()

    await rename(database)

    async with database.reading() as session:
        for table, column, suffix in follow:
            names = (await session.execute(select(table.c[column]))).scalars().all()
            assert names.count("new" + suffix) == 1, f"{table.name} declares to follow a rename, but was not renamed"
            assert names.count("old" + suffix) == 0, f"{table.name} declares to follow a rename, but was not renamed"
        for table, column in written:
            assert {*(await session.execute(select(table.c[column]))).scalars()} == {"old"}, table.name
        for table, column, rule in handed:
            by_name = {row[column]: row for row in (await session.execute(select(table))).mappings()}
            assert by_name.keys() == {"old", "new"}
            for name in rule.columns:
                assert by_name["new"][name] == rows_of_old[table][name], f"{table.name}.{name} was not handed over"
