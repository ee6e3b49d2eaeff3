"""A database where something of everything is there, for statements that are measured or explained."""

from __future__ import annotations

from dataclasses import dataclass

from store.base import AssetScope, AssetStoreWriterKind, Writer
from store.database import Database
from store.detection import positions
from store.detection.detections import Detection
from store.detection.positions import HeldPosition, NewPosition
from store.keys import AssetRef
from store.metastore import MetastoreStoreBackend
from store.runs import runs
from store.runs.tries import startable, tries
from store.state.attributed import AttributedEntries
from tests.service.store.words import append, apply, beat, declared, event


@dataclass(frozen=True, kw_only=True)
class World:
    """A database where something of everything is there."""

    database: Database
    backend: MetastoreStoreBackend
    asset_id: int
    held: HeldPosition
    task_instance_id: str

    @property
    def ref(self) -> AssetRef:
        return AssetRef(id=self.asset_id, name="a", uri="test://a")

    @property
    def entries(self) -> AttributedEntries:
        return AttributedEntries(self.database.dialect)

    @property
    def asset(self) -> AssetScope:
        return AssetScope(asset_id=self.asset_id)

    def found(self, events: int = 0) -> Detection:
        return Detection(
            held=self.held,
            asset_id=self.asset_id,
            position=NewPosition(source_identity="{}", state="{}", watermark="{}"),
            writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher="files", write_id="w"),
            events=[event(self.asset_id) for _ in range(events)],
        )


async def small_world(database: Database) -> World:
    """The database, with an asset, a watcher that is claimed, a queued event, an entry, and a try that is about to start."""
    wanted = declared(assets={"a": "test://a"}, watchers={"files": "a"}, jobs={"load": ["a"]})
    asset_id = (await apply(database, wanted)).asset_ids["a"]
    await beat(database, "t1")
    await append(database, [event(asset_id)])
    backend = MetastoreStoreBackend(database)
    await backend.aset(AssetScope(asset_id=asset_id), "key", "1")
    async with database.transaction() as session:
        loaded = await positions.claim(session, "files", "t1", database.dialect)
        assert loaded is not None
        await runs.create_run(session, "load", "r", "load", triggered_by="cli", conf="{}", note=None)
        (task,) = await startable.next_startable(session)
        await tries.commit_intent(session, task, home_id="home", tag="tag", token_hash="h")
    return World(
        database=database,
        backend=backend,
        asset_id=asset_id,
        held=loaded.held,
        task_instance_id=task.key.task_instance_id,
    )
