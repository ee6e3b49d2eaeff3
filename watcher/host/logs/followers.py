"""Followed logs. However many clients follow a log, its files are read once, and its lines formatted once.

No task of its own reads: the follower that wakes first after a while does, and passes the lines to the others.
"""

from __future__ import annotations

import io
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, Final

import anyio
import anyio.to_thread

from watcher.host.logs.reader import BLOCK, Log, Record, opened, record_of, size_of

READ_EVERY: Final = 0.25
"""Seconds between two reads. Logs may be on a shared volume, where no file system event reports another machine's writes."""
MOST_PENDING: Final = 1_000_000
"""The number of characters that a client may be behind before its stream ends."""


class Tail:
    """Reads what is appended to a log from now on, also to files that do not exist yet."""

    def __init__(self, logs: Callable[[], Sequence[Log]]) -> None:
        self._logs = logs
        self._ends = {os.fstat(file.fileno()).st_ino: size_of(file) for file in self._files()}

    def read(self) -> Sequence[Record]:
        """Return the complete lines since the last call, file by file."""
        return [record_of(line) for file in self._files() for line in self._new_lines(file)]

    def _files(self) -> Iterator[BinaryIO]:
        for path in [path for log in self._logs() for path in log]:
            # A file set aside between the listing and now is found under its new name next time.
            with opened(path) as file:
                if not isinstance(file, io.BytesIO):
                    yield file

    def _new_lines(self, file: BinaryIO) -> Sequence[bytes]:
        number = os.fstat(file.fileno()).st_ino  # it stays the same when the file is set aside
        known = self._ends.get(number, 0)
        start = known if known <= size_of(file) else 0
        file.seek(start)
        data = file.read(BLOCK)
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) == BLOCK else 0)
        self._ends[number] = start + end
        return [line for line in data[:end].split(b"\n") if line.strip()]


async def follow(tail: Tail, stopping: anyio.Event) -> AsyncGenerator[Sequence[Record], None]:
    """Yield what was appended since the last read, or an empty sequence. Ends when `stopping` is set."""
    while not stopping.is_set():
        yield await anyio.to_thread.run_sync(tail.read)
        with anyio.move_on_after(READ_EVERY):
            await stopping.wait()


@dataclass(kw_only=True, eq=False)
class _Follower:
    pending: list[str] = field(default_factory=list)
    size: int = 0

    def take(self) -> str:
        text = "".join(self.pending)
        self.pending.clear()
        self.size = 0
        return text


@dataclass(kw_only=True, eq=False)
class _SharedTail:
    """The shared end of one log. `shown` formats a record for clients."""

    tail: Tail
    shown: Callable[[Record], str]
    followers: set[_Follower] = field(default_factory=set)
    read_at: float = field(default_factory=anyio.current_time)
    _reading: anyio.Lock = field(default_factory=anyio.Lock)

    async def read(self, after: float = READ_EVERY) -> None:
        """Read what was appended, unless another follower did so less than `after` seconds ago."""
        async with self._reading:
            if anyio.current_time() - self.read_at < after:
                return
            records = await anyio.to_thread.run_sync(self.tail.read)
            self.read_at = anyio.current_time()
        text = "".join(map(self.shown, records))
        for follower in self.followers if text else ():
            follower.pending.append(text)
            follower.size += len(text)


@dataclass(kw_only=True, eq=False)
class Followers:
    """The followers of all logs of a process."""

    _tails: dict[str, _SharedTail] = field(default_factory=dict)

    async def follow(
        self, name: str, logs: Callable[[], Sequence[Log]], shown: Callable[[Record], str], stopping: anyio.Event
    ) -> AsyncGenerator[str, None]:
        """Yield what is appended to the log of this name from now on. The first text is empty. Ends with `stopping`.

        Yields an empty text when nothing is new. Ends, too, for a client that is too far behind.
        """
        if name not in self._tails:
            tail = await anyio.to_thread.run_sync(partial(Tail, logs))
            self._tails.setdefault(name, _SharedTail(tail=tail, shown=shown))
        shared = self._tails[name]
        with self._joined(name, shared) as follower:
            await shared.read(after=0)
            follower.take()
            while not stopping.is_set() and follower.size <= MOST_PENDING:
                yield follower.take()
                with anyio.move_on_after(READ_EVERY):
                    await stopping.wait()
                await shared.read()

    @contextmanager
    def _joined(self, name: str, shared: _SharedTail) -> Iterator[_Follower]:
        follower = _Follower()
        shared.followers.add(follower)
        try:
            yield follower
        finally:
            shared.followers.discard(follower)
            if not shared.followers and self._tails.get(name) is shared:
                del self._tails[name]
