"""Reads log files: the lines around a write or a time, the last lines, and what is appended from now on.

A log is a sequence of files, oldest first: renamed full files, then the current one. Lines are JSON records of the daemon.
Any other line, such as a driver's output, becomes a record with the line as its `event`. Files are read in blocks, not
mapped: a mapped file that is truncated meanwhile would end the process (SIGBUS).
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from anyio.to_thread import run_sync

from watcher.host.logs.moments import offset_at
from watcher.host.logs.paths import mark_of

Record: TypeAlias = Mapping[str, Any]
Log: TypeAlias = Sequence[Path]

LINES: Final = 100
"""The number of lines shown on each side of a write, unless a request says otherwise."""
CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""The possible difference between a log's times and the database's, including the duration of a write."""
_LONGEST_LINE: Final = 65_536
"""The bytes of the longest line. A longer one is read as several."""
BLOCK: Final = 1_048_576
_PIECE: Final = 65_536


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """Some lines of one file. The next fragment begins at `next_offset`; None: the file has ended."""

    records: Sequence[Record]
    next_offset: int | None


def around(
    logs: Sequence[Log], write_id: str, *, before: int, after: int, near: datetime | None = None
) -> Sequence[Record] | None:
    """Return the first line about a write, with lines before and after it in the same log. None: no log has it.

    `near` is the time of the write. Other parts of the files are read only if the line is not near it.
    """
    for log in logs:
        for index, path in enumerate(log):
            with opened(path) as file:
                start = _line_with(file, write_id.encode(), *_part(file, near))
            if start is not None:
                earlier, later = _both_ways(log, index, start, before, after + 1)
                return [*earlier, *later]
    return None if near is None else around(logs, write_id, before=before, after=after)


def _part(file: BinaryIO, near: datetime | None) -> tuple[int, int]:
    """Return the offsets of the part of a file near a time."""
    end = size_of(file)
    if near is None:
        return 0, end
    return offset_at(file, near - CLOCKS_DIFFER, end), offset_at(file, near + CLOCKS_DIFFER, end)


def at_moment(
    logs: Sequence[Log], moment: datetime, *, before: int, after: int
) -> tuple[Sequence[Record], Sequence[Record]]:
    """Return lines of all logs together: those before a time, and those from then on."""
    parts = [_of_log_at(log, moment, before, after) for log in logs]
    if len(parts) == 1:
        return parts[0]
    earlier, later = (_by_time(chain.from_iterable(lines)) for lines in zip(*parts, strict=True)) if parts else ([], [])
    return earlier[-before:] if before else [], later[:after]


def _of_log_at(log: Log, moment: datetime, before: int, after: int) -> tuple[Sequence[Record], Sequence[Record]]:
    for index, path in enumerate(log):
        with opened(path) as file:
            end = size_of(file)
            start = offset_at(file, moment, end)
        if start < end or index == len(log) - 1:
            return _both_ways(log, index, start, before, after)
    return [], []


def _both_ways(log: Log, index: int, offset: int, before: int, after: int) -> tuple[Sequence[Record], Sequence[Record]]:
    """Return lines of a log on each side of an offset in one of its files, oldest first."""
    earlier = list(islice(_backwards(log[: index + 1], offset), before))
    return earlier[::-1], list(islice(_forwards(log[index:], offset), after))


def mark(path: Path, *, lines: int, offset: int) -> None:
    """Store how many lines of a finished log come before this offset, so that later lines are found without counting them."""
    with suppress(OSError):  # without a mark the lines are counted
        mark_of(path).write_text(f"{lines} {offset}")


def _marked(path: Path) -> tuple[int, int]:
    """Return the stored mark: a number of lines, and the offset after them."""
    try:
        lines, offset = map(int, mark_of(path).read_text().split())
    except (OSError, ValueError):
        return 0, 0
    return lines, offset


def around_line(path: Path, number: int, *, before: int, after: int) -> Sequence[tuple[int, Record]]:
    """Return the lines of one file around the line with this number (from 1), with their numbers. Empty lines are left out.

    The file is read from its start, or from its mark if that is before the line. Then fewer lines may come before it.
    """
    with opened(path) as file:
        lines, offset = _marked(path)
        if lines >= number or offset > size_of(file):
            lines, offset = 0, 0
        file.seek(offset)
        skipped = lines + _skip_lines(file, number - before - 1 - lines)
        numbered = enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), skipped + 1)
        return [(place, record_of(line)) for place, line in islice(numbered, number - skipped + after) if line.strip()]


def _skip_lines(file: BinaryIO, count: int) -> int:
    """Skip lines, up to the end of the file. Return how many were skipped."""
    skipped = 0
    while skipped < count and (block := file.read(BLOCK)):
        lines = block.count(b"\n")
        if skipped + lines >= count:
            file.seek(-len(block), io.SEEK_CUR)
            for _ in range(count - skipped):
                file.readline()
            return count
        skipped += lines
    return skipped


def last(logs: Sequence[Log], count: int) -> Sequence[Record]:
    """Return the last lines of all logs together, oldest first."""
    tails = [list(islice(_backwards(log, None), count)) for log in logs]
    if len(tails) == 1:
        return tails[0][::-1]
    merged = _by_time(record for tail in tails for record in reversed(tail))
    return merged[-count:] if count else []


def _by_time(records: Iterable[Record]) -> Sequence[Record]:
    return sorted(records, key=lambda record: str(record.get("timestamp", "")))


def fragment(path: Path, offset: int, lines: int) -> Fragment:
    """Return lines of a file from a byte offset on, or none if there is no file."""
    with opened(path) as file:
        size = size_of(file)
        file.seek(min(offset, size))
        records = [record_of(line) for line in islice(_lines(file), lines)]
        end = file.tell()
        return Fragment(records=records, next_offset=end if end < size else None)


async def pieces(path: Path, offset: int) -> AsyncIterator[bytes]:
    """Yield a file's bytes from an offset up to its end of now, or none if there is no file."""
    while piece := await run_sync(_piece, path, offset):
        yield piece
        offset += len(piece)


def _piece(path: Path, offset: int) -> bytes:
    with opened(path) as file:
        file.seek(offset)
        return file.read(_PIECE)


def fragment_of(data: bytes, offset: int, lines: int) -> Fragment:
    """Return lines of a log's last bytes, which begin at its `offset`."""
    file = io.BytesIO(data)
    records = [record_of(line) for line in islice(_lines(file), lines)]
    return Fragment(records=records, next_offset=offset + file.tell() if file.tell() < len(data) else None)


def unfinished(records: Sequence[Record]) -> frozenset[str]:
    """Return the writes that these lines announce and do not confirm. Only the history shows whether they happened."""
    return _writes(records, "store.writing") - _writes(records, "store.written")


def _writes(records: Sequence[Record], event: str) -> frozenset[str]:
    return frozenset(r["write_id"] for r in records if r["event"] == event and isinstance(r.get("write_id"), str))


def _forwards(log: Log, offset: int) -> Iterator[Record]:
    """Yield lines from an offset in the log's first file to the end of its last."""
    for path in log:
        with opened(path) as file:
            file.seek(offset)
            yield from map(record_of, _lines(file))
        offset = 0


def _backwards(log: Log, offset: int | None) -> Iterator[Record]:
    """Yield lines that end before an offset in the log's last file (None: its end), newest first."""
    for path in reversed(log):
        with opened(path) as file:
            yield from map(record_of, _lines_backwards(file, size_of(file) if offset is None else offset))
        offset = None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(_LONGEST_LINE):
        if line.strip():
            yield line


def _lines_backwards(file: BinaryIO, end: int) -> Iterator[bytes]:
    rest = b""
    while end > 0:
        start = max(0, end - BLOCK)
        file.seek(start)
        rest, *lines = (file.read(end - start) + rest[:_LONGEST_LINE]).split(b"\n")
        yield from (line for line in reversed(lines) if line.strip())
        end = start
    if rest.strip():
        yield rest


def _line_with(file: BinaryIO, words: bytes, start: int, end: int) -> int | None:
    """Return the offset of the first line in this part that has these words."""
    position = start
    overlap = b""
    file.seek(start)
    while position < end and (block := file.read(min(BLOCK, end - position))):
        text = overlap + block
        at = text.find(words)
        if at >= 0:
            return _line_start(file, position - len(overlap) + at)
        position += len(block)
        overlap = text[-len(words) :]
    return None


def _line_start(file: BinaryIO, offset: int) -> int:
    start = max(0, offset - BLOCK)
    file.seek(start)
    return start + file.read(offset - start).rfind(b"\n") + 1


def record_of(line: bytes) -> Record:
    text = line.decode(errors="replace").rstrip("\r\n")
    try:
        record = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return {"event": text}
    return record if isinstance(record, dict) and isinstance(record.get("event"), str) else {"event": text}


def size_of(file: BinaryIO) -> int:
    return file.seek(0, io.SEEK_END)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, or an empty one if it does not exist."""
    try:
        file: BinaryIO = path.open("rb")
    except FileNotFoundError:
        file = io.BytesIO()
    with file:
        yield file


_SHOWN_FIRST = ("timestamp", "level", "event", "exception", "rolled_back")


def as_text(record: Mapping[str, Any]) -> str:
    """Return a record as one line, or several with a traceback. A line that was plain text is unchanged."""
    rest = (f"{name}={value}" for name, value in record.items() if name not in _SHOWN_FIRST)
    rolled_back = "(rolled back)" if record.get("rolled_back") else ""
    head = (record.get("timestamp"), record.get("level"), record["event"], *rest, rolled_back)
    line = " ".join(str(part) for part in head if part)
    return f"{line}\n{record['exception']}" if record.get("exception") else line
