"""Finds the place of a time in a log file without reading the file, because records are in order of their times.

Other lines, such as a driver's output, belong to the record before them. Records of several processes may be out of order
by the difference of their clocks, so a search also covers a little earlier time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import BinaryIO, Final

_RECORD: Final = re.compile(rb'\n\{"timestamp": "([0-9T:.-]{19,26})(?:Z|\+00:00)"')
_LONGEST: Final = 64
"""The number of bytes that `_RECORD` needs."""
_BLOCK: Final = 65_536
_LARGEST_BLOCK: Final = 1_048_576
"""The block size after a long stretch of driver output without a record."""


def offset_at(file: BinaryIO, moment: datetime, end: int) -> int:
    """Return the offset of the first record before `end` that is not older than `moment`; `end` if all are."""
    time = moment.astimezone(UTC).replace(tzinfo=None).isoformat().encode()
    low, high = 0, end  # what begins before `low` is older; what begins at `high` or later is not
    while low < high:
        middle = (low + high) // 2
        record = _next_record(file, middle, high)
        if record is not None and record[1] < time:
            low = record[0] + 1
        else:
            high = middle
    record = _next_record(file, low, end)
    return end if record is None else record[0]


def _next_record(file: BinaryIO, start: int, end: int) -> tuple[int, bytes] | None:
    """Return the offset and time of the first record that begins in this part."""
    if start == 0:
        file.seek(0)
        if match := _RECORD.match(b"\n" + file.read(_LONGEST)):
            return 0, match[1]
    position, size = max(start - 1, 0), _BLOCK  # of the line end before it
    file.seek(position)
    while position < end and (block := file.read(size)):
        if match := _first_record(block):
            begin = position + match.start() + 1
            return (begin, match[1]) if begin < end else None
        if len(block) < size:
            return None
        # Blocks overlap: joining them would copy all of them.
        position, size = position + size - _LONGEST, _LARGEST_BLOCK
        file.seek(position)
    return None


def _first_record(text: bytes) -> re.Match[bytes] | None:
    """Find the first record. Searches a brace first: driver output rarely has one, and a byte is found far faster than a pattern."""
    place = text.find(b"{")
    return None if place < 0 else _RECORD.search(text, max(place - 1, 0))
