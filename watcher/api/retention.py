"""Until when a task instance's entry is kept: an absolute time, decided when it is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from store.base import NEVER_EXPIRE, NeverExpire
from watcher.api.parameters import Moment

ExpiresAt: TypeAlias = Moment | Literal["default"] | None
"""In a request: a time; null is never; left out, or `default`, means the configured retention."""


def expiry(wanted: ExpiresAt, default_days: int) -> datetime | NeverExpire:
    """As backends take it; a default of 0 days keeps for ever."""
    if isinstance(wanted, datetime):
        return wanted
    if wanted is None or default_days == 0:
        return NEVER_EXPIRE
    return datetime.now(UTC) + timedelta(days=default_days)
