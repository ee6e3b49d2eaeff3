"""Keeps the log readable while the metadata database is away: what fails for that reason fails again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Final

import structlog
from structlog.typing import EventDict, WrappedLogger

from store.errors import CommitUnknown, ConnectionLost, DatabaseUnavailable, DatabaseUnusable

RECOVERED: Final = "database.recovered"
"""The event that says that the database has taken a commit again after it failed one. `left_out`: the lines not logged."""
LINE_EVERY: Final = 60.0
"""Seconds between two lines of one part about one outage."""
_AWAY: Final = frozenset(
    error.__name__ for error in (CommitUnknown, ConnectionLost, DatabaseUnavailable, DatabaseUnusable)
)
_PART: Final = ("event", "watcher", "dag_id", "run_id")
"""What tells the parts apart that fail."""
_MOST: Final = 10_000
"""The parts that are remembered, at least until their next line."""


@dataclass(kw_only=True, slots=True)
class _Failing:
    line_at: float
    left_out: int = 0


@dataclass(kw_only=True, eq=False)
class OutageLines:
    """A processor of structlog: of the failures of one part by an outage it lets through the first, and one a minute.

    Such a line has `repeated`, the number of failures since the line before. `kind`, the name of the exception's class, shows
    that the database is away. Safe to use from any thread.
    """

    clock: Callable[[], float] = monotonic
    _parts: dict[tuple[object, ...], _Failing] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, _logger: WrappedLogger, _method: str, record: EventDict) -> EventDict:
        if record.get("event") == RECOVERED:
            with self._lock:
                self._end(record)
        elif record.get("kind") in _AWAY:
            with self._lock:
                self._count(record)
        return record

    def _count(self, record: EventDict) -> None:
        """Raise `DropEvent` for a failure that another line stands for."""
        now, part = self.clock(), tuple(record.get(name) for name in _PART)
        failing = self._parts.get(part)
        if failing is None:
            if len(self._parts) >= _MOST:
                self._parts.clear()
            self._parts[part] = _Failing(line_at=now)
            return
        failing.left_out += 1
        if now < failing.line_at + LINE_EVERY:
            raise structlog.DropEvent
        record["repeated"] = failing.left_out
        failing.line_at, failing.left_out = now, 0

    def _end(self, record: EventDict) -> None:
        """End the outage. Raise `DropEvent` if nothing was left out of the log, so that there is nothing to add."""
        left_out = sum(failing.left_out for failing in self._parts.values())
        self._parts.clear()
        if not left_out:
            raise structlog.DropEvent
        record["left_out"] = left_out
