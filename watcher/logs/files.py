"""Appending records to many log files with few open handles."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from watcher.logs.paths import rotated

_OPEN_AT_MOST: Final = 64


class LogFiles:
    """Appends lines, each with one write, so that lines of several writers do not mix. Safe to use from any thread.

    Handed to the operating system at once, not synced to the disk: a record outlives a killed process, not a power cut.
    """

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._handles: OrderedDict[Path, int] = OrderedDict()
        self._lock = threading.Lock()

    def append(self, path: Path, line: str, *, rotate: bool) -> None:
        """Add a line (without its end). `rotate` sets a full file aside first, for files that only this process writes.

        A file that others write to as well may end in half a line: ours then begins on a line of its own.
        """
        data = line.encode() + b"\n"
        with self._lock:
            handle = self._handle(path)
            size = os.fstat(handle).st_size
            if rotate:
                if size and size + len(data) > self._max_bytes:
                    handle = self._rotate(path)
            elif size and os.pread(handle, 1, size - 1) != b"\n":
                data = b"\n" + data
            os.write(handle, data)

    def close(self) -> None:
        """Close all handles; a later `append` opens them again."""
        with self._lock:
            while self._handles:
                os.close(self._handles.popitem()[1])

    def _handle(self, path: Path) -> int:
        handle = self._handles.get(path)
        if handle is not None and not os.fstat(handle).st_nlink:  # a clean-up removed it
            os.close(self._handles.pop(path))
            handle = None
        if handle is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            self._handles[path] = handle
            if len(self._handles) > _OPEN_AT_MOST:
                os.close(self._handles.popitem(last=False)[1])
        self._handles.move_to_end(path)
        return handle

    def _rotate(self, path: Path) -> int:
        os.close(self._handles.pop(path))
        path.rename(rotated(path, datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")))
        return self._handle(path)
