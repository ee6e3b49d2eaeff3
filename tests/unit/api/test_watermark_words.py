"""What is open, in words, from the watermarks that triggers make."""

from __future__ import annotations

from typing import Any

import pytest

from store.catalog.watchers import WatcherRow
from watcher.metrics import Metrics
from watcher.watermarks import open_gaps, what_is_open

SINCE = "2026-11-20T09:00:00Z"
HELD = {"transaction": "4/17", "pid": 4711, "since": SINCE}
PREPARED = {"transaction": "-1/733", "pid": None, "since": SINCE}
WAITS_FOR_4711 = f"the oldest writer waited for is pid 4711, since {SINCE}"
WAITS_FOR_THE_PREPARED = f"the oldest writer waited for is the prepared transaction -1/733, since {SINCE}"


@pytest.mark.parametrize(
    ("watermark", "sentence"),
    [
        (None, None),
        ("free text", None),
        (["gaps"], None),
        ({"up_to": 12, "gaps": 0, "open_ids": 0, "oldest": None}, None),
        ({"up_to": 12, "gaps": 1, "open_ids": 1, "oldest": None}, "1 gap is open (1 id may still come)"),
        (
            {"up_to": 12, "gaps": 2, "open_ids": 5, "oldest": HELD},
            f"2 gaps are open (5 ids may still come); {WAITS_FOR_4711}",
        ),
        (
            {"up_to": 12, "gaps": 1, "open_ids": 5, "oldest": PREPARED},
            f"1 gap is open (5 ids may still come); {WAITS_FOR_THE_PREPARED}",
        ),
        ({"up_to": SINCE, "floor": SINCE, "seen": 3, "oldest": HELD}, WAITS_FOR_4711),
        (
            {"oldest": HELD, "alarm": {"reason": "end it", "user": "app", "state": None, "query": "INSERT …"}},
            f"{WAITS_FOR_4711}; alarm: end it (user app, last statement: INSERT …)",
        ),
        ({"alarm": {"reason": "end it"}}, "alarm: end it"),
    ],
)
def test_what_is_open_is_said_in_words(watermark: Any, sentence: str | None) -> None:
    assert what_is_open(watermark) == sentence


@pytest.mark.parametrize(
    ("watermark", "gaps"),
    [({"gaps": 3}, 3), ({"gaps": 0}, 0), ({"seen": 3}, None), ({"gaps": "3"}, None), (None, None)],
)
def test_gaps_are_counted_where_the_watermark_knows_of_gaps(watermark: Any, gaps: int | None) -> None:
    assert open_gaps(watermark) == gaps


def test_prometheus_reads_the_gaps_of_those_who_know_of_gaps() -> None:
    rows = [row("orders_rows", '{"gaps": 2}'), row("inbox_files", '{"seen": 3}'), row("never_ran", None)]
    lines = Metrics().exposition(rows).decode().splitlines()
    assert [line for line in lines if line.startswith("watcher_gaps")] == [
        'watcher_gaps{asset="shop",watcher="orders_rows"} 2.0'
    ]


def row(name: str, watermark: str | None) -> WatcherRow:
    return WatcherRow(
        name=name,
        asset="shop",
        trigger="any",
        state="running",
        paused=False,
        owner=None,
        position_version=1,
        watermark=watermark,
        last_poll_at=None,
        last_event_at=None,
        lag_seconds=None,
        error=None,
        error_count=0,
    )
