"""Watchers and the audit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from store.catalog.watchers import WatcherRow
from store.processes.audit import AuditEntry
from watcher.api.shapes.base import Shape


class Watcher(Shape):
    name: str
    asset: str
    trigger: str
    state: str
    owner: str | None
    position_version: int | None
    watermark: Any
    last_poll_at: datetime | None
    last_event_at: datetime | None
    lag_seconds: int | None
    error: str | None
    error_count: int
    paused: bool


class WatcherCollection(Shape):
    watchers: Sequence[Watcher]
    total_entries: int


class AuditRecord(Shape):
    id: int
    at: datetime
    actor: str
    action: str
    target: str
    detail: dict[str, Any]
    write_id: str | None


class AuditCollection(Shape):
    audit: Sequence[AuditRecord]
    total_entries: int


def watcher(row: WatcherRow) -> Watcher:
    """How a watcher is doing, with its watermark as JSON."""
    return Watcher(**{**vars(row), "watermark": None if row.watermark is None else json.loads(row.watermark)})


def audit_record(entry: AuditEntry) -> AuditRecord:
    """An entry with its detail as JSON."""
    return AuditRecord(**{**vars(entry), "detail": json.loads(entry.detail)})
