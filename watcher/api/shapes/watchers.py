"""Watchers and the audit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from watcher.api.shapes.base import JsonObject, JsonValue, Shape


class Watcher(Shape):
    name: str
    asset: str
    trigger: str
    state: str
    owner: str | None
    position_version: int | None
    watermark: JsonValue
    last_poll_at: datetime | None
    last_event_at: datetime | None
    lag_seconds: None = None
    """Nothing measures it yet; the key is there because clients know it."""
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
    detail: JsonObject
    write_id: str | None


class AuditCollection(Shape):
    audit: Sequence[AuditRecord]
    total_entries: int
