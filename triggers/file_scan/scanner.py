"""The algorithm of `s3.new_files` and `file.new_files`, without I/O: pages go in, new versions and positions come out.

The order of things that makes it exact: a scan is listed in key order; each page's new versions are committed together
with the cursor behind it, so that a crash resumes by key; the horizon moves only when a scan has come to its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from triggers.base import JsonObject, Position, StoredPosition
from triggers.errors import SourceChanged
from triggers.file_scan.state import HandledVersions, ScanState, Start, text_of
from triggers.file_scan.versions import NOT_SELECTED, SECOND, FileVersion, Moment, ScanPage, format_moment


class Algorithm(ABC):
    """Asked by the scanner in each scan: `begin` (not when resumed after a crash), `candidates` per page, `end`."""

    @abstractmethod
    def begin(self, state: ScanState, page: ScanPage, handled: HandledVersions) -> ScanState:
        """The state in which a scan runs whose first page this is."""

    @abstractmethod
    def candidates(self, page: ScanPage, state: ScanState, handled: HandledVersions) -> Iterable[FileVersion]:
        """Selected versions of a page; those may be left out that would neither be emitted nor remembered."""

    @abstractmethod
    def end(self, state: ScanState, handled: HandledVersions) -> None:
        """A scan came to its end in `state`: drop from `handled` what can not come again."""


def begun(state: ScanState, clock: Moment, *, next_horizon: Moment | None) -> ScanState:
    baseline = clock if state.baseline == "now" else state.baseline
    return replace(state, began=clock, baseline=baseline, next_horizon=next_horizon)


class WindowAlgorithm(Algorithm):
    """Remembers the versions of the last `lateness`; exact iff none becomes visible later than that.

    A version is skipped below the horizon H. H only ever comes from the source's clock when a scan *began*, less the
    lateness: whatever was below it was listed by that scan, or became visible more than the lateness after its own time.
    """

    def __init__(self, lateness: int) -> None:
        """`lateness` in microseconds: the longest time between a version's own time and its being listed."""
        self._lateness = lateness

    def begin(self, state: ScanState, page: ScanPage, handled: HandledVersions) -> ScanState:  # noqa: ARG002 - the interface
        self._refuse_clock_behind(state, page.clock)
        if not page.is_clock_believed:
            return begun(state, page.clock, next_horizon=state.horizon)
        horizon = max(0, page.clock - self._lateness - SECOND)  # a second, for listings round down to whole ones
        return begun(state, page.clock, next_horizon=horizon if state.horizon is None else max(state.horizon, horizon))

    def _refuse_clock_behind(self, state: ScanState, clock: Moment) -> None:
        """What is stamped by a clock that was set back so far would be taken for old; a start in the future is none."""
        if state.horizon is None or state.up_to is None or not clock < state.horizon <= state.up_to:
            return
        raise SourceChanged(
            f"the source's clock shows {format_moment(clock)}, and files from before {format_moment(state.horizon)} count as "
            "handled: new ones would be missed; set that clock right, or rewind the watcher to the time it shows"
        )

    def candidates(self, page: ScanPage, state: ScanState, handled: HandledVersions) -> Iterable[FileVersion]:  # noqa: ARG002 - the interface
        """In a baseline, what is older than both moments is neither emitted nor remembered."""
        since = state.horizon
        if isinstance(state.baseline, int) and state.next_horizon is not None:
            since = max(since or 0, min(state.baseline, state.next_horizon))
        return page.versions(since)

    def end(self, state: ScanState, handled: HandledVersions) -> None:
        if state.horizon is not None:
            handled.forget_below(state.horizon)


class StrictAlgorithm(Algorithm):
    """Remembers every listed version, so that it does not matter how late one becomes visible."""

    def __init__(self) -> None:
        self._unmet: set[int] | None = None
        """Recorded before this scan began and not met so far. None in a resumed scan: what it met earlier is not known."""

    def begin(self, state: ScanState, page: ScanPage, handled: HandledVersions) -> ScanState:
        self._unmet = set(handled.members)
        if state.horizon is not None:  # a start time, or where a window watcher stood: one baseline from there
            state = replace(state, baseline=state.horizon, horizon=None)
        return begun(state, page.clock, next_horizon=None)

    def candidates(self, page: ScanPage, state: ScanState, handled: HandledVersions) -> Iterable[FileVersion]:  # noqa: ARG002 - the interface
        fingerprints = page.fingerprints()
        if self._unmet is not None:
            before = len(self._unmet)
            self._unmet.difference_update(fingerprints)
            if before - len(self._unmet) == len(fingerprints):  # all were there: most pages, most of the time
                return ()
        members = handled.members
        return [
            page.version(index, fingerprint)
            for index, fingerprint in enumerate(fingerprints)
            if fingerprint not in members and fingerprint != NOT_SELECTED
        ]

    def end(self, state: ScanState, handled: HandledVersions) -> None:  # noqa: ARG002 - the interface
        if self._unmet is not None:
            handled.forget(self._unmet)
            self._unmet = None


QUIET_COMMIT_SECONDS: Final = 60.0
"""What moved without a new version is written at most this often: how far a scan is that a crash would resume, and what
is gone from the strict set. That the clock moved on (horizon, `up_to`) is nothing to write."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """The new versions of one page. `position` None: nothing is worth a write; then `versions` is empty."""

    versions: Sequence[FileVersion]
    watermark: JsonObject
    position: Position | None
    stopped_at: FileVersion | None = None
    """Which no event can name: the scan must not go on."""


class _Unnamed(Exception):
    """Of a new version that no event can name."""

    def __init__(self, version: FileVersion) -> None:
        super().__init__(version.key)
        self.version = version


class Scanner:
    """Begins anew or goes on from a committed position; every position it returns must be committed before the next page."""

    __slots__ = (
        "_algorithm",
        "_handled",
        "_holds_back",
        "_min_age",
        "_nothing_stored",
        "_state",
        "_stops",
        "_unfinished",
        "_written_at",
    )

    def __init__(
        self,
        algorithm: Algorithm,
        stored: StoredPosition | None,
        *,
        start: Start,
        min_age: int,
        now: float,
        stops: bool = False,
    ) -> None:
        """`min_age` in microseconds; `now` on the same clock as in `advance`, in seconds.

        `stops`: at a new version that no event can name; else it counts as handled like all others.
        """
        self._stops = stops
        self._algorithm = algorithm
        self._state = ScanState.starting(start) if stored is None else ScanState.from_json(stored.state)
        self._handled = HandledVersions({} if stored is None else stored.rows)
        self._min_age = min_age
        self._written_at = now
        self._nothing_stored = stored is None
        self._unfinished = self._state.began is not None
        """The stored position is one of a scan under way: its end is written."""
        self._holds_back = self._state.began is not None
        """The scan met, or may have met before it was resumed, a version that was too young."""

    @property
    def cursor(self) -> str | None:
        """The next page to `advance` by is the one after this key."""
        return self._state.cursor

    def advance(self, page: ScanPage, *, now: float) -> Step:
        begins = self._state.began is None
        if begins:
            self._holds_back = False
            self._state = self._algorithm.begin(self._state, page, self._handled)
        must_write = self._nothing_stored or (begins and self._state.is_baseline)
        watermark = self._watermark_of_events()
        candidates = self._algorithm.candidates(page, self._state, self._handled)
        versions: list[FileVersion] = []
        try:
            versions.extend(version for version in candidates if self._is_new(version, page.clock))
        except _Unnamed as unnamed:
            return self._stopped(versions, watermark, unnamed.version, now=now, must_write=must_write)
        due = now - self._written_at >= QUIET_COMMIT_SECONDS
        if page.last is not None:
            self._state = replace(self._state, cursor=page.last)
            must_write = must_write or (due and self._unfinished)
        else:
            self._end()
            must_write = must_write or self._unfinished or (due and self._handled.has_forgotten)
        write = bool(versions) or must_write
        return Step(versions=versions, watermark=watermark, position=self._position(now) if write else None)

    def _stopped(
        self, versions: Sequence[FileVersion], watermark: JsonObject, at: FileVersion, *, now: float, must_write: bool
    ) -> Step:
        """What comes before it is told, and the scan is resumed behind that."""
        if versions:
            self._state = replace(self._state, cursor=versions[-1].key)
        position = self._position(now) if versions or must_write else None
        return Step(versions=versions, watermark=watermark, position=position, stopped_at=at)

    def told_again(self, versions: Sequence[FileVersion], now: float) -> Step:
        """Versions that were handled before, at the position as it is."""
        watermark = {"from": text_of(self._state.up_to), "to": text_of(self._state.up_to)}
        return Step(versions=versions, watermark=watermark, position=self._position(now))

    @property
    def begins_now(self) -> bool:
        """The next page decides what counts as old."""
        return self._state.baseline == "now"

    @property
    def is_settled(self) -> bool:
        """Whether a scan that lists what the last one did would yield nothing, whenever it is made, and nothing waits to be written."""
        return not (
            self._nothing_stored or self._holds_back or self._handled.has_forgotten or self._state.began is not None
        )

    @property
    def up_to(self) -> Moment | None:
        """What was visible, and old enough, before then has been handled; None before the first whole scan."""
        return self._state.up_to

    @property
    def takes_hints(self) -> bool:
        """Whether `look_up` may be called: not before the first page, and not before the end of a baseline."""
        return not self._nothing_stored and not self._state.is_baseline

    def look_up(self, versions: Iterable[FileVersion], *, clock: Moment, now: float) -> Step:
        """Versions that a hint led to, between two pages or two scans; the scans themselves do not notice.

        What is below the horizon of the scan under way is left to it: it emits such versions without recording them.
        """
        state = self._state
        horizon = state.horizon if state.next_horizon is None else state.next_horizon
        recent = (version for version in versions if horizon is None or version.modified >= horizon)
        new = [version for version in recent if self._is_new(version, clock)]
        watermark = {"from": text_of(state.up_to), "to": text_of(state.up_to)}
        return Step(versions=new, watermark=watermark, position=self._position(now) if new else None)

    def _is_new(self, version: FileVersion, clock: Moment) -> bool:
        """Whether to emit it; records it when it is handled and could be met again."""
        state, fingerprint = self._state, version.fingerprint
        if state.horizon is not None and version.modified < state.horizon:
            return False
        if fingerprint in self._handled.members:
            return False
        modified = version.modified
        met_again = state.next_horizon is None or modified >= state.next_horizon
        in_baseline = isinstance(state.baseline, int) and modified < state.baseline
        if met_again and not in_baseline and self._min_age and modified > clock - self._min_age:
            self._holds_back = True
            return False  # too young: left to a later scan
        if self._stops and not in_baseline and version.fault is not None:
            raise _Unnamed(version)
        if met_again:
            self._handled.add(fingerprint, modified)
        return not in_baseline

    def _end(self) -> None:
        state = self._state
        self._state = ScanState(horizon=state.next_horizon, up_to=self._reached())
        self._algorithm.end(self._state, self._handled)

    def _reached(self) -> Moment | None:
        return None if self._state.began is None else self._state.began - self._min_age

    def _position(self, now: float) -> Position:
        self._written_at = now
        self._nothing_stored = False
        self._unfinished = self._state.began is not None
        return Position(
            watermark=self._state.watermark(len(self._handled.members)),
            state=self._state.to_json(),
            rows=self._handled.take_changes(),
        )

    def _watermark_of_events(self) -> JsonObject:
        return {"from": text_of(self._state.up_to), "to": text_of(self._reached())}
