"""The two algorithms: which versions have to be looked at and remembered, and for how long."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from triggers.file_scan.state import HandledVersions, ScanState
from triggers.file_scan.versions import NOT_SELECTED, SECOND, FileVersion, Moment, Page


class Algorithm(ABC):
    """Asked by the scanner in each scan: `begin` (not when resumed after a crash), `candidates` per page, `end`."""

    @abstractmethod
    def begin(self, state: ScanState, clock: Moment, handled: HandledVersions) -> ScanState:
        """The state in which a scan runs whose first page the source dated `clock`."""

    @abstractmethod
    def candidates(self, page: Page, state: ScanState, handled: HandledVersions) -> Iterable[FileVersion]:
        """Selected versions of a page; those may be left out that would neither be emitted nor remembered."""

    @abstractmethod
    def end(self, state: ScanState, handled: HandledVersions) -> None:
        """A scan came to its end in `state`: drop from `handled` what can not come again."""


def begun(state: ScanState, clock: Moment, *, next_horizon: Moment | None) -> ScanState:
    baseline = clock if state.baseline == "now" else state.baseline
    return replace(state, began=clock, baseline=baseline, next_horizon=next_horizon)


class Window(Algorithm):
    """Remembers the versions of the last `lateness`; exact iff none becomes visible later than that.

    A version is skipped below the horizon H. H only ever comes from the source's clock when a scan *began*, less the
    lateness: whatever was below it was listed by that scan, or became visible more than the lateness after its own time.
    """

    def __init__(self, lateness: int) -> None:
        """`lateness` in microseconds: the longest time between a version's own time and its being listed."""
        self._lateness = lateness

    def begin(self, state: ScanState, clock: Moment, handled: HandledVersions) -> ScanState:  # noqa: ARG002 - the interface
        horizon = max(0, clock - self._lateness - SECOND)  # a second, for listings round down to whole ones
        return begun(state, clock, next_horizon=horizon if state.horizon is None else max(state.horizon, horizon))

    def candidates(self, page: Page, state: ScanState, handled: HandledVersions) -> Iterable[FileVersion]:  # noqa: ARG002 - the interface
        """In a baseline, what is older than both moments is neither emitted nor remembered."""
        since = state.horizon
        if isinstance(state.baseline, int) and state.next_horizon is not None:
            since = max(since or 0, min(state.baseline, state.next_horizon))
        return page.versions(since)

    def end(self, state: ScanState, handled: HandledVersions) -> None:
        if state.horizon is not None:
            handled.forget_below(state.horizon)


class Strict(Algorithm):
    """Remembers every listed version, so that it does not matter how late one becomes visible."""

    def __init__(self) -> None:
        self._unmet: set[int] | None = None
        """Recorded before this scan began and not met so far. None in a resumed scan: what it met earlier is not known."""

    def begin(self, state: ScanState, clock: Moment, handled: HandledVersions) -> ScanState:
        self._unmet = set(handled)
        if state.horizon is not None:  # a start time, or where a window watcher stood: one baseline from there
            state = replace(state, baseline=state.horizon, horizon=None)
        return begun(state, clock, next_horizon=None)

    def candidates(self, page: Page, state: ScanState, handled: HandledVersions) -> Iterable[FileVersion]:  # noqa: ARG002 - the interface
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
