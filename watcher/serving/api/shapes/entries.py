"""Entries of the asset store and their history: complete, and in Airflow's shape with exactly its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from store.base import AssetStoreWriterKind, Writer
from store.state.entries import Entry
from store.state.history import HistoryEntry
from watcher.serving.api.shapes.base import JsonValue, Shape


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
    """An entry in Airflow's shape. `updated_at` is null only if the configured store backend keeps no times."""

    key: str
    value: JsonValue
    updated_at: datetime | None
    last_updated_by: AssetStateStoreLastUpdatedBy | None


class AssetStateStoreCollectionResponse(Shape):
    asset_state_store: Sequence[AssetStateStoreResponse]
    total_entries: int


class EntryResponse(Shape):
    """An entry. `is_ref`: the value is a reference to where a job has stored it. Other backends keep no times and versions."""

    key: str
    value: JsonValue
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
    value: JsonValue
    is_ref: bool
    deleted: bool
    written_at: datetime
    last_updated_by: LastUpdatedBy | None


class StoreChange(HistoryResponse):
    """A write or delete of an entry, with its asset."""

    asset_id: int
    asset: str


class History(Shape):
    history: Sequence[HistoryResponse]
    total_entries: int


class StoredValue(Shape):
    """An entry for jobs. `is_ref` is present only when the value is a reference."""

    value: Any
    is_ref: bool = False


class Keys(Shape):
    """The keys of a store, for jobs."""

    keys: Sequence[str]


class References(Shape):
    """The references that a worker-side backend has to remove when the store is cleared, by key."""

    references: Mapping[str, Any]


def entry_response(entry: Entry, base_url: str | None) -> EntryResponse:
    """Return an entry with the link to the log lines of its last write."""
    return EntryResponse.of(entry, last_updated_by=_last_updated_by(entry.last_updated_by, base_url))


def history_response(row: HistoryEntry, base_url: str | None) -> HistoryResponse:
    """Return a past write or delete. The value of a delete is null."""
    return HistoryResponse.of(row, last_updated_by=_last_updated_by(row.writer, base_url))


def store_change(row: HistoryEntry, base_url: str | None) -> StoreChange:
    """Return a write or delete with the asset whose entry it changed."""
    return StoreChange.of(row, last_updated_by=_last_updated_by(row.writer, base_url))


def _last_updated_by(writer: Writer | None, base_url: str | None) -> LastUpdatedBy | None:
    return None if writer is None else LastUpdatedBy.of(writer, log_url=log_url(base_url, writer))


def log_url(base_url: str | None, writer: Writer) -> str | None:
    """Return the address of the log lines around a write, or None without a `write_id`, which identifies the lines."""
    if writer.write_id is None:
        return None
    match writer.kind:
        case AssetStoreWriterKind.WATCHER:
            path = f"/api/v2/watchers/{_part(writer.watcher)}/logs?around={_part(writer.write_id)}"
        case AssetStoreWriterKind.TASK:
            of_run = f"/api/v2/dags/{_part(writer.dag_id)}/dagRuns/{_part(writer.run_id)}"
            of_try = f"/taskInstances/{_part(writer.task_id)}/logs/{writer.try_number}"
            path = f"{of_run}{of_try}?around={_part(writer.write_id)}{_map_index(writer.map_index)}"
        case AssetStoreWriterKind.API:
            path = f"/api/v2/audit?write_id={_part(writer.write_id)}"
    return (base_url or "").rstrip("/") + path


def _part(text: str | None) -> str:
    return quote(text or "", safe="")


def _map_index(map_index: int | None) -> str:
    return "" if map_index is None or map_index < 0 else f"&map_index={map_index}"
