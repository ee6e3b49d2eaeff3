"""Types that the options of several triggers share."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_PATTERN: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_LONGEST: Final = timedelta(days=36_500)  # so that no sum with a date overflows


def parse_duration(value: object) -> timedelta:
    """`500ms`, `10s`, `5m`, `2h`, `7d`, or a timedelta as it is; raises ValueError for all else, a bare number too."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and (match := _PATTERN.fullmatch(value)):
        duration = int(match[1]) * _UNITS[match[2]]
        if duration <= _LONGEST:
            return duration
    raise ValueError("write a duration of at most 36500d as a whole number and its unit, like 500ms, 10s, 5m, 2h or 7d")


def format_duration(value: timedelta) -> str:
    """The shortest text that `parse_duration` reads back; `value` is a whole number of milliseconds."""
    if not value:
        return "0s"
    name, unit = next((name, unit) for name, unit in _UNITS.items() if not value % unit)
    return f"{value // unit}{name}"


Duration: TypeAlias = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^{_PATTERN.pattern}$", "examples": ["10s"]}),
]
"""A length of time as the YAML writes it; never negative."""
