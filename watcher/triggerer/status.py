"""A watcher's status: its state and findings, in memory for this process and on their way to the watcher's row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from store.catalog.watchers import WatcherState
from triggers.base import Finding
from watcher.host.health import WatcherReport
from watcher.triggerer.rejected_items import RejectedItems
from watcher.triggerer.states import States

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False, slots=True)
class WatcherStatus:
    """Shows what its supervisor reports. `states` writes it for people; without it nothing is written."""

    watcher: str
    report: WatcherReport
    states: States | None = None
    rejected: RejectedItems | None = None
    """The rejected items of the claimed position. None before a position was claimed."""
    blocking: Finding | None = None
    """What the last error showed as a finding, too, until a whole poll has succeeded."""
    _from_trigger: Sequence[Finding] = ()

    def show(self, state: str, error: str | None = None, *, failures: int = 0) -> None:
        """Show a state, with its error and the number of failures in a row."""
        if state != self.report.state:
            log.info("watcher.state", state=state)
        self.report.show(state, error, failures)
        self.record()

    def note(self, findings: Sequence[Finding] | None) -> None:
        """Show the trigger's findings (None: as before) and those about rejected items, in whatever state it is."""
        if findings is not None:
            self._from_trigger = tuple(finding for finding in findings if finding.level != "ok")
        known = {(finding["check"], finding["message"]) for finding in self.report.findings}
        blocking = () if self.blocking is None else (self.blocking,)
        shown = [*self._from_trigger, *blocking, *([] if self.rejected is None else self.rejected.findings)]
        if not self.report.note(shown):
            return
        for finding in shown:
            if (finding.check, finding.message) not in known:
                log_finding = log.info if finding.level == "info" else log.warning
                log_finding("watcher.finding", **vars(finding))
        self.record()

    def record(self) -> None:
        """Have the state written to the watcher's row soon."""
        report = self.report
        if self.states is not None and report.state:
            state = WatcherState(
                state=report.state,
                error=report.error,
                error_count=report.error_count,
                findings=report.findings_json,
                next_try_at=report.next_try_at,
            )
            self.states.show(self.watcher, state)
