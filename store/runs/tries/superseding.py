"""Tries that end `superseding`: files are no longer as their events say, and their watchers may not have reported newer versions yet.

Such a try uses no retry. The next one begins once these watchers have committed a scan that began after it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ScalarSelect, Select, and_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import now_of
from store.database.schema import asset_event, database_time_in, run, run_asset_event, task_instance, task_try, watcher
from store.keys import TryKey
from store.runs.runs import this_run
from store.runs.tries import changed_items
from store.runs.tries.changed_items import ChangedItems
from store.runs.tries.startable import Startable

SUPERSEDING: Final = "superseding"
"""How such a try finished."""
LONGEST: Final = timedelta(hours=1)
"""How long a run is kept from failing by this."""
MOST_KEPT: Final = 1_000
"""The most names of missing files that are kept with a try."""
_LOOK_EVERY: Final = 1.0
"""Seconds after which the watchers of a waiting run are looked at again."""
_LONGEST_PAUSE: Final = 60
"""Seconds between two tries at most, while a file is written again and again and not reported."""
_WAITS: Final = "superseding: waits until the watchers of files that are missing have scanned again"
_a, _e, _r, _t, _w = task_try.c, asset_event.c, run_asset_event.c, task_instance.c, watcher.c


@dataclass(frozen=True, kw_only=True)
class MissingFile:
    """A file that a try did not find, by its key or path in events. `overwritten`: another version is at its place."""

    path: str
    overwritten: bool = False


async def may_wait(connection: AsyncConnection, key: TryKey, missing: Sequence[MissingFile]) -> bool:
    """Whether a try that fails because of missing files ends `superseding`: its run never succeeded, and did not wait for long.

    What was deleted and is still missing after a scan was deleted for good.
    """
    of_run = (await connection.execute(_RUN.where(this_run(key.dag_id, key.run_id)))).one()
    if not missing or of_run.id in await changed_items.have_succeeded(connection, [of_run.id]):
        return False
    before = (await connection.execute(_ended_so(key.task_instance_id, of_run.queued_at))).all()
    if not before:
        return True
    if await now_of(connection) - before[0].ended_at >= LONGEST:
        return False
    known = {*json.loads(before[-1].missing)} if before[-1].try_number == key.try_number - 1 else set()
    return any(file.overwritten or file.path not in known for file in missing)


def to_json(missing: Sequence[MissingFile]) -> str:
    """Return the names that are kept with a try, as JSON."""
    return json.dumps(sorted({file.path for file in missing})[:MOST_KEPT])


async def postpone(connection: AsyncConnection, task: Startable, changed: ChangedItems) -> bool:
    """Postpone the next try of a run whose last try ended `superseding`, while that has to wait. Return whether it does.

    `changed` is what is known of its items now: a file that is superseded is not waited for.
    """
    key, now = task.key, await now_of(connection)
    queued_at = select(run.c.queued_at).where(run.c.id == task.number).scalar_subquery()
    before = (await connection.execute(_ended_so(key.task_instance_id, queued_at))).all()
    if not before or before[-1].try_number != key.try_number - 1 or now - before[0].ended_at >= LONGEST:
        return False
    ended_at, names = before[-1].ended_at, {*json.loads(before[-1].missing)}
    watchers = {watcher for watcher, name in await _files_of(connection, task.number, changed) if name in names}
    pause = timedelta(seconds=min(2 ** (len(before) - 1) - 1, _LONGEST_PAUSE)) if watchers else timedelta(0)
    if now >= ended_at + pause and not watchers - await _scanned_since(connection, watchers, ended_at):
        return False
    this = and_(_t.id == key.task_instance_id, _t.try_number == key.try_number - 1)
    later = {"not_before": database_time_in(_LOOK_EVERY), "detail": _WAITS}
    await connection.execute(update(task_instance).where(this).values(**later))
    return True


_RUN: Final = select(run.c.id, run.c.queued_at)


def _ended_so(task_instance_id: str, queued_at: datetime | ScalarSelect[datetime]) -> Select[Any]:
    """Select the tries that ended so since their run was queued, or cleared, the oldest first."""
    query = select(_a.try_number, _a.ended_at, _a.missing).where(
        _a.finish_state == SUPERSEDING, _a.ended_at.is_not(None)
    )
    mine = (_a.task_instance_id == task_instance_id, _a.intent_at >= queued_at)
    return query.where(*mine).order_by(_a.try_number)


async def _files_of(connection: AsyncConnection, run_id: int, changed: ChangedItems) -> Iterable[tuple[str, str]]:
    """Return the files that the next try would get, each with its watcher."""
    query = select(_e.id, _e.source_watcher, _e.extra)
    query = query.join_from(run, run_asset_event, and_(_r.dag_id == run.c.dag_id, _r.run_id == run.c.run_id))
    query = query.join(asset_event, _e.id == _r.event_id).where(run.c.id == run_id, _e.source_watcher.is_not(None))
    return [
        (row.source_watcher, name)
        for row in await connection.execute(query)
        for name in _names(changed.applied(row.id, json.loads(row.extra)))
    ]


def _names(extra: Mapping[str, Any]) -> Iterator[str]:
    return (file.get("key") or file.get("path") for file in extra.get("files", ()))


async def _scanned_since(connection: AsyncConnection, watchers: Collection[str], moment: datetime) -> frozenset[str]:
    """Return the watchers that have committed a scan which began after a moment, or are not configured any more."""
    query = select(_w.name, _w.active, _w.last_poll_at, _w.lag_seconds).where(_w.name.in_(watchers))
    rows = (await connection.execute(query)).all()
    scanned = {
        row.name
        for row in rows
        if not row.active
        or (
            row.last_poll_at is not None
            and row.lag_seconds is not None
            and row.last_poll_at - timedelta(seconds=row.lag_seconds) > moment
        )
    }
    return frozenset(scanned | ({*watchers} - {row.name for row in rows}))
