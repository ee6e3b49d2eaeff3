"""Where in a log file a moment is, found without reading the file: records are in the order of their times.

Other lines, as a driver's output, belong to the record before them. Records of several processes may be out of order by what
their clocks differ: whoever looks for one of them looks a little earlier, too.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import BinaryIO, Final

_RECORD: Final = re.compile(rb'\n\{"timestamp": "([0-9T:.-]{19,26})(?:Z|\+00:00)"')
_LONGEST: Final = 64
"""Bytes of that."""
_BLOCK: Final = 65_536


def offset_at(file: BinaryIO, moment: datetime, end: int) -> int:
    """Where the first record before `end` begins that is not older; `end` where all are."""
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
    """Where the first record begins that begins in this part, and its time."""
    position = start - 1  # of the line end before it
    file.seek(max(position, 0))
    text = b"" if start else b"\n"
    while position < end and (block := file.read(_BLOCK)):
        text += block
        if match := _RECORD.search(text):
            begin = position + match.start() + 1
            return (begin, match[1]) if begin < end else None
        position += max(len(text) - _LONGEST, 0)
        text = text[-_LONGEST:]
    return None
