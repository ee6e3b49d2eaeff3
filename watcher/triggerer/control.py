"""What people do to a watcher's position: preview a poll, rewind, undo, rename."""

from __future__ import annotations

import json
import math
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final, TypeAlias

import anyio
import structlog
from anyio.lowlevel import checkpoint
from sqlalchemy import Table
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetStoreWriterKind, Writer
from store.catalog import assets
from store.database import Database
from store.detection import positions, rewind
from store.detection.positions import LoadedPosition
from store.errors import Conflict, InvalidValue, NotFound, no_watcher
from store.keys import Batching
from store.processes import audit
from store.runs import jobs
from store.state.attributed import AttributedEntries
from store.state.entries import EntryChange
from store.values import WATERMARK_SUFFIX
from triggers.base import Position, StoredPosition, TriggerEvent, refuse_errors
from triggers.errors import SourceUnavailable
from triggers.hosting import UNRESOLVED, KnowsPlaces, RewindPlace
from watcher.host.loops import Hint
from watcher.triggerer.clients import Clients, Hosted, open_trigger
from watcher.triggerer.committing import identity_of, new_position, stored
from watcher.triggerer.open_triggers import OpenTrigger
from watcher.triggerer.source_change import undecided

MOST_SHOWN: Final = 100
"""The largest number of events that a dry run shows. The rest is only counted."""

HERE: Final = "here"
"""Where a person rewinds a watcher to that goes on where it stood, with another selection."""

NO_UNDO: Final = "the source forgets what lies before the new position"
"""Why a rewind to a final position cannot be undone."""

CountCleaned: TypeAlias = Callable[[AsyncConnection, str, str], Awaitable[int]]
"""Returns how many files that a watcher reported since a place were moved or deleted."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a poll would find: the numbers of items and events, the first events, and the numbers of runs by job."""

    items: int
    events: int
    shown: Sequence[Mapping[str, Any]]
    runs: Mapping[str, int]
    cleaned: int = 0
    """Before a rewind: how many files that were reported since that place were moved or deleted, and come no more."""


@dataclass(frozen=True, kw_only=True)
class MovedPosition:
    """A position that a person moved."""

    version: int
    watermark: Any


@dataclass(frozen=True, kw_only=True)
class UndoneRewind(MovedPosition):
    """An undone rewind. `events` counts those emitted between the rewind and its undo: they stay, and their runs run."""

    events: int


@dataclass(frozen=True, kw_only=True)
class _Move:
    """What a person does to a position. `detail` is for the audit."""

    action: str
    watcher: str
    actor: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    write_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def writer(self) -> Writer:
        return Writer(kind=AssetStoreWriterKind.API, actor=self.actor, write_id=self.write_id)


@dataclass(frozen=True, kw_only=True)
class Control:
    """Moves the positions of the configured watchers.

    `hint` is called when a watcher's position has moved, `on_watermark` with the entry that was written. `count_cleaned` says
    how many files a rewind cannot bring back; None: all.
    """

    database: Database
    hosted: Mapping[str, Hosted]
    clients: Clients
    tables: Sequence[Table]
    """The tables whose rows a rename may concern."""
    poll_timeout: timedelta
    hint: Callable[[Hint], None] = field(default=lambda _hint: None)
    on_watermark: Callable[[int, str], None] = field(default=lambda _asset_id, _key: None)
    count_cleaned: CountCleaned | None = None

    async def dry_run(self, name: str) -> Preview:
        """Return what the next poll would emit. Commits nothing. Raises `NotFound`, `InvalidValue`, or what the source raises."""
        async with self._checked(name) as (trigger, loaded, _):
            return await self._preview(trigger, None if loaded is None else stored(loaded))

    async def undecided(self, names: Iterable[str]) -> Mapping[str, str]:
        """Return what people must decide about those of the watchers whose selection changed, by name; takes some seconds."""
        hosted = [self.hosted[name] for name in names if name in self.hosted]
        return await undecided(hosted, self.clients, self.database, self.poll_timeout)

    def rewind_places(self, name: str) -> Sequence[RewindPlace]:
        """Return the places that a rewind of this watcher knows; none if people have to write one."""
        hosted = self.hosted.get(name)
        options: object = None if hosted is None else hosted.options
        return options.rewind_places() if isinstance(options, KnowsPlaces) else ()

    async def preview(self, name: str, to: str) -> Preview:
        """Return what the first poll after a rewind would emit. Changes nothing."""
        async with self._checked(name) as (trigger, loaded, identity):
            position = await trigger.rewound(await _continued(trigger, loaded, identity, to), to)
            preview = await self._preview(trigger, _applied(position, loaded))
        if self.count_cleaned is None:
            return preview
        async with self.database.reading() as connection:
            return replace(preview, cleaned=await self.count_cleaned(connection, name, to))

    async def rewind(self, name: str, to: str, actor: str) -> MovedPosition:
        """Move the position. The running watcher continues from there. Raises `Conflict` when it moved meanwhile."""
        async with self._checked(name) as (trigger, loaded, identity):
            if loaded is None:
                raise Conflict(f"{name} has no position yet; let it start once, or change its `start`")
            place = await trigger.rewound(await _continued(trigger, loaded, identity, to), to)
            position = new_position(identity, place, self.hosted[name].trigger.format)
        move = _Move(action="watcher.rewind", watcher=name, actor=actor, detail={"to": to})
        async with self.database.transaction() as connection:
            version = await rewind.rewind(connection, name, loaded.held.version, position, self.database.dialect)
            if place.is_final:
                await rewind.end_undo(connection, name, NO_UNDO)
            await self._record(connection, move, position.watermark)
        return self._moved(move, version, position.watermark, to=to)

    async def undo(self, name: str, actor: str) -> UndoneRewind:
        """Undo the last rewind. Raises `Conflict`, with the reason, once an undo would emit something again."""
        self.known(name)
        async with self.database.transaction() as connection:
            undone = await rewind.undo(connection, name)
            detail = {"events": undone.events}
            move = _Move(action="watcher.rewind_undo", watcher=name, actor=actor, detail=detail)
            await self._record(connection, move, undone.watermark)
        moved = self._moved(move, undone.version, undone.watermark)
        return UndoneRewind(version=moved.version, watermark=moved.watermark, events=undone.events)

    async def resolve(self, name: str, actor: str) -> int:
        """Drop the findings that stand until a person has read them, and return how many. Raises `Conflict` if there are none.

        The running watcher continues from the position's new version, at the same place.
        """
        self.known(name)
        async with self.database.transaction() as connection:
            unresolved = await rewind.resolve(connection, name, UNRESOLVED)
            if not unresolved:
                raise Conflict(f"{name} has no finding that stands until it is resolved")
            await audit.record(connection, actor, "watcher.resolve", name, {"findings": unresolved}, uuid.uuid4().hex)
        log.info("watcher.resolve", watcher=name, actor=actor, findings=unresolved)
        self.hint(Hint(what="watchers", names=frozenset({name})))
        return unresolved

    async def rename(self, old: str, new: str, actor: str) -> MovedPosition:
        """Let a watcher continue under another name from its old position. Raises `NotFound`, `Conflict`."""
        if new not in self.hosted:
            raise NotFound(
                f"no watcher {new!r} is configured; give the watcher its new name in the configuration first"
            )
        if old in self.hosted:
            raise Conflict(f"{old} is still configured; take it out of the configuration first")
        move = _Move(action="watcher.rename", watcher=new, actor=actor, detail={"from": old})
        async with self.database.transaction() as connection:
            moved = await rewind.rename(connection, old, new, self.tables)
            if moved.old_asset_id is not None:
                await self._write(connection, moved.old_asset_id, old, None, move.writer)
            await self._record(connection, move, moved.watermark)
        return self._moved(move, moved.version, moved.watermark, old=old)

    async def _record(self, connection: AsyncConnection, move: _Move, watermark: str | None) -> None:
        await audit.record(connection, move.actor, move.action, move.watcher, move.detail, move.write_id)
        asset_id = self.hosted[move.watcher].asset_id
        if watermark is not None and asset_id:  # a command may know an asset before the database does
            await self._write(connection, asset_id, move.watcher, watermark, move.writer)

    async def _write(
        self, connection: AsyncConnection, asset_id: int, watcher: str, watermark: str | None, writer: Writer
    ) -> None:
        """Write a watermark entry to the metadata database, whatever backend is configured."""
        asset = await assets.ref_of(connection, asset_id)
        change = EntryChange(asset=asset, key=watcher + WATERMARK_SUFFIX, value=watermark, writer=writer)
        await AttributedEntries(self.database.dialect).apply(connection, change)

    def _moved(self, move: _Move, version: int, watermark: str | None, **what: str) -> MovedPosition:
        """Log a move and notify the copies and the watcher of it. Call it after COMMIT."""
        name, who = move.watcher, {"actor": move.actor, "write_id": move.write_id}
        self.on_watermark(self.hosted[name].asset_id, name + WATERMARK_SUFFIX)
        log.info(move.action, watcher=name, position_version=version, **what, **who)
        self.hint(Hint(what="watchers", names=frozenset({name})))
        return MovedPosition(version=version, watermark=None if watermark is None else json.loads(watermark))

    def known(self, name: str) -> Hosted:
        """Return a configured watcher. Raises `NotFound`."""
        if name not in self.hosted:
            raise no_watcher(name)
        return self.hosted[name]

    @asynccontextmanager
    async def _checked(self, name: str) -> AsyncIterator[tuple[OpenTrigger, LoadedPosition | None, str]]:
        """Open a trigger of its own, check it, and read the present position.

        Raises `SourceUnavailable` when the whole block takes longer than `poll_timeout`: the caller may be gone by then.
        """
        hosted, seconds = self.known(name), self.poll_timeout.total_seconds()
        with anyio.move_on_after(seconds) as scope:
            made = open_trigger(hosted, self.clients, self.poll_timeout, has_position=True, dry_run=True)
            async with made as trigger:  # a preview commits nothing, and only a position is rewound
                refuse_errors(await trigger.check())
                async with self.database.reading() as connection:
                    loaded = await positions.read(connection, name)
                yield trigger, loaded, await identity_of(trigger, loaded)
        if scope.cancelled_caught:
            raise SourceUnavailable(
                f"{name} did not answer within {seconds:g} s; find out why the source is slow or how much it has to report, "
                "or raise settings.triggerer.poll_timeout"
            )

    async def _preview(self, trigger: OpenTrigger, position: StoredPosition | None) -> Preview:
        if (poll := trigger.poll_once(position)) is None:
            raise InvalidValue("only a polling trigger can be asked what it would find; this one waits for its source")
        shown: list[TriggerEvent] = []
        items = 0
        events = Counter[str | None]()
        async with aclosing(poll) as batches:
            async for batch in batches:
                events.update(event.asset for event in batch.events)
                items += sum(event.count for event in batch.events)
                shown += batch.events[: MOST_SHOWN - len(shown)]
                await checkpoint()  # other tasks get their turn also beside a trigger that never waits
        runs = await self._runs(self.hosted[trigger.context.watcher], events)
        return Preview(items=items, events=events.total(), shown=[_as_json(event) for event in shown], runs=runs)

    async def _runs(self, hosted: Hosted, events: Mapping[str | None, int]) -> Mapping[str, int]:
        """Return the number of runs that events of these assets make for each job scheduled on them, if its condition is met."""
        batches: dict[str, Batching] = {}
        given = Counter[str]()
        async with self.database.reading() as connection:
            for asset, asset_id in ((None, hosted.asset_id), *hosted.further_assets.items()):
                for job in await jobs.scheduled_on(connection, asset_id):
                    batches[job.dag_id] = job.definition.batch
                    given[job.dag_id] += events.get(asset, 0)
        return {dag_id: _expected(batch, given[dag_id]) for dag_id, batch in sorted(batches.items())}


def _as_json(event: TriggerEvent) -> Mapping[str, Any]:
    of_other = {} if event.asset is None else {"asset": event.asset}
    return {"count": event.count, "watermark": event.watermark, **of_other, **event.payload}


def _expected(batch: Batching, events: int) -> int:
    return events if batch.mode == "each" else math.ceil(events / batch.max_events)


async def _continued(
    trigger: OpenTrigger, loaded: LoadedPosition | None, identity: str, to: str
) -> StoredPosition | None:
    """Return the position if it is the source's, or for `here` if only the selection is another one."""
    if loaded is None or loaded.source_identity is None:
        return None
    if loaded.source_identity != identity and not (
        to == HERE and await trigger.reselects(json.loads(loaded.source_identity))
    ):
        return None
    return stored(loaded)


def _applied(position: Position, loaded: LoadedPosition | None) -> StoredPosition:
    """Return the position as it would be stored."""
    rows = {} if loaded is None or position.rows.clear else dict(loaded.rows)
    below = position.rows.delete_below
    kept = {m: value for m, value in rows.items() if below is None or value >= below}
    for member in position.rows.delete:
        kept.pop(member, None)
    chunks = {} if loaded is None or position.rows.clear else loaded.chunks
    below = position.rows.delete_chunks_below
    kept_chunks = {number: data for number, data in chunks.items() if below is None or number >= below}
    return StoredPosition(
        state=position.state, rows={**kept, **position.rows.insert}, chunks={**kept_chunks, **position.rows.chunks}
    )
