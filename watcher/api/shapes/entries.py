"""Entries of the asset store, and their history: ours with everything, Airflow's with exactly its fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from store.state.statements import WRITER_FIELDS
from watcher.api.entries import Row
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


class Entry(Shape):
    """`is_ref`: the value is a reference to where a job has stored it. Other backends keep no times and no versions."""

    key: str
    value: Any
    is_ref: bool
    updated_at: datetime | None
    version: int | None
    last_updated_by: LastUpdatedBy | None


class EntryCollection(Shape):
    asset_store: Sequence[Entry]
    total_entries: int


class HistoryEntry(Shape):
    key: str
    version: int
    value: Any
    is_ref: bool
    deleted: bool
    written_at: datetime
    last_updated_by: LastUpdatedBy | None


class History(Shape):
    history: Sequence[HistoryEntry]
    total_entries: int


def entry(row: Row, base_url: str | None) -> Entry:
    """An entry with the link to the log lines of its last write."""
    writer = {name: row[f"last_updated_by_{name}"] for name in (*WRITER_FIELDS, "try_number")}
    return Entry(
        **{name: row[name] for name in ("key", "is_ref", "updated_at", "version")},
        value=json.loads(row["value"]),
        last_updated_by=_last_updated_by(writer, base_url),
    )


def airflow_entry(row: Row) -> AssetStateStoreResponse:
    """An entry as Airflow 3.3 shows it."""
    kind = row["last_updated_by_kind"]
    writer = {name: row[f"last_updated_by_{name}"] for name in AssetStateStoreLastUpdatedBy.model_fields}
    return AssetStateStoreResponse(
        key=row["key"],
        value=json.loads(row["value"]),
        updated_at=row["updated_at"],
        last_updated_by=None if kind is None else AssetStateStoreLastUpdatedBy(**writer),
    )


def history_entry(row: RowMapping, base_url: str | None) -> HistoryEntry:
    """A write or delete of the past; the value of a delete is null."""
    return HistoryEntry(
        **{name: row[name] for name in ("key", "version", "is_ref", "deleted", "written_at")},
        value=None if row["value"] is None else json.loads(row["value"]),
        last_updated_by=_last_updated_by(dict(row), base_url),
    )


def _last_updated_by(writer: Mapping[str, Any], base_url: str | None) -> LastUpdatedBy | None:
    if writer["kind"] is None:
        return None
    return LastUpdatedBy(**{name: writer[name] for name in WRITER_FIELDS}, log_url=log_url(base_url, writer))
