"""What cannot be told is kept aside in the transaction of the position that passes it, and is settled in that of its event."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from store.base import AssetStoreWriterKind, Writer
from store.database import Database
from store.database.paging import PageRequest
from store.detection import detections, positions, rejections, rewind
from store.detection.detections import Committed, Detection
from store.detection.interest import NO_HOOKS
from store.detection.positions import LoadedPosition, NewPosition
from store.detection.rejections import Rejection
from store.errors import PositionLost
from tests.features import TABLES
from tests.service.store.words import apply, beat, declared, event

BAD = [
    Rejection(key=str(number), version="7", column_name="data", code="22012", reason="x" * 300) for number in (1, 2, 3)
]


@pytest.fixture
async def asset_id(database: Database) -> int:
    await beat(database, "t1")
    return (await apply(database, declared(assets={"a": "test://a"}, watchers={"rows": "a", "new": "a"}))).asset_ids[
        "a"
    ]


async def loaded(database: Database, name: str = "rows") -> LoadedPosition:
    async with database.statements() as connection:
        position = await positions.claim(connection, name, "t1", database.dialect)
    assert position is not None
    return position


async def commit(database: Database, asset_id: int, at: LoadedPosition, **changes: Any) -> Any:
    detection = Detection(
        held=at.held,
        asset_id=asset_id,
        position=NewPosition(source_identity='"s"', state='{"n": 1}', watermark='{"up_to": 1}'),
        writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher=at.held.watcher, write_id="w1"),
        events=[event(asset_id, source_watcher="rows")],
    )
    async with database.transaction() as connection:
        [answer] = await detections.commit(connection, [replace(detection, **changes)], NO_HOOKS)
    return answer


async def retry(database: Database) -> int:
    async with database.transaction() as connection:
        return await rejections.retry(connection, "rows")


async def test_rejected_items_are_stored_with_the_position_retried_and_settled_with_an_event(
    database: Database, asset_id: int
) -> None:
    assert await retry(database) == 0
    answer = await commit(database, asset_id, await loaded(database), rejected=[*BAD, BAD[0]])
    assert isinstance(answer, Committed)
    position = await loaded(database)
    assert {each.key for each in position.rejected} == {"1", "2", "3"}
    assert not any(each.is_retried for each in position.rejected)
    async with database.reading() as connection:
        page = await rejections.listed(connection, "rows", PageRequest(limit=2))
    assert (page.total, [(row.code, row.column_name, row.reason) for row in page.rows]) == (
        3,
        [("22012", "data", "x" * 200)] * 2,
    )

    assert await retry(database) == 3
    assert isinstance(await commit(database, asset_id, position, settled=BAD), PositionLost)  # it read before the retry
    position = await loaded(database)
    assert (len(position.rejected), all(each.is_retried for each in position.rejected)) == (3, True)
    still = replace(BAD[1], code="", reason="still")
    await commit(database, asset_id, position, settled=[BAD[0]], rejected=[still])
    left = {each.key: each for each in (await loaded(database)).rejected}
    assert left.keys() == {"2", "3"}
    assert (left["2"].reason, left["2"].is_retried, left["3"].is_retried) == ("still", False, True)


async def test_a_lost_position_rejects_and_settles_nothing(database: Database, asset_id: int) -> None:
    first = await loaded(database)
    await commit(database, asset_id, first, rejected=BAD[:1])
    assert isinstance(await commit(database, asset_id, first, rejected=BAD[1:], settled=BAD[:1]), PositionLost)
    assert [each.key for each in (await loaded(database)).rejected] == ["1"]


async def test_rejected_items_follow_the_position_to_another_name(database: Database, asset_id: int) -> None:
    await commit(database, asset_id, await loaded(database), rejected=BAD)
    async with database.transaction() as connection:
        await positions.release(connection, "t1")
        await rewind.rename(connection, "rows", "new", TABLES)
    assert len((await loaded(database, "new")).rejected) == 3
    assert (await loaded(database)).rejected == ()
