"""The options of a watcher, and types that the options of several triggers share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a host must know of a watcher without knowing its trigger. The options of the watcher decide it."""

    starts_now: bool = False
    """Items from before the first position are not reported, so readiness waits until that position is committed."""
    further_assets: tuple[str, ...] = ()
    """The names of the assets, besides the watcher's own, that its events may be of."""
    parts: tuple[str, ...] | None = None
    """The names of the parts of its events' partition keys, in order. None: the keys have no parts."""
    cleaned_after: timedelta | None = None
    """How long files stay after all jobs have loaded them. None: for ever."""
    names_versions: bool = False
    """Its events name versions of files, and the place of a file has one version at a time."""
    has_slot: bool = False
    """The watcher reads from a replication slot of its own, which must not be dropped while it is configured."""


class BaseOptions(BaseModel):
    """Options of one watcher, from the YAML. Keys that the contract itself uses are taken: trigger, connection.

    pydantic's validation context has `folder`, the folder of the configuration file: relative paths start there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def further_assets(self) -> Sequence[str]:
        """The names of the assets, besides the watcher's own, that its events may be of."""
        return ()

    def facts(self) -> Facts:
        """Return what the host must know. An option named `start` says by `now` that the watcher starts now.

        Override it where other options decide. It is asked once for each configuration.
        """
        return Facts(starts_now=dict(self).get("start") == "now", further_assets=tuple(self.further_assets))


def facts_of(options: BaseModel) -> Facts:
    """Return the facts of a watcher. A plug-in's model that does not derive from `BaseOptions` declares none."""
    return options.facts() if isinstance(options, BaseOptions) else Facts()


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
    """Parse `500ms`, `10s`, `5m`, `2h`, `7d`; a timedelta is returned as it is. Raises ValueError for all else, a bare number too."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and (match := _PATTERN.fullmatch(value)):
        duration = int(match[1]) * _UNITS[match[2]]
        if duration <= _LONGEST:
            return duration
    raise PydanticCustomError(  # the type lets those who read the configuration add what was meant
        "duration", "write a duration of at most 36500d as a whole number and its unit, like 500ms, 10s, 5m, 2h or 7d"
    )


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


def parse_time(value: str | datetime) -> datetime:
    """Return an ISO 8601 date or timestamp in UTC; without a zone it is taken for UTC.

    Raises ValueError, also for a time whose year in UTC is not one of 1 to 9999.
    """
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the calendar") from None


_BYTES: Final = {"": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


def parse_bytes(value: object) -> int:
    """Parse `64kB`, `1MB`, `1GB` (powers of 1,000) or a plain number. Raises ValueError for all else."""
    if isinstance(value, str) and (match := re.fullmatch("([0-9]{1,12})(kB|MB|GB|)", value)):
        return int(match[1]) * _BYTES[match[2]]
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("bytes", "write a number of bytes such as 64kB, 1MB, 1GB (powers of 1,000) or 65536")


Bytes: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]{1,12}(kB|MB|GB)?$"}]}),
]

ENVELOPE: Final = 1_000
"""Bytes of an event beside its items: names, ids and watermarks."""


class BatchOptions(BaseOptions):
    """The size of one event. Subclasses add the number of items."""

    max_bytes: Annotated[Bytes, Field(ge=1_000)] = 1_000_000
    """The most bytes of one event, as JSON; only an event of a single item may be larger."""

    def parts(self, sizes: Sequence[int], most: int) -> Iterator[slice]:
        """Divide items of these sizes into events: each gets at least one item and at most `most` items."""
        if 0 < len(sizes) <= most and sum(sizes) <= self.max_bytes - ENVELOPE:
            yield slice(0, len(sizes))
            return
        first = used = end = 0
        for size in sizes:
            if end > first and (end - first >= most or used + size > self.max_bytes - ENVELOPE):
                yield slice(first, end)
                first, used = end, 0
            used += size
            end += 1
        if end > first:
            yield slice(first, end)
