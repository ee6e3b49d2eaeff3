"""The sketch of an event: the limits of its items, by which a search for one passes over most events (pure).

Of events with `ranges` they are the lowest and the highest id, of events with `files` the times in microseconds at which
the first and the last of its files were written. What an event rejects by id is within its limits too. Events without a
sketch may name anything: those of other triggers and of older releases, and those that name rows by their keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

Sketch: TypeAlias = "tuple[int, int] | tuple[None, None]"
NO_SKETCH: Final = (None, None)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def sketch_of(payload: Mapping[str, Any]) -> Sketch:
    """Return the sketch of the payload of a shipped trigger's event."""
    if "ranges" in payload:
        return _limits([*payload["ranges"], *((key, key) for key in payload.get("rejected", ()))])
    files = payload.get("files")
    if not files or "rejected" in payload:
        return NO_SKETCH
    try:
        times = [file["last_modified"] for file in files]
        # A fraction of a second sorts before the Z of the whole second: both limits are taken a second further.
        return microseconds(min(times)) - 1_000_000, microseconds(max(times)) + 1_000_000
    except (KeyError, TypeError, ValueError):
        return NO_SKETCH


def microseconds(moment: str) -> int:
    """Return a moment of a file, as events have it, in microseconds since 1970. Raises ValueError."""
    return (datetime.fromisoformat(moment) - _EPOCH) // _MICROSECOND


def _limits(ranges: Sequence[Any]) -> Sketch:
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else NO_SKETCH
