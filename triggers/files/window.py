"""Algorithm `window`: remembers the versions of the last `lateness`, exact iff none becomes visible later than that.

A version is skipped below the horizon H. H only ever comes from the source's clock when a scan *began*, less the
lateness: whatever was below it was listed by that scan, or became visible more than the lateness after its own time.
"""

from __future__ import annotations

from collections.abc import Iterable

from triggers.files.algorithm import Algorithm, begun
from triggers.files.handled import Handled
from triggers.files.moments import SECOND, Moment
from triggers.files.state import ScanState
from triggers.files.version import FileVersion, Page


class Window(Algorithm):
    def __init__(self, lateness: int) -> None:
        """`lateness` in microseconds: the longest time between a version's own time and its being listed."""
        self._lateness = lateness

    def begin(self, state: ScanState, clock: Moment, handled: Handled) -> ScanState:  # noqa: ARG002 - the interface
        horizon = max(0, clock - self._lateness - SECOND)  # a second, for listings round down to whole ones
        return begun(state, clock, next_horizon=horizon if state.horizon is None else max(state.horizon, horizon))

    def candidates(self, page: Page, state: ScanState, handled: Handled) -> Iterable[FileVersion]:  # noqa: ARG002 - the interface
        """In a baseline, what is older than both moments is neither emitted nor remembered."""
        since = state.horizon
        if isinstance(state.baseline, int) and state.next_horizon is not None:
            since = max(since or 0, min(state.baseline, state.next_horizon))
        return page.versions(since)

    def end(self, state: ScanState, handled: Handled) -> None:
        if state.horizon is not None:
            handled.forget_below(state.horizon)
