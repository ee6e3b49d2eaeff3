"""The times of a driver's lease: when it is renewed, when it ends, and when its end is certain without an answer of a node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LeaseTimes:
    """All are seconds. `silent_for` is twice `ends_after`: clocks may differ, and a machine may be slow to kill."""

    renew_every: float = 10.0
    """The pause between two renewals."""
    ends_after: float = 60.0
    """The time without an answer of the API after which the wrapper ends the driver."""
    silent_for: float = 120.0
    """The time after the last renewal in which a driver that no node reports may still run."""
