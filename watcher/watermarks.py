"""What a watermark of `postgres.new_rows` says is still open, for people and for Prometheus (pure).

Other watermarks have none of these members, and those of a user's trigger may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_ABOUT: Final = {
    "user": "user",
    "application": "application",
    "state": "state",
    "started": "began",
    "prepared_as": "prepared as",
    "query": "last statement:",
}


def open_gaps(watermark: Any) -> int | None:
    """How many gaps wait for their rows; None for a watermark without gaps in it."""
    gaps = _member(watermark, "gaps")
    return gaps if isinstance(gaps, int) else None


def what_is_open(watermark: Any) -> str | None:
    """What waits, for whom and since when, in a sentence; None when nothing does."""
    oldest, alarm = _member(watermark, "oldest"), _member(watermark, "alarm")
    parts = [part for part in (_gaps(watermark), _holder(oldest), _alarm(alarm)) if part]
    return "; ".join(parts) or None


def _gaps(watermark: Any) -> str | None:
    gaps, ids = open_gaps(watermark), _member(watermark, "open_ids")
    if not gaps:
        return None
    return f"{gaps} {'gap is' if gaps == 1 else 'gaps are'} open ({ids} {'id' if ids == 1 else 'ids'} may still come)"


def _holder(oldest: Any) -> str | None:
    since = _member(oldest, "since")
    if since is None:
        return None
    pid, transaction = _member(oldest, "pid"), _member(oldest, "transaction")
    who = f"pid {pid}" if pid is not None else f"the prepared transaction {transaction}"
    return f"the oldest writer waited for is {who}, since {since}"


def _alarm(alarm: Any) -> str | None:
    reason = _member(alarm, "reason")
    if reason is None:
        return None
    known = ", ".join(_known(alarm))
    return f"alarm: {reason}" + (f" ({known})" if known else "")


def _known(alarm: Mapping[str, Any]) -> Iterator[str]:
    for name, words in _ABOUT.items():
        if alarm.get(name) is not None:
            yield f"{words} {alarm[name]}"


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None
