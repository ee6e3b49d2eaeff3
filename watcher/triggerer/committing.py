"""Turns a trigger's batch into the one transaction that makes it durable."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import structlog

from store.base import AssetStoreWriterKind, Writer
from store.database import Database
from store.database.asset_events import NewEvent
from store.detection import detections
from store.detection.detections import Detection
from store.detection.interest import EventHooks
from store.detection.position_rows import RowDifferences
from store.detection.positions import HeldPosition, LoadedPosition, NewPosition
from store.detection.sketches import LIMITLESS, sketch_of
from store.keys import Wake
from store.values import check_partition_key, to_json
from triggers.base import JsonValue, Position, RowChanges, StoredPosition, TriggerBatch, TriggerEvent
from triggers.errors import ConfigurationError
from watcher.triggerer.clients import Hosted
from watcher.triggerer.group_commit import GroupCommit, traces_of
from watcher.triggerer.open_triggers import OpenTrigger
from watcher.triggerer.rejected_items import as_items, as_rejections

if TYPE_CHECKING:
    from watcher.host.metrics import Metrics

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Committer:
    """Commits batches, those of many watchers together: first the position (the fence), then everything that follows from it.

    `hooks` take part in the commits. `on_watermark` is called with each watermark entry that was written, `on_events` with the
    jobs that got queue rows, `on_wakes` with whom the hooks wake.
    """

    database: Database
    metrics: Metrics
    hooks: EventHooks
    on_events: Callable[[frozenset[str]], None]
    on_watermark: Callable[[int, str], None] = lambda _asset_id, _key: None
    on_wakes: Callable[[frozenset[Wake]], None] = lambda _wakes: None

    def __post_init__(self) -> None:
        self._group = GroupCommit(self.database, self.hooks)
        self.log = log.bind()  # a logger of a module is made anew for each record

    async def commit(
        self, hosted: Hosted, held: HeldPosition, identity: str, batch: TriggerBatch, ends_undo: str | None = None
    ) -> HeldPosition:
        """Commit a batch and return the position as it is now held. `ends_undo`: why a rewind can no longer be undone.

        Raises `PositionLost` when another process or a person moved the position, and `CommitUnknown` when the connection
        broke during COMMIT. Either way the position must be read again.
        """
        if not isinstance(batch, TriggerBatch):
            raise ConfigurationError(
                f"the trigger yielded a {type(batch).__name__}; correct it to yield `TriggerBatch`es"
            )
        if batch.position is None:
            return held
        position = new_position(identity, batch.position, hosted.trigger.format)
        if batch.position.silent:
            async with self.database.transaction() as connection:
                return await detections.keep(connection, held, position)
        write_id = secrets.token_hex(16)
        detection = _detection(hosted, held, position, batch, write_id, ends_undo)
        committed = await self._group.commit(detection)
        items, events = sum(event.count for event in batch.events), len(batch.events)
        about = {"key": detection.key, "events": events, "items": items, **traces_of(detection)}
        self.log.info("store.written", write_id=write_id, **about)
        self.on_watermark(hosted.asset_id, detection.key)
        if committed.dag_ids:
            self.on_events(committed.dag_ids)
        if committed.wakes:
            self.on_wakes(committed.wakes)
        newest = detection.events[-1].trace_id if events else None
        self.metrics.count_writes(AssetStoreWriterKind.WATCHER, 1, newest)
        for asset, given in groupby(batch.events, key=attrgetter("asset")):
            counts = [event.count for event in given]
            self.metrics.count_events((hosted.name, asset or hosted.asset), len(counts), sum(counts), newest)
        for item in batch.rejected:
            self.log.warning("watcher.rejected", write_id=write_id, **vars(item))
        self.metrics.count_rejected((hosted.name, hosted.asset), len(batch.rejected))
        return committed.held


def _detection(
    hosted: Hosted, held: HeldPosition, position: NewPosition, batch: TriggerBatch, write_id: str, ends_undo: str | None
) -> Detection:
    return Detection(
        held=held,
        asset_id=hosted.asset_id,
        position=position,
        writer=Writer(kind=AssetStoreWriterKind.WATCHER, watcher=hosted.name, write_id=write_id),
        events=_events(hosted, held.version + 1, batch.events),
        rejected=as_rejections(batch.rejected),
        settled=as_rejections(batch.settled),
        ends_undo=ends_undo,
    )


def _row_differences(changes: RowChanges) -> RowDifferences:
    return RowDifferences(
        clear=changes.clear,
        delete_below=changes.delete_below,
        delete=changes.delete,
        insert=changes.insert,
        delete_chunks_below=changes.delete_chunks_below,
        chunks=changes.chunks,
    )


def new_position(identity: str, position: Position, format_: int) -> NewPosition:
    """Return a position as it is stored. `identity` comes from `identity_json`, `format_` from the trigger's class."""
    return NewPosition(
        source_identity=identity,
        format=format_,
        state=to_json(position.state),
        watermark=to_json(position.watermark),
        rows=_row_differences(position.rows),
    )


def stored(loaded: LoadedPosition) -> StoredPosition | None:
    """Return a position as its trigger takes it; None before there was any."""
    if loaded.state is None:
        return None
    rejected, retried = as_items(loaded.rejected), as_items(each for each in loaded.rejected if each.is_retried)
    return StoredPosition(
        state=json.loads(loaded.state), rows=loaded.rows, rejected=rejected, retried=retried, chunks=loaded.chunks
    )


def kept(loaded: LoadedPosition) -> StoredPosition | None:
    """Return the position before a rewind, as its trigger takes it, while the rewind can be undone. Its state may be empty."""
    if loaded.kept is None:
        return None
    return StoredPosition(state=json.loads(loaded.kept.state or "{}"), rows=loaded.kept.rows)


def _events(hosted: Hosted, version: int, events: Sequence[TriggerEvent]) -> list[NewEvent]:
    limits, size, new = None if hosted.divides else hosted.limits, 0, []
    if limits is not None:
        limits.check_events(len(events))
    for index, event in enumerate(events):
        new.append(_event(hosted, version, index, event))
        size += len(new[-1].extra)
        if limits is not None:
            limits.check_bytes(size)
    return new


def _event(hosted: Hosted, version: int, index: int, event: TriggerEvent) -> NewEvent:
    if not isinstance(event, TriggerEvent):
        raise ConfigurationError(
            f"the trigger yielded a {type(event).__name__} as an event; correct it to yield `TriggerEvent`s"
        )
    event_id = hashlib.sha256(f"{hosted.name}\n{version}\n{index}".encode()).hexdigest()
    extra: dict[str, Any] = {
        "watcher": hosted.name,
        "event_id": event_id,
        "count": event.count,
        "watermark": event.watermark,
        **event.payload,
    }
    sketch = sketch_of(event.payload) if hosted.divides else LIMITLESS
    return NewEvent(
        asset_id=_asset_id(hosted, event.asset),
        extra=to_json(extra),
        trace_id=secrets.token_hex(16),
        event_id=event_id,
        source_watcher=hosted.name,
        partition_key=None if event.partition_key is None else check_partition_key(event.partition_key),
        sketch_low=sketch.low,
        sketch_high=sketch.high,
        sketch_bits=sketch.bits,
        sketch_more_bits=sketch.more_bits,
    )


def _asset_id(hosted: Hosted, asset: str | None) -> int:
    if asset is None:
        return hosted.asset_id
    if asset not in hosted.further_assets:
        raise ConfigurationError(
            f"the trigger yielded an event of the asset {asset!r}, which is not among the `further_assets` of its options;"
            " correct the trigger, or the watcher's `assets`"
        )
    return hosted.further_assets[asset]


async def identity_of(trigger: OpenTrigger, loaded: LoadedPosition | None) -> str:
    """Return the identity of a trigger's source: the position's, if the trigger recognizes its source there."""
    own = identity_json(trigger.source_identity())
    before = own if loaded is None or loaded.source_identity is None else loaded.source_identity
    return before if before == own or await trigger.recognizes(json.loads(before)) else own


def identity_json(identity: JsonValue) -> str:
    """Return a source's identity as canonical JSON, as it is stored and compared."""
    return json.dumps(identity, sort_keys=True)


def end_of_undo(trigger: OpenTrigger, kept: StoredPosition | None, batch: TriggerBatch) -> str | None:
    """Return why the last rewind cannot be undone any more once this batch is committed, or None.

    `kept` is the position to which an undo returns.
    """
    if kept is None or not (batch.events or batch.rejected):
        return None
    if is_retold := trigger.retold(kept, batch):
        return None
    return _emitted_since(batch, knows=is_retold is not None)


def _emitted_since(batch: TriggerBatch, *, knows: bool) -> str:
    """Return why an undo would repeat something. `knows`: the trigger knows that not all of it was emitted before."""
    items, events, aside = sum(event.count for event in batch.events), len(batch.events), len(batch.rejected)
    parts = [f"{items:,} item{'s' * (items != 1)} in {events:,} event{'s' * (events != 1)}"] if events else []
    parts += [f"{aside:,} rejected"] if aside else []
    upto = f", up to {json.dumps(batch.events[-1].watermark.get('to'))}" if events else ""
    which = (
        "not all of them were emitted before it"
        if knows
        else "its trigger does not say whether they were emitted before it"
    )
    return f"since then it emitted {' and '.join(parts)}{upto}; {which}, and an undo would emit those again"
