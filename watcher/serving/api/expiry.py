"""When an entry of a task store expires, as requests of people and of jobs say it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from store.base import NEVER_EXPIRE, NeverExpire
from watcher.serving.api.parameters import Moment

ExpiresAt: TypeAlias = Moment | Literal["default"] | None
"""The expiry in a request: a time, or null for never. If it is missing or `default`, the configured retention applies."""


def expiry(expires_at: ExpiresAt, default_days: int) -> datetime | NeverExpire:
    """Return the expiry for a backend, computed when the entry is written. A default of 0 days means that it never expires."""
    if isinstance(expires_at, datetime):
        return expires_at
    if expires_at is None or default_days == 0:
        return NEVER_EXPIRE
    return datetime.now(UTC) + timedelta(days=default_days)
