"""Lengths of time as the YAML writes them: `500ms`, `10s`, `5m`, `2h`, `7d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_PATTERN: Final = "([0-9]{1,9})(ms|s|m|h|d)"
_LONGEST: Final = timedelta(days=36_500)  # so that adding one to today's date cannot overflow


def parse_duration(value: object) -> timedelta:
    """The duration that `value` writes; a timedelta as it is. Raises ValueError for all else, a bare number too."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and (found := re.fullmatch(_PATTERN, value)):
        duration = int(found[1]) * _UNITS[found[2]]
        if duration <= _LONGEST:
            return duration
    raise ValueError("must be a duration of at most 36500d, written like `500ms`, `10s`, `5m`, `2h` or `7d`")


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back; `duration` is a whole number of milliseconds."""
    if not duration:
        return "0s"
    name, unit = next((name, unit) for name, unit in _UNITS.items() if not duration % unit)
    return f"{duration // unit}{name}"


Duration: TypeAlias = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^{_PATTERN}$", "examples": ["10s"]}),
]
"""Never negative."""


def _check_positive(duration: timedelta) -> timedelta:
    if not duration:
        raise ValueError("must be longer than 0s")
    return duration


PositiveDuration: TypeAlias = Annotated[Duration, AfterValidator(_check_positive)]
