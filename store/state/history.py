"""The history of an asset's entries: every write and every delete. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import PageRequest, ResultPage, all_of, equal, newest, one_of, page
from store.database.schema import asset, asset_store_history
from store.errors import NotFound
from store.keys import AssetRef
from store.scopes import Writer
from store.state.attributed import recorded

_h = asset_store_history.c
_ROWS = select(asset_store_history, asset.c.name.label("asset")).join_from(asset_store_history, asset)


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """One write to the asset named `asset`; if it was a delete, `value` (JSON text) is None."""

    asset_id: int
    asset: str
    key: str
    version: int
    value: str | None
    is_ref: bool
    deleted: bool
    written_at: datetime
    writer: Writer | None


async def of_asset(
    connection: AsyncConnection, asset: AssetRef, key: str | None, window: PageRequest
) -> ResultPage[HistoryEntry]:
    """Return every write and delete of an asset's entries, or of one of them, newest first."""
    query = _ROWS.where(_h.asset_id == asset.id, equal(_h.key, key))
    newest_first = PageRequest(limit=window.limit, offset=window.offset, order_by=("-written_at", "-version"))
    columns = {"key": _h.key, "written_at": _h.written_at, "version": _h.version}
    return await page(connection, query, newest_first, columns, _entry)


async def version(connection: AsyncConnection, asset: AssetRef, key: str, number: int) -> HistoryEntry:
    """Return one write or delete of an entry. Raises `NotFound` if it never was, or was cleaned up."""
    query = _ROWS.where(_h.asset_id == asset.id, _h.key == key, _h.version == number)
    return await one_of(connection, query, _entry, NotFound(f"the history of {key!r} has no version {number}"))


async def latest(
    connection: AsyncConnection, asset: AssetRef, key: str, *, limit: int, before: int | None = None
) -> Sequence[HistoryEntry]:
    """Return the newest versions of one entry below `before`."""
    query = _ROWS.where(_h.asset_id == asset.id, _h.key == key)
    return await newest(connection, query, _h.version, _entry, limit=limit, before=before)


async def of_run(connection: AsyncConnection, dag_id: str, run_id: str, *, limit: int) -> Sequence[HistoryEntry]:
    """Return what the tasks of a run wrote, oldest first."""
    query = _ROWS.where(_h.dag_id == dag_id, _h.run_id == run_id)
    return await all_of(connection, query.order_by(_h.written_at, _h.key).limit(limit), _entry)


async def since(connection: AsyncConnection, moment: datetime, *, limit: int) -> Sequence[HistoryEntry]:
    """Return what was written from `moment` on, oldest first."""
    query = _ROWS.where(_h.written_at >= moment).order_by(_h.written_at, _h.asset_id, _h.key, _h.version)
    return await all_of(connection, query.limit(limit), _entry)


async def of_writes(connection: AsyncConnection, write_ids: Collection[str]) -> Sequence[HistoryEntry]:
    """Return the history rows of these writes."""
    return await all_of(connection, _ROWS.where(_h.write_id.in_(write_ids)).order_by(_h.key), _entry)


def _entry(
    *,
    asset_id: int,
    asset: str,
    key: str,
    version: int,
    value: str | None,
    is_ref: bool,
    deleted: bool,
    written_at: datetime,
    kind: str | None,
    dag_id: str | None,
    run_id: str | None,
    task_id: str | None,
    map_index: int | None,
    try_number: int | None,
    watcher: str | None,
    actor: str | None,
    write_id: str | None,
) -> HistoryEntry:
    """Make the entry of a row of `_ROWS`."""
    writer = recorded(
        kind,
        write_id,
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        try_number=try_number,
        watcher=watcher,
        actor=actor,
    )
    return HistoryEntry(
        asset_id=asset_id,
        asset=asset,
        key=key,
        version=version,
        value=value,
        is_ref=is_ref,
        deleted=deleted,
        written_at=written_at,
        writer=writer,
    )
