"""The health of this process, kept in memory by its parts, so that it is known even without the database.

`/readyz`, `monitor/health`, the states of watchers, `watcher status` and the metrics all read it here. None of it waits for
the database. What only the database knows about other processes is read elsewhere, within `PROBE_DEADLINE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel

from store.catalog.suspects import FINE
from store.catalog.watchers import Polled, WatcherRow
from store.errors import StoreError
from store.values import to_json
from triggers.base import Finding, JsonValue
from triggers.hosting import SharesPolls
from watcher.host.home import STARTING
from watcher.host.poll_history import PollHistory, parse
from watcher.host.watchdog import Block

PROBE_DEADLINE: Final = 3.0
"""Seconds that a question for health may wait for the database."""
MISSED: Final = 2
"""The number of missing heartbeats after which a part is late."""


@dataclass(frozen=True, kw_only=True)
class Beat:
    """A part's last heartbeat. `since` is a time of `time.monotonic`; the next is due after `every` seconds."""

    at: datetime
    since: float
    every: float

    @property
    def is_late(self) -> bool:
        return monotonic() - self.since > MISSED * self.every


@dataclass(frozen=True, kw_only=True)
class FolderFault:
    """Why a folder of this machine cannot be written to, with its free space, and since when."""

    sentence: str
    since: datetime


AbilityT = TypeVar("AbilityT")


class ReportedTrigger(Protocol):
    """What a report shows of a hosted trigger, which is a `watcher.triggerer.open_triggers.OpenTrigger`."""

    @property
    def options(self) -> BaseModel: ...

    def ability(self, ability: type[AbilityT]) -> AbilityT | None: ...


@dataclass(kw_only=True, eq=False, slots=True)
class WatcherReport:
    """What the hosting process knows about a watcher. The watcher's supervisor writes it."""

    starts_now: bool = False
    """The watcher starts at now: items before its first position are not seen, so readiness waits for that position."""
    state: str = ""
    """The state, as in the watcher's row. Empty before this process has claimed the position."""
    error: str | None = None
    error_count: int = 0
    findings: tuple[Mapping[str, str], ...] = ()
    """The findings for a person: `check`, `level`, `message`, `remedy` and `since`."""
    findings_since: Mapping[str, str] = field(default_factory=dict)
    """Since when each check has its finding, as the watcher's last host has stored it."""
    history: PollHistory = field(default_factory=PollHistory)
    retry_at: float | None = None
    """The time of the next attempt after a failure, by `time.monotonic`. None while the watcher does not wait for one."""
    has_position: bool = False
    has_failed: bool = False
    polled_at: float | None = None
    """The time of the last poll, by `time.monotonic`."""
    whole_since: float | None = None
    """The time at which the last whole poll began that was committed or found nothing."""
    trigger: ReportedTrigger | None = None
    shared_polls: SharesPolls | None = None
    """What knows when a later shared poll began that had nothing for this watcher. Shared polls are whole."""
    looked_at: float = 0.0
    """The time at which the newest known shared poll began. The trigger forgets it when it polls by itself, or fails."""
    up_to: tuple[int, JsonValue] | None = None
    """The version of a position, and the watermark's `up_to` for it, as time has moved it."""

    def show(self, state: str, error: str | None, error_count: int) -> None:
        self.state, self.error, self.error_count = state, error, error_count
        self.has_failed |= state in {"failing", "blocked", "waiting"}

    def note(self, findings: Iterable[Finding]) -> bool:
        """Replace the findings. Return whether they changed."""
        since = {**self.findings_since, **{finding["check"]: finding["since"] for finding in self.findings}}
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        noted = tuple(
            {**vars(finding), "since": since.get(finding.check, now)} for finding in findings if finding.level != "ok"
        )
        changed = noted != self.findings
        self.findings = noted
        self.findings_since = {}  # what is over begins anew
        return changed

    @property
    def findings_json(self) -> str | None:
        return to_json(self.findings) if self.findings else None

    @property
    def next_try_at(self) -> datetime | None:
        """The time of the next attempt after a failure, by this machine's clock."""
        return None if self.retry_at is None else datetime.now(UTC) + timedelta(seconds=self.retry_at - monotonic())

    @property
    def is_starting(self) -> bool:
        return self.state in {"", "starting"}

    @property
    def is_awaited(self) -> bool:
        """True while readiness waits for the first position."""
        return self.starts_now and not self.has_position and not self.has_failed

    @property
    def polled(self) -> Polled | None:
        """The poll times for the watcher's row, or None before the first whole poll."""
        if self.polled_at is None or self.whole_since is None:
            return None
        self.remember_look()
        polled_at, whole_since = max(self.polled_at, self.looked_at), max(self.whole_since, self.looked_at)
        ago, lag = timedelta(seconds=monotonic() - polled_at), math.ceil(max(polled_at - whole_since, 0))
        version, up_to = (None, None) if self.up_to is None else (self.up_to[0], to_json(self.up_to[1]))
        return Polled(ago=ago, lag=lag, version=version, up_to=up_to)

    def remember_look(self) -> None:
        """Take over what the trigger knows about the newest shared poll."""
        look = None if self.shared_polls is None else self.shared_polls.looked_at
        if self.shared_polls is None or look is None:
            return
        if look > max(self.looked_at, self.polled_at or 0.0):
            self.looked_at = look
            self.history.look(look)
        if self.up_to is not None:
            self.up_to = (self.up_to[0], self.shared_polls.up_to or self.up_to[1])


@dataclass(kw_only=True, eq=False)
class Health:
    """The health of one process. `waits_for` says why it is not ready as a whole; None once everything has started."""

    recent_block: Callable[[], Block | None] = lambda: None
    starts_since: datetime | None = None
    """The time at which the process began to start. None once everything has started."""
    waits_for: str | None = None
    restored: str | None = None
    """A sentence that says the database is older than one seen before. None: it is not."""
    reload_fault: str | None = None
    """The reason why the last reload was refused. None after one that was not."""
    watchers: dict[str, WatcherReport] = field(default_factory=dict)
    """The hosted watchers that are not paused."""
    concerns: dict[str, str] = field(default_factory=dict)
    """Warnings about other systems, by subject. A part removes its own when they are over."""
    folders: dict[Path, FolderFault] = field(default_factory=dict)
    """The folders of logs and of the home that cannot be written to."""
    awaited: set[str] = field(default_factory=set)
    """Assets of Airflow that were not polled yet: events before the first poll are not emitted."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The watchers that no living triggerer hosts although one should, as far as this process knows, with the reasons."""
    unhosted: frozenset[str] = frozenset()
    """Watchers that start at now and have no position, and whose host, if any, has not shown yet that it lives."""
    to_begin: int = 0
    """The number of this process's watchers that wait for others to begin."""
    _beats: dict[str, Beat] = field(default_factory=dict)
    _ended: list[str] = field(default_factory=list)

    def beat(self, part: str, every: timedelta) -> None:
        """Note that a part has renewed its lease in the database, and will again after `every`."""
        self._beats[part] = Beat(at=datetime.now(UTC), since=monotonic(), every=every.total_seconds())

    def end(self, part: str) -> None:
        """Note that a part has ended without being asked to."""
        self._ended.append(part)

    def beat_of(self, part: str) -> Beat | None:
        """Return the last heartbeat of a part of this process."""
        return self._beats.get(part)

    def reasons(self, outage: StoreError | None) -> list[str]:
        """Return the reasons why this process is not ready, as far as memory knows. `outage` is the database's."""
        if self.starts_since is not None:  # what else is wrong can only be judged later
            return [f"{STARTING} {self.starts_since:%Y-%m-%d %H:%M:%S} UTC; wait until everything has started"]
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
                    f"{beat.every:g} s; check the database and the CPU"
                )
        if self.to_begin:
            yield f"{self.to_begin} watchers have not begun yet; wait until they have"
        for name, report in self._named():
            if report.is_awaited:
                yield f"the watcher {name} has no position yet, and starts at now; wait for its first poll"
        for name in sorted(self.unhosted - self.watchers.keys()):
            yield (
                f"the watcher {name} has no position yet, starts at now, and is hosted by no process that shows it lives; "
                "wait until the lease of the process that had it ends"
            )
        for name in sorted(self.awaited):
            yield f"the events of Airflow's asset {name} are read from now on; wait for the first poll of them"

    def warnings(self) -> list[str]:
        """Return what a person should check about this process although it is ready."""
        lines = [self.concerns[subject] for subject in sorted(self.concerns)]
        if self.restored is not None:
            lines.append(self.restored)
        if self.reload_fault is not None:
            lines.append(
                f"the last reload was refused, and the configuration before it stays in force: {self.reload_fault}"
            )
        block = self.recent_block()
        if block is not None:
            ago = monotonic() - block.since - block.seconds
            remedy = (
                f"give the watcher {block.watcher} `isolation: process`, or correct its trigger"
                if block.watcher
                else "check whether CPU, memory or the disk of the machine is short"
            )
            culprit = f", because the watcher {block.watcher} held all up" if block.watcher else ""
            lines.append(
                f"nothing was polled or started for {block.seconds:.1f} s, {ago:.0f} s ago{culprit}; if it comes again, {remedy}"
            )
        return lines

    def _named(self) -> list[tuple[str, WatcherReport]]:
        return sorted(self.watchers.items())

    def history(self, name: str, stored: str | None) -> PollHistory:
        """Return a watcher's last polls and lags: from memory if this process hosts it, else as stored."""
        report = self.watchers.get(name)
        if report is None:
            return parse(stored)
        report.remember_look()
        return report.history

    @property
    def suspects(self) -> frozenset[str]:
        """The hosted watchers of which something may be wrong, as far as this process knows."""
        return frozenset(
            name
            for name, report in self.watchers.items()
            if report.error or report.error_count or report.findings or report.state not in {"", *FINE}
        )

    def merged(self, row: WatcherRow) -> WatcherRow:
        """Return the row with what this process knows better, because it may have been unable to store it."""
        report = self.watchers.get(row.name)
        if report is None or not report.state or row.paused:
            return row
        known = replace(
            row,
            state=report.state,
            error=report.error,
            error_count=report.error_count,
            findings=report.findings_json,
            next_try_at=report.next_try_at,
        )
        if (polled := report.polled) is None:
            return known
        return replace(
            known,
            up_to_now=polled.up_to,
            up_to_version=polled.version,
            last_poll_at=row.seen_at - polled.ago,
            lag_at_poll=polled.lag,
        )
