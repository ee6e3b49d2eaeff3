"""Configures structlog for the process: one JSON line per record, on stderr and in the file of its subject."""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from config.models.settings import LogSettings
from watcher.host.logs.outages import OutageLines
from watcher.host.logs.paths import InvalidLogName, rotated, try_log, watcher_log

_TRY: Final = ("dag_id", "run_id", "task_id", "map_index", "try_number")
_FIRST: Final = ("timestamp", "level", "event")
_MB: Final = 1_000_000
OPEN_AT_MOST: Final = 512
"""The number of log files that a process keeps open. Opening one for each record costs more than the record."""
_ENCODER: Final = json.JSONEncoder(default=repr)


@contextmanager
def configure(
    directory: Path, *, level: str, json: bool, owner: str, max_file_mb: int, open_files: int = OPEN_AT_MOST
) -> Iterator[None]:
    """Send every record of this process, also those of libraries, where it belongs, until the block ends.

    `owner` stands for this process in the names of the watchers' files. `json` False makes stderr readable for people;
    files always hold JSON lines. At most `open_files` of them are kept open.
    """
    files = LogFiles(max_bytes=max_file_mb * _MB, open_at_most=open_files)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    for_people: list[Processor] = [
        _readable,
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False),
    ]
    ends: list[Processor] = [
        structlog.processors.format_exc_info,
        _Keep(files=files, directory=directory, owner=owner, as_line=json),
        *([] if json else for_people),
    ]
    threshold = logging.getLevelNamesMapping()[level.upper()]
    before = structlog.get_config()
    structlog.configure(
        processors=[*shared, OutageLines(), *ends],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Stderr(sys.stderr))),
        cache_logger_on_first_use=False,  # the loggers of modules must follow when the block ends
    )
    try:
        with _libraries(shared, ends, max(threshold, logging.WARNING)):
            yield
    finally:
        structlog.configure(**before)
        files.close()


@contextmanager
def _libraries(shared: list[Processor], ends: list[Processor], threshold: int) -> Iterator[None]:
    """Send the records of libraries through `logging`, from warnings up, the same way."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ends],
        )
    )
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(threshold)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


class _Stderr:
    """The stream that structlog writes to. Each record is one write to the operating system, without a text stream's layers.

    A full disk behind stderr, or a reader that is gone, ends no daemon.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        try:
            self._handle: int | None = stream.fileno()
        except (OSError, ValueError):  # somebody captures what is written in this process
            self._handle = None

    def write(self, text: str) -> None:
        with suppress(OSError):
            if self._handle is None:
                self._stream.write(text)
                return
            data = text.encode(errors="backslashreplace")
            while data:
                data = data[os.write(self._handle, data) :]

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""


@dataclass(frozen=True, kw_only=True)
class _Keep:
    """Appends a record to the log of its watcher or try, and returns it or its line.

    A full or broken disk stops no watcher: the record then still reaches stderr, with the reason.
    """

    files: LogFiles
    directory: Path
    owner: str
    as_line: bool

    def __call__(self, _logger: WrappedLogger, _method: str, record: EventDict) -> EventDict | str:
        line = _line(record)
        try:
            self._append(record, line)
        except (OSError, InvalidLogName) as error:
            record["not_kept"] = str(error)
            line = _line(record)
        return line if self.as_line else record

    def _append(self, record: EventDict, line: str) -> None:
        if all(name in record for name in _TRY):
            self.files.append(try_log(self.directory, *(record[name] for name in _TRY)), line, rotate=False)
        if "watcher" in record:
            self.files.append(watcher_log(self.directory, record["watcher"], self.owner), line, rotate=True)


def _readable(_logger: WrappedLogger, _method: str, record: EventDict) -> EventDict:
    """Make `stack` a text, as the renderer requires."""
    if isinstance(stack := record.get("stack"), list):
        record["stack"] = "\n".join(stack)
    return record


def _line(record: Mapping[str, Any]) -> str:
    first = {name: record[name] for name in _FIRST if name in record}
    return _ENCODER.encode({**first, **record})


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


class LogFiles:
    """Appends lines, each with one write, so that lines of several writers do not mix. Safe to use from any thread.

    Lines go to the operating system at once and are not synced: a record survives a killed process, not a power cut.
    """

    def __init__(self, *, max_bytes: int, open_at_most: int = OPEN_AT_MOST) -> None:
        self._max_bytes = max_bytes
        self._open_at_most = open_at_most
        self._handles: OrderedDict[Path, int] = OrderedDict()
        self._lock = threading.Lock()

    def append(self, path: Path, line: str, *, rotate: bool) -> None:
        """Append a line (without its end). `rotate` renames a full file first; use it for files that only this process writes.

        Raises `OSError` also when the disk has room for only a part of the line. A file with other writers may end in half
        a line; ours then begins on a new one.
        """
        data = line.encode() + b"\n"
        with self._lock:
            handle, size = self._handle(path)
            if rotate:
                if size and size + len(data) > self._max_bytes:
                    handle, size = self._rotate(path), 0
            elif size and os.pread(handle, 1, size - 1) != b"\n":
                data = b"\n" + data
            if os.write(handle, data) < len(data):
                if rotate:  # nobody else has written behind it
                    os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def close(self) -> None:
        """Close all handles; a later `append` opens them again."""
        with self._lock:
            while self._handles:
                os.close(self._handles.popitem()[1])

    def _handle(self, path: Path) -> tuple[int, int]:
        """Return the file's handle and its size."""
        handle = self._handles.get(path)
        if handle is not None:
            status = os.fstat(handle)
            if status.st_nlink:
                self._handles.move_to_end(path)
                return handle, status.st_size
            os.close(self._handles.pop(path))  # a clean-up removed it
        return self._open(path)

    def _open(self, path: Path) -> tuple[int, int]:
        handle = self._handles[path] = _opened(path)
        if len(self._handles) > self._open_at_most:
            os.close(self._handles.popitem(last=False)[1])
        return handle, os.fstat(handle).st_size

    def _rotate(self, path: Path) -> int:
        os.close(self._handles.pop(path))
        path.rename(rotated(path, datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")))
        return self._open(path)[0]


def writes_json(logs: LogSettings) -> bool:
    """Return whether stderr gets JSON."""
    if logs.as_json is not None:
        return logs.as_json
    return logs.format == "json" or (logs.format == "auto" and not sys.stderr.isatty())
