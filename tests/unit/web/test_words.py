"""Formatting of values on pages."""

from __future__ import annotations

from watcher.features.pages.words import SHORT, cost, duration, pretty, visible


def test_durations_and_texts_are_formatted() -> None:
    assert [duration(seconds) for seconds in (0, 59, 61, 3_600, 11_000, 40_000, 200_000)] == [
        "0 s",
        "59 s",
        "1 min 1 s",
        "1 h",
        "3 h 3 min",
        "11 h",
        "2 d 7 h",
    ]
    assert pretty("9" * 5000) == "9" * 5000
    assert visible("a\u202eb\tc") == "a\\u202eb\tc"
    assert SHORT < 1000


def test_the_known_costs_of_a_try_are_shown() -> None:
    assert cost(None) == ""
    assert cost('{"cpu_seconds": 4.12, "peak_memory_mb": 1410}') == "4.1 s of CPU, 1,410 MB"
    assert cost('{"rows_read": 12000, "rows_written": 0}') == "12,000 rows read"
