from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.models.values import format_duration, parse_duration
from triggers import options


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("10s", timedelta(seconds=10)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("0s", timedelta(0)),
    ],
)
def test_a_duration_is_a_number_and_its_unit(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    "value",
    [10, 1.5, None, True, "", "10", "s", "1.5h", "-1s", "1h30m", " 1s", "1 s", "٣s", "36501d", "9999999999s", "PT5M"],
)
def test_anything_else_is_not_a_duration(value: object) -> None:
    with pytest.raises(ValueError, match="must be a duration of at most 36500d, written like `500ms`"):
        parse_duration(value)


@given(st.integers(0, 999_999_999).map(lambda milliseconds: timedelta(milliseconds=milliseconds)))
def test_what_is_written_reads_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(st.from_regex("[0-9]{1,10}(ms|s|m|h|d|w)?", fullmatch=True))
def test_the_options_of_triggers_read_and_write_the_same(text: str) -> None:
    """`triggers` and `config` may not import each other, so durations exist twice. Both must mean the same."""
    try:
        duration = parse_duration(text)
    except ValueError:
        with pytest.raises(ValueError, match="duration"):
            options.parse_duration(text)
    else:
        assert options.parse_duration(text) == duration
        assert options.format_duration(duration) == format_duration(duration)
