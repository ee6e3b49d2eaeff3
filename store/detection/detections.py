"""The one transaction of detections.

It holds positions, working states, events, queue rows, watermark entries and their history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final, TypeAlias

from sqlalchemy import bindparam, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.asset_events import NewEvent
from store.database.schema import database_now, watcher, watcher_asset
from store.detection import commit_statements, events, filters, position_rows, positions, rejections, rewind
from store.detection.interest import NOBODY, EventHooks, EventOrigin, Interest, interest_of
from store.detection.positions import HeldPosition, NewPosition
from store.detection.rejections import Rejection
from store.errors import PositionLost, StoreError, no_asset
from store.keys import Wake
from store.scopes import Writer
from store.state import statements
from store.state.attributed import AttributedEntries
from store.values import WATERMARK_SUFFIX


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What a watcher detected on its asset, and the position after it."""

    held: HeldPosition
    asset_id: int
    position: NewPosition
    writer: Writer
    events: Sequence[NewEvent] = ()
    rejected: Sequence[Rejection] = ()
    """Items that are rejected from here on, because they cannot be reported."""
    settled: Sequence[Rejection] = ()
    """Items that are no longer rejected."""
    ends_undo: str | None = None
    """Why the last rewind cannot be undone once this is committed; None: it can be, if it could be before."""

    @property
    def key(self) -> str:
        """The key of the watermark's entry."""
        return self.held.watcher + WATERMARK_SUFFIX

    @property
    def event_assets(self) -> frozenset[int]:
        """The assets of its events."""
        return frozenset(event.asset_id for event in self.events)

    @property
    def size(self) -> int:
        """How many characters it stores."""
        position = self.position
        texts = (position.source_identity, position.state, position.watermark)
        chunks = position.rows.chunks.values()
        return sum(len(event.extra) for event in self.events) + sum(map(len, texts)) + sum(map(len, chunks))

    @property
    def entry(self) -> dict[str, Any]:
        """The parameters of the watermark's entry."""
        place = {"b_asset_id": self.asset_id, "b_key": self.key}
        content = {"b_value": self.position.watermark, "b_is_ref": False, "b_expected": None}
        return {**place, **content, **statements.attribution(self.writer)}

    @property
    def row(self) -> dict[str, Any]:
        """The values that PostgreSQL's statements take."""
        watermark = {"asset_id": self.asset_id, "key": self.key, "value": self.position.watermark}
        return {**vars(self.held), **self.position.columns, **watermark, "write_id": self.writer.write_id}


@dataclass(frozen=True, kw_only=True)
class Committed:
    """The result of a commit: the position as it is held now, the jobs that got queue rows, and whom to wake besides."""

    held: HeldPosition
    dag_ids: frozenset[str]
    wakes: frozenset[Wake] = NOBODY


Answer: TypeAlias = Committed | PositionLost | IntegrityError | StoreError | None
"""The outcome of a detection. An error: nothing of it was written. None: nothing either, as its position was locked."""


async def commit(
    connection: AsyncConnection, detections: Sequence[Detection], hooks: EventHooks, *, skip_locked: bool = False
) -> Sequence[Answer]:
    """Write detections of different watchers in the caller's transaction, and answer each. `hooks` take part in it.

    PostgreSQL waits for whoever has locked one of the positions, or skips those. What it refuses is raised, and then
    none can be committed. SQLite omits a detection that is refused, unless it is the only one; and it may answer only
    the first ones, if writing takes long: the others were not begun.
    """
    if connection.dialect.name == "postgresql":
        return await _commit_postgresql(connection, detections, hooks, skip_locked=skip_locked)
    if len(detections) == 1:
        return [await _commit_sqlite(connection, detections[0], hooks)]
    return await _commit_in_savepoints(connection, detections, hooks)


async def keep(connection: AsyncConnection, held: HeldPosition, position: NewPosition) -> HeldPosition:
    """Write a newer working state and nothing else: no watermark, no history. Raises `PositionLost`."""
    moved = await connection.execute(positions.keep(), positions.parameters(held, position))
    version = moved.scalar_one_or_none()
    if version is None:
        raise _lost(held)
    await position_rows.change_rows(connection, held.watcher, position.rows, connection.dialect.name)
    return replace(held, version=version)


def _lost(held: HeldPosition) -> PositionLost:
    return PositionLost(f"the position of {held.watcher} moved on without us; it is read again")


def _refuse_moved(detection: Detection, asset_id: int | None) -> None:
    """Raise `StoreError` if the applied configuration has this watcher under another asset."""
    if asset_id not in {None, detection.asset_id}:
        raise _moved(detection)


def _moved(detection: Detection) -> StoreError:
    """Return the error that other assets are configured for a watcher: their jobs would never see these events."""
    return StoreError(
        f"the configuration that was applied has {detection.held.watcher} under another asset than this process, or with other"
        " `assets`; give each process the same file, and `watcher reload`"
    )


LONGEST_WRITING: Final = 0.05
"""Seconds after which a group of SQLite's commits ends, because other writers wait for it."""
_SEE: Final = (
    update(watcher)
    .where(watcher.c.name == bindparam("b_watcher"))
    .values(last_event_at=database_now())
    .returning(watcher.c.asset_id)
)
_FURTHER: Final = select(watcher_asset.c.asset_id).where(
    watcher_asset.c.watcher == bindparam("b_watcher"), watcher_asset.c.active
)
_ENTRIES: Final = AttributedEntries("sqlite")


async def _commit_in_savepoints(
    connection: AsyncConnection, detections: Sequence[Detection], hooks: EventHooks
) -> Sequence[Answer]:
    answers: list[Answer] = []
    until = monotonic() + LONGEST_WRITING
    for detection in detections:
        try:
            async with connection.begin_nested():
                answers.append(await _commit_sqlite(connection, detection, hooks))
        except (IntegrityError, StoreError) as refused:
            answers.append(refused)
        if monotonic() > until:
            break
    return answers


async def _commit_sqlite(
    connection: AsyncConnection, detection: Detection, hooks: EventHooks
) -> Committed | PositionLost:
    """Commit one detection. SQLite has one writer: nothing is locked, and each statement sees everything."""
    held = detection.held
    parameters = positions.parameters(held, detection.position)
    version = (await connection.execute(positions.advance(), parameters)).scalar_one_or_none()
    if version is None:
        return _lost(held)
    await position_rows.change_rows(connection, held.watcher, detection.position.rows, "sqlite")
    await _change_beside(connection, detection)
    appended = await events.append(connection, detection.events, origin=EventOrigin.DETECTION, hooks=hooks)
    await _ENTRIES.write(connection, detection.entry, detection.writer)
    if detection.events:
        configured = (await connection.execute(_SEE, {"b_watcher": held.watcher})).scalar_one_or_none()
        _refuse_moved(detection, configured)
    held = replace(held, version=version)
    return Committed(held=held, dag_ids=appended.dag_ids, wakes=appended.wakes)


async def _commit_postgresql(
    connection: AsyncConnection, detections: Sequence[Detection], hooks: EventHooks, *, skip_locked: bool
) -> Sequence[Answer]:
    """Commit by two statements, each a chain of parts that wait for one another.

    The first locks in the order of all transactions (positions, configuration, assets, keys of the watermarks) and
    stores the events. The second sees what was committed during these waits. After both, the features do their part.
    """
    moved = await _advance_and_store(connection, detections, skip_locked=skip_locked)
    written = [each for each in detections if each.held.watcher in moved.versions]
    rows = {each.held.watcher: each.position.rows for each in written}
    await position_rows.change_all_rows(connection, rows)
    for each in written:
        await _change_beside(connection, each)
    woken = await _queue_and_write(connection, written, moved.event_ids)
    new = (event.asset_id for each in written for event in each.events)
    added = zip(sorted(moved.event_ids), new, strict=True)  # ids are given in the order of the events
    wakes = await hooks.run(connection, EventOrigin.DETECTION, added, woken.interest)
    versions = moved.versions
    committed = {each.held.watcher: _committed(each, versions[each.held.watcher], woken, wakes) for each in written}
    return [committed.get(each.held.watcher, None if skip_locked else _lost(each.held)) for each in detections]


@dataclass(frozen=True, kw_only=True)
class _Moved:
    """The new versions of the positions that moved, by watcher, and the ids of the events that were stored."""

    versions: Mapping[str, int]
    event_ids: Sequence[int]


async def _advance_and_store(
    connection: AsyncConnection, detections: Sequence[Detection], *, skip_locked: bool
) -> _Moved:
    """Send the first statement. Raises `NotFound` if a watcher's asset is gone: its position must not move either."""
    new = events.parameters([event for detection in detections for event in detection.events])
    by = [detection.held.watcher for detection in detections for _ in detection.events]
    given = {**commit_statements.columns("held", [each.row for each in detections]), **new, "new_detected_by": by}
    first = (await connection.execute(commit_statements.advance_and_append(skip_locked=skip_locked), given)).one()
    versions = dict(zip(first.watchers or (), first.versions or (), strict=True))
    without_asset = versions.keys() - set(first.waited or ())  # nothing of theirs was locked or stored
    if without_asset:
        raise no_asset(next(each.asset_id for each in detections if each.held.watcher in without_asset))
    return _Moved(versions=versions, event_ids=first.ids or ())


def _committed(detection: Detection, version: int, woken: _Woken, wakes: frozenset[Wake]) -> Committed:
    """What a detection came to. Raises `StoreError` if its watcher was applied under another asset."""
    _refuse_moved(detection, woken.asset_ids.get(detection.held.watcher))
    dag_ids = frozenset().union(*(woken.dag_ids.get(asset_id, ()) for asset_id in detection.event_assets))
    held = replace(detection.held, version=version)
    return Committed(held=held, dag_ids=dag_ids, wakes=wakes)


async def _change_beside(connection: AsyncConnection, detection: Detection) -> None:
    """Change and check what only few detections do in addition to moving their positions."""
    if further := detection.event_assets - {detection.asset_id}:
        configured = (await connection.execute(_FURTHER, {"b_watcher": detection.held.watcher})).scalars()
        if not further <= {*configured}:
            raise _moved(detection)
    await rejections.change(connection, detection.held.watcher, detection.rejected, detection.settled)
    if detection.ends_undo is not None:
        await rewind.end_undo(connection, detection.held.watcher, detection.ends_undo)


@dataclass(frozen=True, kw_only=True)
class _Woken:
    """The jobs that got queue rows, by asset; the features that are interested; the watchers' assets as applied."""

    dag_ids: Mapping[int, frozenset[str]]
    interest: Interest
    asset_ids: Mapping[str, int]


async def _queue_and_write(
    connection: AsyncConnection, written: Sequence[Detection], event_ids: Sequence[int]
) -> _Woken:
    """Send the second statement, for the detections whose positions moved."""
    if not written:
        return _Woken(dag_ids={}, interest={}, asset_ids={})
    seen = [each.held.watcher for each in written if each.events]
    parameters = {
        **commit_statements.columns("written", [each.row for each in written]),
        "b_ids": event_ids,
        "b_assets": sorted({asset_id for each in written for asset_id in each.event_assets}),
        "b_seen": seen,
    }
    woken = (await connection.execute(commit_statements.queue_and_write(), parameters)).all()
    decided = await filters.decide(connection, event_ids) if any(row.filtered for row in woken) else ()
    owed = {dag_id for dag_id, _ in decided}
    dag_ids = {
        row.asset_id: frozenset(row.dag_ids or ()) | (owed if row.filtered else set())
        for row in woken
        if row.asset_id is not None
    }
    asset_ids = dict(zip(woken[0].watchers or (), woken[0].asset_ids or (), strict=True))
    interest = interest_of(woken[0].pairs)
    return _Woken(dag_ids=dag_ids, interest=interest, asset_ids=asset_ids)
