"""Of the failures of one part by one outage, the log has the first, and one line a minute with their number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from watcher.host.logs.outages import LINE_EVERY, RECOVERED, OutageLines


@dataclass
class Log:
    """A log with a clock that is moved by hand."""

    now: float = 0.0

    def __post_init__(self) -> None:
        self._lines = OutageLines(clock=lambda: self.now)

    def __call__(self, event: str, **fields: Any) -> dict[str, Any] | None:
        """Return the line of a record; None if it has none."""
        try:
            return dict(self._lines(None, "error", {"event": event, **fields}))
        except structlog.DropEvent:
            return None


@pytest.mark.parametrize("kind", ["ConnectionLost", "DatabaseUnavailable", "CommitUnknown", "DatabaseUnusable"])
def test_a_part_logs_its_first_failure_and_then_one_line_a_minute_with_a_count(kind: str) -> None:
    log = Log()
    lines = []
    for second in range(150):
        log.now = float(second)
        lines.append(log("scheduler.failed", kind=kind, error=f"no answer {second}"))
    kept = [(second, line.get("repeated"), line["error"]) for second, line in enumerate(lines) if line is not None]
    assert kept == [(0, None, "no answer 0"), (60, 60, "no answer 60"), (120, 60, "no answer 120")]


def test_each_part_has_lines_of_its_own_and_other_records_pass() -> None:
    log = Log()
    parts = [{"watcher": "a"}, {"watcher": "b"}, {}, {"dag_id": "j", "run_id": "1"}, {"dag_id": "j", "run_id": "2"}]
    for expected in (True, False):
        written = [log("watcher.failed", kind="ConnectionLost", **part) for part in parts]
        assert [line is not None for line in written] == len(parts) * [expected]
    assert all(log("watcher.failed", kind="SourceUnavailable", watcher="a") for _ in range(3))
    assert all(log("watcher.polled") for _ in range(3))


def test_the_end_of_an_outage_says_how_many_lines_were_left_out_and_the_next_one_begins_anew() -> None:
    log = Log()
    assert log(RECOVERED) is None
    for _ in range(3):
        log("a.failed", kind="ConnectionLost")
        log("b.failed", kind="ConnectionLost")
    assert log(RECOVERED) == {"event": RECOVERED, "left_out": 4}
    assert log(RECOVERED) is None
    assert log("a.failed", kind="ConnectionLost") == {"event": "a.failed", "kind": "ConnectionLost"}
    assert log(RECOVERED) is None, "nothing was left out"
    log("a.failed", kind="ConnectionLost")
    log.now = 2 * LINE_EVERY
    assert (log("a.failed", kind="ConnectionLost") or {}).get("repeated") == 1
