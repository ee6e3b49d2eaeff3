"""Entries of the asset store, and their history: ours with everything, Airflow's with exactly its fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from store.base import Writer
from store.state.entries import Entry
from store.state.history import HistoryEntry
from watcher.api.links import log_url
from watcher.api.shapes.base import Shape


class AssetStateStoreLastUpdatedBy(Shape):
    kind: str
    dag_id: str | None
    run_id: str | None
    task_id: str | None
    map_index: int | None


class LastUpdatedBy(AssetStateStoreLastUpdatedBy):
    watcher: str | None
    actor: str | None
    write_id: str | None
    log_url: str | None


class AssetStateStoreResponse(Shape):
    """`updated_at` is null only where the configured store backend keeps no times."""

    key: str
    value: Any
    updated_at: datetime | None
    last_updated_by: AssetStateStoreLastUpdatedBy | None


class AssetStateStoreCollectionResponse(Shape):
    asset_state_store: Sequence[AssetStateStoreResponse]
    total_entries: int


class EntryResponse(Shape):
    """`is_ref`: the value is a reference to where a job has stored it. Other backends keep no times and no versions."""

    key: str
    value: Any
    is_ref: bool
    updated_at: datetime | None
    version: int | None
    last_updated_by: LastUpdatedBy | None


class EntryCollection(Shape):
    asset_store: Sequence[EntryResponse]
    total_entries: int


class HistoryResponse(Shape):
    key: str
    version: int
    value: Any
    is_ref: bool
    deleted: bool
    written_at: datetime
    last_updated_by: LastUpdatedBy | None


class History(Shape):
    history: Sequence[HistoryResponse]
    total_entries: int


def entry_response(entry: Entry, base_url: str | None) -> EntryResponse:
    """An entry with the link to the log lines of its last write."""
    return EntryResponse(
        key=entry.key,
        value=json.loads(entry.value),
        is_ref=entry.is_ref,
        updated_at=entry.updated_at,
        version=entry.version,
        last_updated_by=_last_updated_by(entry.last_updated_by, base_url),
    )


def airflow_entry(entry: Entry) -> AssetStateStoreResponse:
    """An entry as Airflow 3.3 shows it."""
    writer = entry.last_updated_by
    return AssetStateStoreResponse(
        key=entry.key,
        value=json.loads(entry.value),
        updated_at=entry.updated_at,
        last_updated_by=writer and AssetStateStoreLastUpdatedBy.model_validate(writer, from_attributes=True),
    )


def history_response(row: HistoryEntry, base_url: str | None) -> HistoryResponse:
    """A write or delete of the past; the value of a delete is null."""
    return HistoryResponse(
        key=row.key,
        version=row.version,
        value=None if row.value is None else json.loads(row.value),
        is_ref=row.is_ref,
        deleted=row.deleted,
        written_at=row.written_at,
        last_updated_by=_last_updated_by(row.writer, base_url),
    )


def _last_updated_by(writer: Writer | None, base_url: str | None) -> LastUpdatedBy | None:
    if writer is None:
        return None
    return LastUpdatedBy(
        kind=writer.kind.value,
        dag_id=writer.dag_id,
        run_id=writer.run_id,
        task_id=writer.task_id,
        map_index=writer.map_index,
        watcher=writer.watcher,
        actor=writer.actor,
        write_id=writer.write_id,
        log_url=log_url(base_url, writer),
    )
