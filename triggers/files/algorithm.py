"""What tells the two algorithms apart: which versions have to be remembered, and for how long."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

from triggers.files.handled import Handled
from triggers.files.moments import Moment
from triggers.files.state import ScanState


class Algorithm(ABC):
    """Told by the scanner of each scan: `begin` (not for a scan resumed after a crash), `met` per version, `end`."""

    @abstractmethod
    def begin(self, state: ScanState, clock: Moment, handled: Handled) -> ScanState:
        """The state in which a scan runs whose first page the source dated `clock`."""

    def met(self, fingerprint: int) -> None:  # noqa: B027 - only those who care
        """The scan under way came across this version, selected and not below the horizon."""

    @abstractmethod
    def end(self, state: ScanState, handled: Handled) -> None:
        """A scan came to its end in `state`: drop from `handled` what can not come again."""


def begun(state: ScanState, clock: Moment, *, next_horizon: Moment | None) -> ScanState:
    baseline = clock if state.baseline == "now" else state.baseline
    return replace(state, began=clock, baseline=baseline, next_horizon=next_horizon)
