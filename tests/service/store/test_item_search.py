"""Whichever sketches events have, a search for an item finds the newest of those that name it."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from store.database import Database
from store.database.asset_events import NewEvent
from store.database.schema import asset_event
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.detection.sketches import LIMITLESS, Sketch, microseconds, sketch_of
from store.features.explain import item_search, item_sketches
from store.features.explain.item_search import ItemName
from store.metastore import MetastoreStoreBackend
from store.processes.cleanup import Retention
from tests.databases import on_both
from tests.features import CHORES
from tests.service.store.words import apply, declared
from watcher.operations.cleanup import Cleaner, CleanupLimits

NONE = Sketch()


def time_of(place: int) -> str:
    return f"2026-01-01T00:{place // 60:02}:{place % 60:02}Z"


def files(names: list[str], place: int) -> dict[str, Any]:
    return {"files": [{"key": name, "size": 1, "last_modified": time_of(place)} for name in names], "count": len(names)}


async def store(
    database: Database,
    asset_id: int,
    payload: dict[str, Any],
    sketch: Sketch | None = None,
    watcher: str | None = "files",
) -> int:
    """Store an event, with the sketch that belongs to it or with another."""
    low, high, bits, more_bits = sketch_of(payload) if sketch is None else sketch
    new = NewEvent(
        asset_id=asset_id,
        extra=json.dumps(payload),
        trace_id="0" * 32,
        source_watcher=watcher,
        sketch_low=low,
        sketch_high=high,
        sketch_bits=bits,
        sketch_more_bits=more_bits,
    )
    async with database.transaction() as connection:
        return (await events.append(connection, [new], origin=EventOrigin.POST, hooks=NO_HOOKS)).rows[0][0]


async def found(database: Database, asset_id: int, name: Any, place: int | None = None) -> list[int]:
    number = None if place is None else microseconds(time_of(place))
    item = ItemName(watcher="files", asset_ids=[asset_id], name=name, number=number)
    async with database.reading() as connection:
        return [event.id for event in (await item_search.events_naming(connection, item)).events]


async def ids_of(database: Database) -> dict[str, int]:
    given = declared(assets={"files": "x://files", "rows": "x://rows"}, watchers={"files": "files", "rows": "rows"})
    return dict((await apply(database, given)).asset_ids)


@on_both
@pytest.mark.parametrize("is_old", [False, True], ids=["with sketches", "of older releases"])
async def test_a_search_finds_what_reading_all_events_finds(database: Database, is_old: bool) -> None:
    asset_id, seed = (await ids_of(database))["files"], random.Random(5)
    pool = [f"in/{number}.csv" for number in range(60)]
    naming: dict[str, list[int]] = {name: [] for name in pool}
    for place in range(40):
        names = seed.sample(pool, seed.choice([1, 2, 5, 20, 45]))
        form = {"keys": names} if place % 9 == 0 else files(names, place)
        if is_old:
            sketch = (
                NONE if place % 2 else Sketch(bits=sketch_of({"keys": names[:30]}).bits) if len(names) <= 30 else NONE
            )
        else:
            sketch = LIMITLESS if place % 7 == 0 else None
        event_id = await store(database, asset_id, form, sketch)
        for name in names:
            naming[name].insert(0, event_id)
        await store(database, asset_id, files(names, place), watcher=None)  # a person's event names nothing
    for name, ids in naming.items():
        assert await found(database, asset_id, name) == ids[: item_search.MOST_EVENTS]
    assert await found(database, asset_id, "in/other.csv") == []


@on_both
async def test_the_newest_event_of_a_replaced_file_is_found_though_it_is_large(database: Database) -> None:
    asset_id = (await ids_of(database))["files"]
    many = [f"in/{number}.csv" for number in range(100)]
    first = await store(database, asset_id, files(["in/1.csv"], 1))
    second = await store(database, asset_id, files(many, 5))
    assert await found(database, asset_id, "in/1.csv") == [second, first]
    assert await found(database, asset_id, "in/1.csv", 99) == [second, first]
    assert await found(database, asset_id, "in/1.csv", 5) == [second, first]
    assert await found(database, asset_id, "in/1.csv", 1) == [first]


@on_both
async def test_the_clean_up_makes_the_sketches_of_events_of_older_releases(database: Database, tmp_path: Path) -> None:
    ids = await ids_of(database)
    payloads = [
        (ids["files"], files(["in/a.csv", "in/b.csv"], 1), "files"),
        (ids["files"], files([f"in/{number}.csv" for number in range(100)], 2), "files"),
        (ids["rows"], {"ranges": [[3, 9]], "count": 7}, "rows"),
        (ids["rows"], {"says": "anything"}, None),
        (ids["rows"], {"files": [1, 2]}, "plugin"),
    ]
    for asset_id, payload, watcher in payloads:
        await store(database, asset_id, payload, NONE, watcher)
    retention = Retention(task_days=30, history_days=90, event_days=90, run_days=90, orphan_days=30)
    limits = CleanupLimits(retention=retention, logs=timedelta(days=30), batch_size=0)
    await Cleaner(database, MetastoreStoreBackend(database), tmp_path, tmp_path, limits, (), CHORES).clean()
    async with database.reading() as connection:
        e = asset_event.c
        columns = (e.sketch_low, e.sketch_high, e.sketch_bits, e.sketch_more_bits)
        rows = (await connection.execute(select(*columns).order_by(e.id))).all()
    of_shipped = [tuple(sketch_of(payload)) for _, payload, _ in payloads[:3]]
    assert [tuple(row) for row in rows] == [*of_shipped, tuple(Sketch(bits=0)), tuple(LIMITLESS)]
    assert await found(database, ids["files"], "in/b.csv") != []
    async with database.transaction() as connection:
        await connection.execute(update(asset_event).values(extra="not read again"))
        assert await item_sketches.make(connection) == 0
