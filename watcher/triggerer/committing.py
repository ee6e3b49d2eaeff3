"""From a trigger's batch to the one transaction that makes it true."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from store.base import AssetStoreWriterKind, Writer
from store.database import Database
from store.detection import detections
from store.detection.detections import Detection
from store.detection.events import NewEvent
from store.detection.positions import HeldPosition, LoadedPosition, NewPosition, RowDifferences
from store.errors import PositionLost
from store.values import to_json
from triggers.base import JsonValue, Position, StoredPosition, TriggerBatch, TriggerEvent
from watcher.metrics import Metrics
from watcher.triggerer.clients import Hosted

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Committer:
    """Commits batches: the position first (the fence), then everything it makes true.

    `on_watermark` is called with each watermark entry that was written, `on_events` with the jobs that got queue rows.
    """

    database: Database
    metrics: Metrics
    on_events: Callable[[frozenset[str]], None]
    on_watermark: Callable[[int, str], None] = lambda _asset_id, _key: None

    async def commit(self, hosted: Hosted, held: HeldPosition, identity: str, batch: TriggerBatch) -> HeldPosition:
        """Returns the position as it is now held.

        Raises `PositionLost` when somebody else moved it, `CommitUnknown` when the connection broke during COMMIT:
        either way the position must be read again.
        """
        if batch.position is None:
            return held
        write_id = uuid.uuid4().hex
        detection = _detection(hosted, held, identity, batch, batch.position, write_id)
        entry = {"write_id": write_id, "key": detection.key}
        async with self.database.transaction() as connection:
            (committed,) = await detections.commit(connection, [detection])
            if isinstance(committed, PositionLost):
                raise committed
            log.info("store.writing", events=len(batch.events), position_version=committed.held.version, **entry)
        log.info("store.written", **entry)
        self.on_watermark(hosted.asset_id, detection.key)
        if committed.dag_ids:
            self.on_events(committed.dag_ids)
        self._count(hosted, batch)
        return committed.held

    def _count(self, hosted: Hosted, batch: TriggerBatch) -> None:
        self.metrics.store_writes.labels(AssetStoreWriterKind.WATCHER.value).inc()
        self.metrics.events.labels(hosted.name, hosted.asset).inc(len(batch.events))
        self.metrics.items.labels(hosted.name, hosted.asset).inc(sum(event.count for event in batch.events))


def _detection(
    hosted: Hosted, held: HeldPosition, identity: str, batch: TriggerBatch, position: Position, write_id: str
) -> Detection:
    return Detection(
        held=held,
        asset_id=hosted.asset_id,
        position=new_position(identity, position),
        writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher=hosted.name, write_id=write_id),
        events=[_event(hosted, held.version + 1, index, event) for index, event in enumerate(batch.events)],
    )


def new_position(identity: str, position: Position) -> NewPosition:
    """As it is stored; `identity` is the source's, as `identity_json` gives it."""
    return NewPosition(
        source_identity=identity,
        state=to_json(position.state),
        watermark=to_json(position.watermark),
        rows=RowDifferences(**vars(position.rows)),
    )


def stored(loaded: LoadedPosition) -> StoredPosition | None:
    """A position as its trigger takes it; None before there was any."""
    return None if loaded.state is None else StoredPosition(state=json.loads(loaded.state), rows=loaded.rows)


def _event(hosted: Hosted, version: int, index: int, event: TriggerEvent) -> NewEvent:
    event_id = hashlib.sha256(f"{hosted.name}\n{version}\n{index}".encode()).hexdigest()
    extra: dict[str, Any] = {
        "watcher": hosted.name,
        "event_id": event_id,
        "count": event.count,
        "watermark": event.watermark,
        **event.payload,
    }
    return NewEvent(
        asset_id=hosted.asset_id,
        extra=to_json(extra),
        trace_id=uuid.uuid4().hex,
        event_id=event_id,
        source_watcher=hosted.name,
    )


def identity_json(identity: JsonValue) -> str:
    """A source's identity as it is stored and compared: canonical JSON."""
    return json.dumps(identity, sort_keys=True)
