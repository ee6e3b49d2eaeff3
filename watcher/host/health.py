"""How this process is doing, as its parts report it in memory: so it can be told when the database is gone.

`/readyz`, `monitor/health`, the states of watchers, `watcher status` and the metrics all read it here. Nothing of it waits
for the database; what only the database knows of other processes is read elsewhere, within `PROBE_DEADLINE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

from store.catalog.watchers import Polled, WatcherRow
from store.errors import StoreError
from store.values import to_json
from triggers.base import BaseEventTrigger, Finding, JsonValue
from watcher.host.poll_history import Poll, PollHistory, parse
from watcher.host.watchdog import Block

PROBE_DEADLINE: Final = 3.0
"""Seconds that a question for health may wait for the database."""
MISSED: Final = 2
"""Heartbeats that are missing when a part is late."""


@dataclass(frozen=True, kw_only=True)
class Beat:
    """A part's last sign of life, and how many seconds may pass until the next; `since` is `time.monotonic`'s."""

    at: datetime
    since: float
    every: float

    @property
    def is_late(self) -> bool:
        return monotonic() - self.since > MISSED * self.every


@dataclass(kw_only=True, eq=False, slots=True)
class WatcherReport:
    """What the process that hosts a watcher knows of it; its supervisor writes it."""

    starts_now: bool = False
    """What comes before its first position is not seen: whoever relies on it waits for that."""
    state: str = ""
    """As in the watcher's row; '' before this process has claimed the position."""
    error: str | None = None
    error_count: int = 0
    findings: tuple[Mapping[str, str], ...] = ()
    """What a person should look at: `check`, `level`, `message`, `remedy` and `since`."""
    history: PollHistory = field(default_factory=PollHistory)
    has_position: bool = False
    has_failed: bool = False
    polled_at: float | None = None
    """When it last looked, by `time.monotonic`."""
    whole_since: float | None = None
    """When the last whole poll that is committed, or found nothing, began."""
    trigger: BaseEventTrigger[Any, Any] | None = None
    """It knows when a later look began that was made for many watchers, and had nothing for this one; whole, as looks are."""
    looked_at: float = 0.0
    """When the newest such look began that is known: the trigger forgets it when it polls by itself, or fails."""
    up_to: tuple[int, JsonValue] | None = None
    """Where the clock has moved the watermark's `up_to`, and the version of the position that it is of."""

    def show(self, state: str, error: str | None, error_count: int) -> None:
        self.state, self.error, self.error_count = state, error, error_count
        self.has_failed |= state in {"failing", "blocked", "waiting"}

    def note(self, findings: Iterable[Finding]) -> bool:
        """What was found now, in place of what was before; whether that is something else."""
        since = {finding["check"]: finding["since"] for finding in self.findings}
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        noted = tuple(
            {**vars(finding), "since": since.get(finding.check, now)} for finding in findings if finding.level != "ok"
        )
        changed = noted != self.findings
        self.findings = noted
        return changed

    @property
    def findings_json(self) -> str | None:
        return to_json(self.findings) if self.findings else None

    @property
    def is_starting(self) -> bool:
        return self.state in {"", "starting"}

    @property
    def is_awaited(self) -> bool:
        """Readiness waits for its first position."""
        return self.starts_now and not self.has_position and not self.has_failed

    @property
    def polled(self) -> Polled | None:
        """For the watcher's row, once a whole poll has been made."""
        if self.polled_at is None or self.whole_since is None:
            return None
        self.remember_look()
        polled_at, whole_since = max(self.polled_at, self.looked_at), max(self.whole_since, self.looked_at)
        ago, lag = timedelta(seconds=monotonic() - polled_at), math.ceil(max(polled_at - whole_since, 0))
        version, up_to = (None, None) if self.up_to is None else (self.up_to[0], to_json(self.up_to[1]))
        return Polled(ago=ago, lag=lag, version=version, up_to=up_to)

    def remember_look(self) -> None:
        """Take over what the trigger knows of the newest look that was made for many."""
        look = None if self.trigger is None else self.trigger.looked_at
        if self.trigger is None or look is None:
            return
        if look > max(self.looked_at, self.polled_at or 0.0):
            self.looked_at = look
            self.history.look(look)
        if self.up_to is not None:
            self.up_to = (self.up_to[0], self.trigger.up_to or self.up_to[1])


@dataclass(kw_only=True, eq=False)
class Health:
    """Of one process. `waits_for` says why it is not ready as a whole; None once everything has started."""

    recent_block: Callable[[], Block | None] = lambda: None
    waits_for: str | None = None
    restored: str | None = None
    """That the database is an older one than before."""
    reload_fault: str | None = None
    """Why the last reload was refused; None once one was not."""
    watchers: dict[str, WatcherReport] = field(default_factory=dict)
    """The hosted watchers that are not paused."""
    concerns: dict[str, str] = field(default_factory=dict)
    """What a part has to say of its neighbours, by subject; it takes back what is over."""
    awaited: set[str] = field(default_factory=set)
    """Assets of Airflow's whose events were not looked at yet: what comes before the first look is not told."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The watchers that no living triggerer hosts although it should, as far as this one knows, each with the reason."""
    unhosted: frozenset[str] = frozenset()
    """Watchers that start at now and have no position, whose host, if any, has not shown so far that it lives."""
    to_begin: int = 0
    """Watchers of this process that wait until others have begun."""
    _beats: dict[str, Beat] = field(default_factory=dict)
    _ended: list[str] = field(default_factory=list)

    def beat(self, part: str, every: timedelta) -> None:
        """A part has renewed what it holds in the database, and does so again after `every`."""
        self._beats[part] = Beat(at=datetime.now(UTC), since=monotonic(), every=every.total_seconds())

    def end(self, part: str) -> None:
        """A part has ended without being asked to."""
        self._ended.append(part)

    def beat_of(self, part: str) -> Beat | None:
        """The last one of a part of this process."""
        return self._beats.get(part)

    def reasons(self, outage: StoreError | None) -> list[str]:
        """Why this process is not ready, as far as memory tells; `outage` is the database's."""
        return [*([self.waits_for] if self.waits_for else ()), *self._failures(outage)]

    def _failures(self, outage: StoreError | None) -> Iterator[str]:
        for part in self._ended:
            yield f"the {part} has ended by itself; this process ends, start it again"
        if outage is not None:
            yield f"the last commit failed: {outage}"
        for part, beat in self._beats.items():
            if beat.is_late:
                silent = monotonic() - beat.since
                yield (
                    f"the {part}'s heartbeat is late: the last was {silent:.0f} s ago, and one is due every "
                    f"{beat.every:g} s; look after the database and the CPU"
                )
        if self.to_begin:
            yield f"{self.to_begin} watchers have not begun yet; wait until they have"
        for name, report in self._named():
            if report.is_awaited:
                yield f"the watcher {name} has no position yet, and starts at now; wait for its first look at the source"
        for name in sorted(self.unhosted - self.watchers.keys()):
            yield (
                f"the watcher {name} has no position yet, starts at now, and is hosted by nobody who shows that it lives; "
                "wait until the lease of the process that had it ends"
            )
        for name in sorted(self.awaited):
            yield f"the events of Airflow's asset {name} are read from now on; wait for the first look at them"

    def warnings(self) -> list[str]:
        """What a person should look at, although this process is ready."""
        lines = [
            f"the watcher {name} has no position yet and is {report.state}"
            + (f": {report.error}" if report.error else "")
            for name, report in self._named()
            if not report.has_position and report.state not in {"", "starting", "running"}
        ]
        lines += [f"nobody hosts the watcher {name}: {reason}" for name, reason in sorted(self.left_out.items())]
        lines += [self.concerns[subject] for subject in sorted(self.concerns)]
        if self.restored is not None:
            lines.append(self.restored)
        if self.reload_fault is not None:
            lines.append(f"the last reload was refused, and what was there before goes on: {self.reload_fault}")
        block = self.recent_block()
        if block is not None:
            ago = monotonic() - block.since - block.seconds
            lines.append(f"{block.task} kept the event loop for {block.seconds:.1f} s, {ago:.0f} s ago; it must await")
        return lines

    def _named(self) -> list[tuple[str, WatcherReport]]:
        return sorted(self.watchers.items())

    def polls(self, name: str, stored: str | None) -> Sequence[Poll]:
        """A watcher's last polls, the newest first: what this process knows of one that it hosts, else what was stored."""
        report = self.watchers.get(name)
        if report is None:
            return parse(stored)[::-1]
        report.remember_look()
        return report.history.newest_first()

    def merged(self, row: WatcherRow) -> WatcherRow:
        """The row with what this process knows better: it may have been unable to record it."""
        report = self.watchers.get(row.name)
        if report is None or not report.state or row.paused:
            return row
        known: dict[str, Any] = {
            "state": report.state,
            "error": report.error,
            "error_count": report.error_count,
            "findings": report.findings_json,
        }
        if (polled := report.polled) is not None:
            known |= {"up_to_now": polled.up_to, "up_to_version": polled.version}
            known |= {"last_poll_at": row.seen_at - polled.ago, "lag_at_poll": polled.lag}
        return replace(row, **known)
