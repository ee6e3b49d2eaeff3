"""Log files read back: the lines around a write, the last lines, and what is appended from now on; and a line as text.

A log is a sequence of files, oldest first: the full ones that were set aside, then the current one. Lines are JSON
records of the daemon; what is none, as a driver's output, becomes a record with the line as its `event`. Files are read
in blocks, not mapped: one that somebody truncates meanwhile would end the process (SIGBUS).
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import anyio
import anyio.to_thread

Record: TypeAlias = Mapping[str, Any]
Log: TypeAlias = Sequence[Path]

LINES: Final = 100
"""Lines shown on each side of a write, unless a request says otherwise."""
_LONGEST_LINE: Final = 65_536
"""Bytes; a longer line is read as several."""
_BLOCK: Final = 1_048_576


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """Some lines of one file; `next_offset` is where the next fragment begins, None at the file's end."""

    records: Sequence[Record]
    next_offset: int | None


def around(logs: Sequence[Log], write_id: str, *, before: int, after: int) -> Sequence[Record] | None:
    """The first line about a write, with the lines before and after it in the same log; None when no log has it."""
    for log in logs:
        for index, path in enumerate(log):
            with _opened(path) as file:
                start = _line_with(file, write_id.encode())
            if start is not None:
                earlier = list(islice(_backwards(log[: index + 1], start), before))
                return [*reversed(earlier), *islice(_forwards(log[index:], start), after + 1)]
    return None


def around_line(path: Path, number: int, *, before: int, after: int) -> Sequence[tuple[int, Record]]:
    """Lines of one file about the one of this number, which counts from 1, with their numbers; empty ones are left out."""
    with _opened(path) as file:
        skipped = _skip_lines(file, number - before - 1)
        numbered = enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), skipped + 1)
        return [(place, _record(line)) for place, line in islice(numbered, number - skipped + after) if line.strip()]


def _skip_lines(file: BinaryIO, count: int) -> int:
    """Go behind so many lines, or to the end; returns how many there were."""
    skipped = 0
    while skipped < count and (block := file.read(_BLOCK)):
        lines = block.count(b"\n")
        if skipped + lines >= count:
            file.seek(-len(block), io.SEEK_CUR)
            for _ in range(count - skipped):
                file.readline()
            return count
        skipped += lines
    return skipped


def last(logs: Sequence[Log], count: int) -> Sequence[Record]:
    """The last lines of all logs together, oldest first."""
    tails = [list(islice(_backwards(log, None), count)) for log in logs]
    if len(tails) == 1:
        return tails[0][::-1]
    merged = sorted((record for tail in tails for record in reversed(tail)), key=lambda r: str(r.get("timestamp", "")))
    return merged[-count:] if count else []


def fragment(path: Path, offset: int, lines: int) -> Fragment:
    """Up to so many lines of a file from a byte offset on; nothing where there is no file."""
    with _opened(path) as file:
        size = _size(file)
        file.seek(min(offset, size))
        records = [_record(line) for line in islice(_lines(file), lines)]
        end = file.tell()
        return Fragment(records=records, next_offset=end if end < size else None)


def fragment_of(data: bytes, offset: int, lines: int) -> Fragment:
    """Up to so many lines of a log's bytes, which begin at `offset` of it and go on to its end."""
    file = io.BytesIO(data)
    records = [_record(line) for line in islice(_lines(file), lines)]
    return Fragment(records=records, next_offset=offset + file.tell() if file.tell() < len(data) else None)


def unfinished(records: Sequence[Record]) -> frozenset[str]:
    """Writes that were announced and not confirmed in these lines: only the history can tell whether they happened."""
    return _writes(records, "store.writing") - _writes(records, "store.written")


def _writes(records: Sequence[Record], event: str) -> frozenset[str]:
    return frozenset(r["write_id"] for r in records if r["event"] == event and isinstance(r.get("write_id"), str))


class Tail:
    """Whatever is appended after this moment to the files of a log, those that are yet to come included."""

    def __init__(self, logs: Callable[[], Sequence[Log]]) -> None:
        self._logs = logs
        self._ends = {os.fstat(file.fileno()).st_ino: _size(file) for file in self._files()}

    def read(self) -> Sequence[Record]:
        """The whole lines that came since the last call, file by file."""
        return [_record(line) for file in self._files() for line in self._new_lines(file)]

    def _files(self) -> Iterator[BinaryIO]:
        for path in [path for log in self._logs() for path in log]:
            # A file set aside between the listing and now is found under its new name next time.
            with _opened(path) as file:
                if not isinstance(file, io.BytesIO):
                    yield file

    def _new_lines(self, file: BinaryIO) -> Sequence[bytes]:
        number = os.fstat(file.fileno()).st_ino  # it stays the same when the file is set aside
        known = self._ends.get(number, 0)
        start = known if known <= _size(file) else 0
        file.seek(start)
        data = file.read(_BLOCK)
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) == _BLOCK else 0)
        self._ends[number] = start + end
        return [line for line in data[:end].split(b"\n") if line.strip()]


def _forwards(log: Log, offset: int) -> Iterator[Record]:
    """Lines from an offset of the log's first file to the end of its last."""
    for path in log:
        with _opened(path) as file:
            file.seek(offset)
            yield from map(_record, _lines(file))
        offset = 0


def _backwards(log: Log, offset: int | None) -> Iterator[Record]:
    """Lines that end before an offset of the log's last file (None: its end), newest first."""
    for path in reversed(log):
        with _opened(path) as file:
            yield from map(_record, _lines_backwards(file, _size(file) if offset is None else offset))
        offset = None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(_LONGEST_LINE):
        if line.strip():
            yield line


def _lines_backwards(file: BinaryIO, end: int) -> Iterator[bytes]:
    rest = b""
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        rest, *lines = (file.read(end - start) + rest[:_LONGEST_LINE]).split(b"\n")
        yield from (line for line in reversed(lines) if line.strip())
        end = start
    if rest.strip():
        yield rest


def _line_with(file: BinaryIO, words: bytes) -> int | None:
    """Where the first line begins that holds these words."""
    position = 0
    overlap = b""
    while block := file.read(_BLOCK):
        text = overlap + block
        at = text.find(words)
        if at >= 0:
            return _line_start(file, position - len(overlap) + at)
        position += len(block)
        overlap = text[-len(words) :]
    return None


def _line_start(file: BinaryIO, offset: int) -> int:
    start = max(0, offset - _BLOCK)
    file.seek(start)
    return start + file.read(offset - start).rfind(b"\n") + 1


def _record(line: bytes) -> Record:
    text = line.decode(errors="replace").rstrip("\r\n")
    try:
        record = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return {"event": text}
    return record if isinstance(record, dict) and isinstance(record.get("event"), str) else {"event": text}


def _size(file: BinaryIO) -> int:
    return file.seek(0, io.SEEK_END)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A file to read from; an empty one where there is none."""
    try:
        file: BinaryIO = path.open("rb")
    except FileNotFoundError:
        file = io.BytesIO()
    with file:
        yield file


LOOK_EVERY: Final = 0.25
"""Seconds. Logs may be on a shared volume, where no file system event tells of another machine's writes."""


async def follow(tail: Tail, stopping: anyio.Event) -> AsyncGenerator[Sequence[Record], None]:
    """Yields what was appended since the last look, an empty sequence if nothing was; ends when `stopping` is set."""
    while not stopping.is_set():
        yield await anyio.to_thread.run_sync(tail.read)
        with anyio.move_on_after(LOOK_EVERY):
            await stopping.wait()


_SHOWN_FIRST = ("timestamp", "level", "event", "exception", "rolled_back")


def as_text(record: Mapping[str, Any]) -> str:
    """One line, or several when it carries a traceback; a line that was plain text stays what it was."""
    rest = (f"{name}={value}" for name, value in record.items() if name not in _SHOWN_FIRST)
    rolled_back = "(rolled back)" if record.get("rolled_back") else ""
    head = (record.get("timestamp"), record.get("level"), record["event"], *rest, rolled_back)
    line = " ".join(str(part) for part in head if part)
    return f"{line}\n{record['exception']}" if record.get("exception") else line
