"""Durations and numbers in other forms than the YAML's: what was meant."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.amounts import durations_meant, number_meant
from config.models.values import parse_duration


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (24, ["24s", "24m", "24h", "24d"]),
        ("24", ["24s", "24m", "24h", "24d"]),
        (50_000, ["50000s", "50000m", "50000h"]),
        (0, ["0s"]),
        (1.5, []),
        (True, []),
        (None, []),
        ([1], []),
        (-1, []),
        ("24 h", ["1d"]),
        ("36 H", ["36h"]),
        ("1 day", ["1d"]),
        ("2 weeks", ["14d"]),
        ("1.5h", ["90m"]),
        ("10 seconds", ["10s"]),
        ("500 msec", ["500ms"]),
        ("1h30m", ["90m"]),
        ("1h 30min", ["90m"]),
        ("00:10", ["10m"]),
        ("01:00:05", ["3605s"]),
        ("PT10M", ["10m"]),
        ("P1DT12H", ["36h"]),
        ("P", []),
        ("0 days", ["0s"]),
        ("99999 days", []),
        ("10 parsecs", []),
        ("soon", []),
        ("", []),
    ],
)
def test_durations(written: Any, meant: list[str]) -> None:
    assert [*durations_meant(written)] == meant
    for each in meant:
        assert isinstance(parse_duration(each), timedelta)


@pytest.mark.parametrize(
    ("key", "written", "meant"),
    [
        ("memory_mb", "2g", "2048"),
        ("memory_mb", "1.5 GB", "1536"),
        ("memory_mb", "512m", "512"),
        ("memory_mb", "512 MiB", "512"),
        ("memory_mb", "100k", None),
        ("run_retention_days", "90d", "90"),
        ("run_retention_days", "2 weeks", "14"),
        ("run_retention_days", "36h", None),
        ("min_size", "1kB", "1000"),
        ("min_size", "1 KiB", "1024"),
        ("body_bytes", "1.5 MB", "1500000"),
        ("body_bytes", "9999 TB", None),
        ("max_rows", "1,000", "1000"),
        ("max_rows", "1 000 000", "1000000"),
        ("retries", "three", "3"),
        ("retries", "3 times", None),
        ("port", "eighty", None),
        ("retries", 3.5, None),
    ],
)
def test_numbers(key: str, written: Any, meant: str | None) -> None:
    assert number_meant(key, written) == meant


@given(st.text() | st.integers() | st.floats() | st.from_regex(r"P?[0-9.:]{0,9}[ a-zA-Z]{0,5}[0-9]{0,3}[hms]?"))
def test_whatever_is_written_what_is_suggested_is_accepted(written: Any) -> None:
    for each in durations_meant(written):
        parse_duration(each)
    number = number_meant("memory_mb", written)
    assert number is None or int(number) >= 0
