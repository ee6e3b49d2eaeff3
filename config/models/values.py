"""The forms of values that several sections share: durations, bytes, days, paths, addresses, connections."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

_UNITS: Final = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_DURATION: Final = "([0-9]{1,9})(ms|s|m|h|d)"
_LONGEST: Final = timedelta(days=36_500)  # so that adding one to today's date cannot overflow


def parse_duration(value: object) -> timedelta:
    """The duration that `value` writes; a timedelta is returned as it is. Raises ValueError for all else, a bare number too."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and (match := re.fullmatch(_DURATION, value)):
        duration = int(match[1]) * _UNITS[match[2]]
        if duration <= _LONGEST:
            return duration
    # The type lets `config.sentences` add what was meant.
    raise PydanticCustomError(
        "duration", "must be a duration of at most 36500d, written like `500ms`, `10s`, `5m`, `2h` or `7d`"
    )


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back. `duration` is a whole number of milliseconds."""
    if not duration:
        return "0s"
    name, unit = next((name, unit) for name, unit in _UNITS.items() if not duration % unit)
    return f"{duration // unit}{name}"


Duration: TypeAlias = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION}$", "examples": ["10s"]}),
]
"""A length of time as the YAML writes it: `500ms`, `10s`, `5m`, `2h`, `7d`. It is never negative."""


def _check_positive(duration: timedelta) -> timedelta:
    if not duration:
        raise ValueError("must be longer than 0s")
    return duration


PositiveDuration: TypeAlias = Annotated[Duration, AfterValidator(_check_positive)]

Days: TypeAlias = Annotated[int, Field(ge=0, le=36_500)]

_BYTES: Final = {"": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def _parse_bytes(value: object) -> object:
    if isinstance(value, str) and (match := re.fullmatch("([0-9]{1,12})(kB|MB|GB|)", value)):
        return int(match[1]) * _BYTES[match[2]]
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PydanticCustomError(
        "bytes", "must be a number of bytes such as `64kB`, `16MB`, `1GB` (powers of 1,000) or `65536`"
    )


Bytes: TypeAlias = Annotated[
    int,
    BeforeValidator(_parse_bytes),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]{1,12}(kB|MB|GB)?$"}]}),
]


def _in_folder(path: Path, info: ValidationInfo) -> Path:
    return info.context.folder / path if info.context else path


LocalPath: TypeAlias = Annotated[Path, AfterValidator(_in_folder)]
"""A path on this machine. It is absolute once loaded; relative paths in the YAML start at the YAML's own folder."""


def located(place: str, info: ValidationInfo) -> str:
    """`place` with a relative path joined to the YAML's folder. URLs (`hdfs://…`, `local:…`) stay as they are."""
    if info.context is None or re.match("[A-Za-z][A-Za-z0-9+.-]+:", place):
        return place
    return str(info.context.folder / place)


Place: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(located)]
"""A file or folder, on this machine or as a URL."""


def _check_dotted_path(path: str) -> str:
    first, *others = path.split(".")
    if not others or not all(part.isidentifier() for part in (first, *others)):
        raise ValueError("must be the dotted path of a class, such as `package.module.Class`")
    return path


DottedPath: TypeAlias = Annotated[str, AfterValidator(_check_dotted_path)]


def _check_address(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise ValueError("must begin with `http://` or `https://`")
    return address


Address: TypeAlias = Annotated[str, AfterValidator(_check_address)]


def _check_connection(name: str, info: ValidationInfo) -> str:
    if info.context and (fault := info.context.check_connection(name)):
        raise ValueError(fault)
    return name


ConnectionName: TypeAlias = Annotated[str, AfterValidator(_check_connection)]
