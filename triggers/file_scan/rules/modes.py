"""The two modes of a watcher for files: how each tells new versions from handled ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from triggers.errors import SourceChanged
from triggers.file_scan.state.handled import HandledVersions, Removals, unknown
from triggers.file_scan.state.masses import ScanCount, Tally, is_certain
from triggers.file_scan.state.scan_state import ScanState
from triggers.file_scan.versions import NOT_SELECTED, SECOND, FileVersion, Moment, ScanPage, format_moment


class Algorithm(ABC):
    """How a mode tells new versions from handled ones.

    The scanner calls in each scan `begin` (not when it is resumed after a crash), `candidates` for each page, and `end`.
    """

    @abstractmethod
    def begin(self, state: ScanState, page: ScanPage, handled: HandledVersions) -> ScanState:
        """Return the state in which a scan runs; `page` is its first page."""

    @abstractmethod
    def candidates(
        self, page: ScanPage, state: ScanState, handled: HandledVersions, tally: Tally
    ) -> Iterable[tuple[int, FileVersion]]:
        """Return the selected versions of a page that are not handled by their fingerprints, with these.

        Versions may be missing that would be neither emitted nor remembered. Those that are handled are met: the tally counts
        them, if `end` asks for that.
        """

    @abstractmethod
    def end(self, state: ScanState, handled: HandledVersions, began: Moment, tally: Tally) -> ScanCount | None:
        """Drop from `handled` what cannot come again, and note what is absent; the scan that began then came to its end in `state`.

        Return the scan's numbers; None: this scan cannot tell what vanished in it.
        """

    @abstractmethod
    def count_absent(self, handled: HandledVersions, since: Moment) -> int | None:
        """The number of handled versions that are absent since this moment; None: that is not known."""


def begun(state: ScanState, clock: Moment, *, next_horizon: Moment | None) -> ScanState:
    """Return the state of a scan that begins at `clock`."""
    baseline = clock if state.baseline == "now" else state.baseline
    return replace(state, began=clock, baseline=baseline, next_horizon=next_horizon)


class WindowAlgorithm(Algorithm):
    """Remembers the versions of the last `lateness`; exact iff no version becomes visible later than that.

    A version below the horizon H is skipped. H is always the source's clock when a scan *began*, less the lateness:
    whatever is below it was listed by that scan, or became visible more than the lateness after its own time.
    """

    def __init__(self, lateness: int) -> None:
        """`lateness` in microseconds: the longest time between a version's own time and its being listed."""
        self._lateness = lateness
        self._remembered: int | None = None
        """The versions that were remembered when the scan began. None in a resumed scan."""
        self._missing: int | None = None
        """Those of them that the last scan did not list which listed any, among them overwritten ones. None: there was none."""
        self._absent: int | None = None
        """The remembered versions that the last whole scan did not list. None: this is not known."""
        self._removed: set[int] = set()
        """The versions that had been removed on purpose when the scan began, without those that it lists all the same."""
        self._continues: bool | None = None
        """Whether a mass, of which it is certain how many were overwritten, was missed before this instance began."""
        self._is_reselected = False
        """What the scan misses may be what its selection leaves out."""

    def begin(self, state: ScanState, page: ScanPage, handled: HandledVersions) -> ScanState:
        self._remembered, self._is_reselected = len(handled.members), state.reselected is not None
        if handled.removals is not None:
            self._removed = set(handled.removals.removed)
        self._refuse_clock_behind(state, page.clock)
        if not page.is_clock_believed:
            return begun(state, page.clock, next_horizon=state.horizon)
        horizon = max(0, page.clock - self._lateness - SECOND)  # a second, for listings round down to whole ones
        return begun(state, page.clock, next_horizon=horizon if state.horizon is None else max(state.horizon, horizon))

    def _refuse_clock_behind(self, state: ScanState, clock: Moment) -> None:
        """Raise `SourceChanged` for a clock that was set back so far that new files would count as old.

        A start in the future is no such clock.
        """
        if state.horizon is None or state.up_to is None or not clock < state.horizon <= state.up_to:
            return
        raise SourceChanged(
            f"the source's clock shows {format_moment(clock)}, and files from before {format_moment(state.horizon)} count as "
            "handled: new ones would be missed; set that clock right, or rewind the watcher to the time it shows"
        )

    def candidates(
        self, page: ScanPage, state: ScanState, handled: HandledVersions, tally: Tally
    ) -> Iterable[tuple[int, FileVersion]]:
        """Return the versions since the horizon. A baseline neither emits nor remembers what is older than both of its moments."""
        since = state.horizon
        if isinstance(state.baseline, int) and state.next_horizon is not None:
            since = max(since or 0, min(state.baseline, state.next_horizon))
        versions = page.versions(since)
        if self._removed:
            versions = [*versions]
            self._removed.difference_update(version.fingerprint for version in versions)
        others, met = unknown(handled, versions, since=state.horizon)
        tally.met += met
        return others

    def end(self, state: ScanState, handled: HandledVersions, began: Moment, tally: Tally) -> ScanCount | None:  # noqa: ARG002 - the interface
        """Drop what is below the horizon. The first scan that lists anything cannot tell what vanished: some were overwritten."""
        removals = handled.removals
        removed, leaving = (0, 0) if removals is None else self._drop_removed(handled, removals)
        if state.horizon is not None:
            handled.forget_below(state.horizon)
        if self._continues is None:
            self._continues = is_certain(state.vanished)
        remembered, before, self._remembered = self._remembered, self._missing, None
        if remembered is None:
            return None
        remembered -= removed
        self._absent = missing = max(0, remembered - tally.met - leaving)
        if tally.met or tally.fresh or self._is_reselected:
            self._missing = missing
            if before is None:
                self._absent = missing if self._continues else 0
                return None
        others = before or 0
        known, missing = remembered - others, max(0, missing - others)
        return ScanCount(known=known, missing=missing, fresh=tally.fresh, is_certain=before is not None)

    def _drop_removed(self, handled: HandledVersions, removals: Removals) -> tuple[int, int]:
        """Drop what had been removed when the scan began, and was not listed since.

        Return how many these are, and how many others may be gone on purpose since the scan began.
        """
        removed = self._removed & handled.members.keys()
        self._removed = set()
        handled.drop(removed)
        return len(removed), len(removals)

    def count_absent(self, handled: HandledVersions, since: Moment) -> int | None:  # noqa: ARG002 - not known by time
        return self._absent


class StrictAlgorithm(Algorithm):
    """Remembers every listed version, so that it does not matter how late a version becomes visible.

    A version that a complete scan lacks becomes absent: a listing may lie, and a mount may come back.
    """

    def __init__(self) -> None:
        self._unmet: set[int] | None = None
        """The versions recorded before this scan began that it has not met so far. None in a resumed scan: what it met
        before the crash is not known."""
        self._known = 0

    def begin(self, state: ScanState, page: ScanPage, handled: HandledVersions) -> ScanState:
        self._unmet = set(handled.members)
        self._known = len(self._unmet)
        if state.horizon is not None:  # a start time, or where a window watcher stood: one baseline from there
            state = replace(state, baseline=state.horizon, horizon=None)
        return begun(state, page.clock, next_horizon=None)

    def candidates(
        self,
        page: ScanPage,
        state: ScanState,  # noqa: ARG002 - the interface
        handled: HandledVersions,
        tally: Tally,  # noqa: ARG002 - the interface
    ) -> Iterable[tuple[int, FileVersion]]:
        fingerprints = page.fingerprints()
        moments = page.moments()
        if moments is not None and (recorded := [*map(handled.members.get, fingerprints)]) != moments:
            for fingerprint, former, modified in zip(fingerprints, recorded, moments, strict=True):
                if former not in {None, modified}:
                    handled.touch(fingerprint, modified)
        if self._unmet is not None:
            before = len(self._unmet)
            self._unmet.difference_update(fingerprints)
            if before - len(self._unmet) == len(fingerprints):  # all were there: most pages, most of the time
                return ()
        members = handled.members
        return [
            (fingerprint, page.version(index, fingerprint))
            for index, fingerprint in enumerate(fingerprints)
            if fingerprint not in members and fingerprint != NOT_SELECTED
        ]

    def end(self, state: ScanState, handled: HandledVersions, began: Moment, tally: Tally) -> ScanCount | None:  # noqa: ARG002 - the interface
        unmet, self._unmet = self._unmet, None
        if unmet is None:
            return None
        known, missing = self._known, handled.members.keys() & unmet  # others have another name by now
        if (removals := handled.removals) is not None:
            removed = missing & removals.removed
            handled.drop(removed)
            known -= len(removed)
            missing -= removed | removals.leaving
        if missing:
            handled.miss(missing, began)
        return ScanCount(known=known, missing=len(missing), fresh=tally.fresh)

    def count_absent(self, handled: HandledVersions, since: Moment) -> int | None:
        return handled.count_absent(since)
