"""Watchers that detect as fast as they can, for tests of group commits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from structlog.contextvars import bound_contextvars

from store.base import AssetStoreWriterKind, Writer
from store.database import Database
from store.database.asset_events import NewEvent
from store.detection import positions
from store.detection.detections import Detection
from store.detection.interest import NO_HOOKS
from store.detection.position_rows import RowDifferences
from store.detection.positions import HeldPosition, NewPosition
from store.errors import PositionLost
from tests.service.store.words import apply, beat, declared
from watcher.triggerer.group_commit import GroupCommit

OWNER = "t1"


@dataclass(kw_only=True)
class Detector:
    """A watcher of an asset of its own. Its position is the number of its events, and each event has its number."""

    name: str
    asset_id: int
    held: HeldPosition
    number: int

    def detection(self, *, event_id: str | None = None, asset_id: int | None = None) -> Detection:
        told = self.number + 1
        new = NewEvent(
            asset_id=asset_id or self.asset_id,
            extra=f'{{"number": {told}}}',
            trace_id="t",
            event_id=event_id or f"{self.name}-{told}",
            source_watcher=self.name,
        )
        return Detection(
            held=self.held,
            asset_id=asset_id or self.asset_id,
            position=NewPosition(
                source_identity="{}", state=str(told), watermark=str(told), rows=RowDifferences(insert={told: told})
            ),
            writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher=self.name, write_id=f"{self.name}-{told}"),
            events=[new],
        )

    async def detect(self, group: GroupCommit) -> None:
        with bound_contextvars(watcher=self.name):
            committed = await group.commit(self.detection())
        self.held, self.number = committed.held, self.number + 1


async def detectors(database: Database, count: int) -> Sequence[Detector]:
    """Return this number of detectors, which continue at their positions. One job waits for all their assets."""
    names = [f"w{number:03}" for number in range(count)]
    configured = declared(
        assets={name: f"test://{name}" for name in names}, watchers={name: name for name in names}, jobs={"load": names}
    )
    ids = (await apply(database, configured)).asset_ids
    await beat(database, OWNER)
    return [await detector(database, name, ids[name]) for name in names]


async def detector(database: Database, name: str, asset_id: int) -> Detector:
    async with database.transaction() as connection:
        loaded = await positions.claim(connection, name, OWNER, database.dialect)
    assert loaded is not None
    return Detector(name=name, asset_id=asset_id, held=loaded.held, number=int(loaded.state or 0))


async def detect_for_ever(url: str, count: int) -> None:
    """The program of the process that is killed."""
    async with Database.open(url) as database:
        group = GroupCommit(database, NO_HOOKS)

        async def run(one: Detector) -> None:
            while True:
                try:
                    await one.detect(group)
                except PositionLost:
                    return
                print(one.number, flush=True)  # noqa: T201  the test waits for it before it kills the process

        async with anyio.create_task_group() as tasks:
            for one in await detectors(database, count):
                tasks.start_soon(run, one)


if __name__ == "__main__":
    anyio.run(detect_for_ever, sys.argv[1], int(sys.argv[2]))
