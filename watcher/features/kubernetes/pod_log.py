"""A driver's log, copied from its node into a file of ours, so that it outlives the pod and has offsets.

The node tells lines by their timestamps only. What was copied is a pair: the size of the file and the last timestamp in it,
in a file of its own that is replaced at once. Whatever stands behind that size is copied again, so a crash in between, or
another home, neither loses a line nor has one twice.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_GAP: Final = b"asset-watcher: lines before this one are missing: the node had removed them before they were read\n"
COPY_EVERY: Final = 2.0
"""Seconds between two requests for the log of a running driver, at first and while somebody reads it."""
SLOWEST_COPY: Final = 30.0
"""The longest pause between two requests: each costs a millisecond of CPU time, and a log that nobody reads now need not be whole
before the end."""
_READ_WITHIN: Final = 15.0
"""Seconds for which a log counts as being read after it was."""
MOST_AT_ONCE: Final = 4_000_000
"""Bytes that are asked for at a time. A node keeps 10 MB of a container's log by default."""


@dataclass(frozen=True, kw_only=True)
class CopiedUpTo:
    """How much was copied: the file's size, the last line's timestamp, and how many lines have that timestamp."""

    size: int = 0
    timestamp: str = ""
    lines: int = 0

    @property
    def since(self) -> str | None:
        return self.timestamp or None


@dataclass(frozen=True, kw_only=True)
class NewLines:
    """What a node's answer adds to the copy."""

    content: bytes
    timestamp: str
    lines: int


@dataclass
class CopyPace:
    """When the log of a running driver is copied next, in seconds of the caller's clock. Each pause is twice the one before."""

    copied_at: float = -math.inf
    read_at: float = -math.inf
    pause: float = COPY_EVERY / 2
    copied: CopiedUpTo | None = None
    """How far it was copied by this process; None: not at all, and the file beside the copy knows."""

    def is_due(self, now: float) -> bool:
        is_read = now - self.read_at < _READ_WITHIN
        return now >= self.copied_at + (min(self.pause, COPY_EVERY) if is_read else self.pause)

    def note(self, now: float) -> None:
        """Take note of a copy."""
        self.pause = min(2 * self.pause, SLOWEST_COPY)
        self.copied_at = now


def new_lines(answer: bytes, copied: CopiedUpTo) -> NewLines:
    """Return the lines behind the last one that was copied, without their timestamps. An unfinished line is left for later.

    The answer begins in the second of `copied`, so it has the last line that was copied, unless the node has removed that.
    """
    content, timestamp, lines, again = b"", copied.timestamp, copied.lines, 0
    for line in answer.splitlines(keepends=True):
        moment, space, text = line.partition(b" ")
        at = moment.decode(errors="replace")
        if not space or not line.endswith(b"\n") or at < copied.timestamp:
            continue
        if at == copied.timestamp and again < copied.lines:
            again += 1
            continue
        content += text
        lines = lines + 1 if at == timestamp else 1
        timestamp = at
    if content and again < copied.lines:
        content = _GAP + content
    return NewLines(content=content, timestamp=timestamp, lines=lines)


@dataclass(frozen=True)
class CopiedLog:
    """The copy in a file, and how far it goes in another one. Blocking."""

    file: Path
    state: Path

    def read_state(self) -> CopiedUpTo:
        try:
            state = json.loads(self.state.read_bytes())
        except FileNotFoundError:
            return CopiedUpTo()
        return CopiedUpTo(size=state["size"], timestamp=state["timestamp"], lines=state["lines"])

    def add(self, answer: bytes) -> CopiedUpTo:
        """Add what is new in a node's answer to the copy, and return how far it goes. Only one process may do so at a time."""
        copied = self.read_state()
        new = new_lines(answer, copied)
        if not new.content:
            return copied
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab") as file:
            file.truncate(copied.size)
            file.write(new.content)
            size = file.tell()
        state = CopiedUpTo(size=size, timestamp=new.timestamp, lines=new.lines)
        written = self.state.with_suffix(".new")
        written.write_text(json.dumps(asdict(state)), encoding="utf-8")
        os.replace(written, self.state)  # noqa: PTH105
        return state

    def note_lost(self, why: str) -> None:
        """Say at the end of the copy that the rest cannot be read. It is said once, and goes when there is more to add."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("ab") as file:
            file.truncate(self.read_state().size)
            file.write(f"asset-watcher: the end of the log could not be read: {why}\n".encode())
