"""Algorithm `strict`: remembers every listed version, so that it does not matter how late one becomes visible."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from triggers.files.algorithm import Algorithm, begun
from triggers.files.handled import Handled
from triggers.files.moments import Moment
from triggers.files.state import ScanState
from triggers.files.version import NOT_SELECTED, FileVersion, Page


class Strict(Algorithm):
    def __init__(self) -> None:
        self._unmet: set[int] | None = None
        """Recorded before this scan began and not met so far. None in a resumed scan: what it met earlier is not known."""

    def begin(self, state: ScanState, clock: Moment, handled: Handled) -> ScanState:
        self._unmet = set(handled)
        if state.horizon is not None:  # a start time, or where a window watcher stood: one baseline from there
            state = replace(state, baseline=state.horizon, horizon=None)
        return begun(state, clock, next_horizon=None)

    def candidates(self, page: Page, state: ScanState, handled: Handled) -> Iterable[FileVersion]:  # noqa: ARG002 - the interface
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

    def end(self, state: ScanState, handled: Handled) -> None:  # noqa: ARG002 - the interface
        if self._unmet is not None:
            handled.forget(self._unmet)
            self._unmet = None
