"""When a watcher warns of transactions that keep it waiting, and what its watermark says about them."""

from __future__ import annotations

from typing import Any

import pytest

from triggers.postgres.by_id.ledger import MOST_GAPS, Gap, Holder, Ledger
from triggers.postgres.by_id.reader import reason_about_gaps
from triggers.postgres.options import GapAlarm
from triggers.postgres.reading.alarms import describe_what_is_open

NOW = "2026-11-20T09:10:00Z"
LIMITS = GapAlarm.model_validate({"count": 3, "age": "10m"})


def waiting_since(moment: str, *, gaps: int = 1) -> Ledger:
    return Ledger(
        highest=10 * gaps,
        gaps=tuple(Gap(low=10 * n, high=10 * n, holders=frozenset({"4/17"})) for n in range(gaps)),
        holders={"4/17": Holder(pid=4711, since=moment)},
    )


@pytest.mark.parametrize(
    ("ledger", "text"),
    [
        (Ledger(highest=7), None),
        (waiting_since("2026-11-20T09:00:01Z"), None),
        (waiting_since("2026-11-20T09:00:00Z"), "a writer keeps gaps open for too long: end its transaction"),
        (waiting_since(NOW, gaps=2), None),
        (waiting_since(NOW, gaps=3), "too many gaps are open"),
        (
            waiting_since(NOW, gaps=MOST_GAPS),
            "so many gaps are open that newer rows wait until their writers end",
        ),
    ],
    ids=["no gap", "a young gap", "an old gap", "few gaps", "many gaps", "the most gaps"],
)
def test_the_reason_depends_on_the_number_and_the_age_of_gaps(ledger: Ledger, text: str | None) -> None:
    reason = reason_about_gaps(ledger, LIMITS, NOW)

    assert (reason and reason.text) == text
    assert reason is None or reason.transaction == "4/17"


@pytest.mark.parametrize(
    ("watermark", "sentence", "gauges"),
    [
        ({}, "", {}),
        ({"up_to": 9, "gaps": 0, "open_ids": 0, "oldest": None}, "", {"gaps": 0}),
        (
            {"gaps": 1, "open_ids": 1, "oldest": {"transaction": "4/17", "pid": 4711, "since": NOW}},
            f"1 gap is open (1 id may still come); the oldest writer waited for is pid 4711, since {NOW}",
            {"gaps": 1},
        ),
        (
            {
                "oldest": {"transaction": "-1/733", "pid": None, "since": NOW},
                "alarm": {"reason": "too old", "user": "app", "state": None},
            },
            f"the oldest writer waited for is the prepared transaction -1/733, since {NOW}; alarm: too old (user app)",
            {},
        ),
    ],
    ids=["an empty one", "nothing open", "a gap", "an alarm"],
)
def test_a_watermark_in_words(watermark: Any, sentence: str, gauges: dict[str, float]) -> None:
    assert describe_what_is_open(watermark) == (sentence, gauges)
