"""What tells the two algorithms apart: which versions have to be looked at and remembered, and for how long."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from triggers.files.handled import Handled
from triggers.files.moments import Moment
from triggers.files.state import ScanState
from triggers.files.version import FileVersion, Page


class Algorithm(ABC):
    """Asked by the scanner in each scan: `begin` (not when resumed after a crash), `candidates` per page, `end`."""

    @abstractmethod
    def begin(self, state: ScanState, clock: Moment, handled: Handled) -> ScanState:
        """The state in which a scan runs whose first page the source dated `clock`."""

    @abstractmethod
    def candidates(self, page: Page, state: ScanState, handled: Handled) -> Iterable[FileVersion]:
        """Selected versions of a page; those may be left out that would neither be emitted nor remembered."""

    @abstractmethod
    def end(self, state: ScanState, handled: Handled) -> None:
        """A scan came to its end in `state`: drop from `handled` what can not come again."""


def begun(state: ScanState, clock: Moment, *, next_horizon: Moment | None) -> ScanState:
    baseline = clock if state.baseline == "now" else state.baseline
    return replace(state, began=clock, baseline=baseline, next_horizon=next_horizon)
