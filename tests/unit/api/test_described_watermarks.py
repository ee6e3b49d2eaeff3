"""Watermarks in words and numbers, described by the class of their trigger."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from store.catalog.watchers import WatcherRow
from triggers.local_folder.new_files import FileNewFiles
from watcher.configuration.vocabulary import Descriptions, describe
from watcher.host.metrics import Metrics
from watcher.host.metrics_snapshot import MetricsSnapshot

SINCE = "2026-11-20T09:00:00Z"
HELD = {"transaction": "4/17", "pid": 4711, "since": SINCE}
PREPARED = {"transaction": "-1/733", "pid": None, "since": SINCE}
WAITS_FOR_4711 = f"the oldest writer waited for is pid 4711, since {SINCE}"
WAITS_FOR_THE_PREPARED = f"the oldest writer waited for is the prepared transaction -1/733, since {SINCE}"


@pytest.mark.parametrize(
    ("watermark", "sentence"),
    [
        (None, ""),
        ("free text", ""),
        (["gaps"], ""),
        ({"up_to": None, "rewound_to": "now"}, ""),
        ({"up_to": 12, "gaps": 0, "open_ids": 0, "oldest": None}, ""),
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
def test_what_is_open_is_described_in_words(watermark: Any, sentence: str) -> None:
    assert describe("postgres.new_rows", watermark).sentence == sentence


@pytest.mark.parametrize(
    ("trigger", "watermark", "gauges"),
    [
        ("postgres.new_rows", {"gaps": 3, "open_ids": 5, "oldest": HELD}, {"gaps": 3}),
        ("postgres.new_rows", {"gaps": 0, "oldest": None}, {"gaps": 0}),
        ("postgres.new_rows", {"seen": 3, "oldest": None}, {}),
        ("s3.new_files", {"gaps": 3}, {}),
        ("nobodys.Trigger", {"gaps": 3}, {}),
        ("unknown", {"gaps": 3}, {}),
    ],
)
def test_gaps_are_counted_if_the_trigger_reports_them(trigger: str, watermark: Any, gauges: Any) -> None:
    description = describe(trigger, watermark)
    assert (description.gauges, description.fault) == (gauges, None)


class Talkative(FileNewFiles):
    """A trigger that describes arbitrary gauges."""

    @classmethod
    def describe(cls, watermark: Any) -> tuple[str, dict[str, float]]:
        return watermark["sentence"], watermark["gauges"]


TALKATIVE = f"{__name__}.{Talkative.__name__}"


@pytest.mark.parametrize(
    "watermark",
    [{}, {"sentence": "", "gauges": 3}, {"sentence": "", "gauges": {"a": "x"}}, {"sentence": "", "gauges": {"a b": 1}}],
)
def test_a_class_that_fails_to_describe_is_reported_by_name(watermark: Any) -> None:
    description = describe(TALKATIVE, watermark)
    assert description.fault == description.sentence
    assert TALKATIVE in description.sentence
    assert description.sentence.endswith("correct its `describe`")


def test_prometheus_can_parse_every_description_of_a_trigger() -> None:
    rows = [
        row("orders_rows", '{"gaps": 2, "open_ids": 2}', "postgres.new_rows"),
        row("inbox_files", '{"seen": 3}', "file.new_files"),
        row("never_ran", None, "postgres.new_rows"),
        row("broken", "{}", TALKATIVE),
        row(
            "talkative",
            '{"sentence": "", "gauges": {"depth": 7, "errors": 1, "items_total": 1, "poll_seconds_sum": 1}}',
            TALKATIVE,
        ),
    ]
    with capture_logs() as logs:
        description_of = Descriptions().of_watcher
        snapshot = MetricsSnapshot(is_ready=True, has_database=True, watchers=rows, description_of=description_of)
        text, _ = Metrics().exposition(snapshot)
    lines = text.decode().splitlines()
    assert [line for line in lines if line.startswith(("watcher_gaps", "watcher_depth"))] == [
        'watcher_gaps{asset="shop",watcher="orders_rows"} 2.0',
        'watcher_depth{asset="shop",watcher="talkative"} 7.0',
    ]
    assert len(lines) == len(set(lines))
    assert [(log["event"], log["watcher"], log.get("gauge")) for log in logs] == [
        ("watcher.not_described", "broken", None),
        ("watcher.gauge_refused", "talkative", "errors"),
        ("watcher.gauge_refused", "talkative", "items_total"),
        ("watcher.gauge_refused", "talkative", "poll_seconds_sum"),
    ]


def row(name: str, watermark: str | None, trigger: str) -> WatcherRow:
    return WatcherRow(
        name=name,
        asset_id=1,
        asset="shop",
        trigger=trigger,
        up_to_now=None,
        up_to_version=None,
        state="running",
        paused=False,
        owner=None,
        position_version=1,
        watermark=watermark,
        last_poll_at=None,
        lag_at_poll=None,
        seen_at=datetime(2026, 11, 20, tzinfo=UTC),
        last_event_at=None,
        error=None,
        error_count=0,
    )
