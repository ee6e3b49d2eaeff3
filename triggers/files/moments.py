"""Moments as integers: microseconds since 1970 in UTC, so that they compare, subtract and hash without surprises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

Moment: TypeAlias = int

SECOND: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def moment_of(value: datetime) -> Moment:
    """A datetime without a zone counts as UTC."""
    return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def length_of(value: timedelta) -> int:
    """In microseconds."""
    return value // _MICROSECOND


def parse_moment(text: str) -> Moment:
    """Raises ValueError unless `text` is an ISO 8601 date or timestamp."""
    return moment_of(datetime.fromisoformat(text))


def format_moment(moment: Moment) -> str:
    """`2026-11-20T09:00:00Z`, with a fraction only where there is one."""
    return (_EPOCH + moment * _MICROSECOND).replace(tzinfo=None).isoformat() + "Z"
