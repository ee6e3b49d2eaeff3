"""The sketch of an event, three numbers by which a search for an item passes over events that do not name it (pure).

`low` and `high` limit what the event names: its lowest and highest id, or the times in microseconds at which the first and
the last of its files were written. `bits` is a Bloom filter (Bloom 1970) of its names, files or rows by key, if they are
few. What an event rejects is within its sketch too. A number that is None limits nothing: other triggers' events and those
of older releases have none.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from store.values import to_json

MOST_NAMES: Final = 20
"""The most names of an event that has bits: with them, a fifth of all other names is not passed over."""
_BITS: Final = 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Sketch(NamedTuple):
    low: int | None = None
    high: int | None = None
    bits: int | None = None


NO_SKETCH: Final = Sketch()


def sketch_of(payload: Mapping[str, Any]) -> Sketch:
    """Return the sketch of the payload of a shipped trigger's event."""
    rejected = payload.get("rejected", ())
    if "ranges" in payload:
        ranges = [*payload["ranges"], *((key, key) for key in rejected)]
        return Sketch(min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else NO_SKETCH
    files, keys = payload.get("files", ()), [*payload.get("keys", ()), *payload.get("deleted", ())]
    low, high = _times(files) if files and not rejected else (None, None)
    if len(files) + len(keys) + len(rejected) > MOST_NAMES:
        return Sketch(low, high)
    names = (file.get("key") or file["path"] for file in files)
    return Sketch(low, high, reduce(or_, map(bits_of, (*names, *keys, *rejected)), 0))


def bits_of(name: Any) -> int:
    """Return the bits of one name: an event that names it has them all."""
    text = name if isinstance(name, str) else to_json(name)
    number = zlib.crc32(text.encode(errors="backslashreplace"))
    return 1 << number % _BITS | 1 << (number >> 10) % _BITS | 1 << (number >> 20) % _BITS


def microseconds(moment: str) -> int:
    """Return a moment of a file, as events have it, in microseconds since 1970."""
    return (datetime.fromisoformat(moment) - _EPOCH) // _MICROSECOND


def _times(files: Any) -> tuple[int, int]:
    times = [file["last_modified"] for file in files]
    # A fraction of a second sorts before the Z of the whole second: both limits are taken a second further.
    return microseconds(min(times)) - 1_000_000, microseconds(max(times)) + 1_000_000
