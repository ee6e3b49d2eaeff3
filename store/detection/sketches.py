"""The sketch of an event, four numbers by which a search for an item passes over events that do not name it (pure).

An event with few names, files or rows by key, has two Bloom filters (Bloom 1970) of them, `bits` and, unless its names are
very few, `more_bits`. An event with more files has `low` and `high` instead, the times in microseconds at which the first
and the last of them were written; one with ids has its lowest and its highest id. What an event rejects is within its
sketch too. A number that is None limits nothing. Events of older releases have other numbers: times beside `bits`, or none
until the clean-up has made them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final, NamedTuple
from zlib import crc32

from store.values import to_json

MOST_NAMES: Final = 30
"""The most names of an event that has bits: with them, a fifth of all other names is not passed over."""
_FEW_NAMES: Final = 3
"""The most names for which `bits` are enough: with them, one of 500 other names is not passed over."""
_BITS: Final = 63
_ONE_BIT: Final = tuple(1 << place for place in range(_BITS))
_ODD: Final = 0x9E3779B1  # Knuth, The Art of Computer Programming, volume 3, 6.4: the golden ratio of 32 bits
_32_BITS: Final = 0xFFFFFFFF
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Sketch(NamedTuple):
    low: int | None = None
    high: int | None = None
    bits: int | None = None
    more_bits: int | None = None


EVERY_NAME: Final = (1 << _BITS) - 1
LIMITLESS: Final = Sketch(bits=EVERY_NAME)
"""The sketch of an event that may name anything: its text decides."""
NO_NAMES: Final = Sketch(bits=0)
"""The sketch of an event that names no item of a watcher: no search reads it."""
_NAMING: Final = frozenset({"files", "keys", "deleted"})


def sketch_of(payload: Mapping[str, Any]) -> Sketch:
    """Return the sketch of the payload of a shipped trigger's event."""
    rejected = payload.get("rejected", ())
    if "ranges" in payload:
        limits = [*payload["ranges"], *((key, key) for key in rejected)]
        return Sketch(min(low for low, _ in limits), max(high for _, high in limits)) if limits else NO_NAMES
    files, keys, deleted = payload.get("files", ()), payload.get("keys", ()), payload.get("deleted", ())
    count = len(files) + len(keys) + len(deleted) + len(rejected)
    if count > MOST_NAMES:
        return _of_times(files) if count == len(files) else LIMITLESS
    names = [file.get("key") or file["path"] for file in files]
    if count > len(files):
        names += (*keys, *deleted, *rejected)
    return _of_names(names)


def sketch_of_any(payload: Mapping[str, Any]) -> Sketch:
    """Return the sketch of an event's payload, whatever emitted it. It is limitless if it has another form than shipped triggers'."""
    try:
        return sketch_of(payload) if _is_of_shipped_form(payload) else LIMITLESS
    except (AttributeError, KeyError, TypeError, ValueError):
        return LIMITLESS


def _is_of_shipped_form(payload: Mapping[str, Any]) -> bool:
    if "ranges" in payload:
        ids = [*chain.from_iterable(payload["ranges"]), *payload.get("rejected", ())]
        return all(type(each) is int and abs(each) <= EVERY_NAME for each in ids) and not _NAMING & payload.keys()
    return all(
        ("key" in file) != ("path" in file) and file["last_modified"].endswith("Z") for file in payload.get("files", ())
    )


def _of_names(names: Sequence[Any]) -> Sketch:
    bits = more_bits = 0
    for name in names:
        number = _number_of(name)
        bits |= _spread(number)
        if len(names) > _FEW_NAMES:
            more_bits |= _spread(number * _ODD & _32_BITS)
    return Sketch(None, None, bits, more_bits or None)


def _of_times(files: Sequence[Mapping[str, Any]]) -> Sketch:
    times = [file["last_modified"] for file in files]
    # A fraction of a second sorts before the Z of the whole second: both limits are taken a second further.
    return Sketch(microseconds(min(times)) - 1_000_000, microseconds(max(times)) + 1_000_000)


def bits_of(name: Any) -> tuple[int, int]:
    """Return the bits of one name in `bits` and in `more_bits`: an event that names it has them all."""
    number = _number_of(name)
    return _spread(number), _spread(number * _ODD & _32_BITS)


def _number_of(name: Any) -> int:
    text = name if isinstance(name, str) else to_json(name)
    return crc32(text.encode("utf-8", "backslashreplace"))


def _spread(number: int) -> int:
    return _ONE_BIT[number % _BITS] | _ONE_BIT[(number >> 10) % _BITS] | _ONE_BIT[(number >> 20) % _BITS]


def microseconds(moment: str) -> int:
    """Return a moment of a file, as events have it, in microseconds since 1970."""
    return (datetime.fromisoformat(moment) - _EPOCH) // _MICROSECOND
