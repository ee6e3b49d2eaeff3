"""The calendar of a Parquet file's days and moments, and what those of the old calendar are in Spark's new one.

Spark before version 3, and later ones in the mode LEGACY, count in the Julian calendar before 1582-10-15. The same local date
and time are meant in the proleptic Gregorian calendar. Spark's own table has the differences for moments, by time zone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.sources.options import Calendar, ReadOptions

FIRST_DAY: Final = -141_427
"""1582-10-15, from which on both calendars agree."""
DAY: Final = 86_400_000_000
FIRST_MOMENT: Final = -2_208_988_800_000_000
"""1900-01-01, from which on Spark's old and new time zones agree, everywhere."""
_JULIAN_YEAR_0: Final = -719_470
"""March 1st of the year 0 in the Julian calendar."""
_YEAR_1: Final = -62_135_769_600
"""January 1st of the year 1 in the Julian calendar, in seconds."""
_PERIODS: Final = 16_000
"""Periods of 400 Julian years, of 146,100 days, that make each day of 32 bits positive."""
_CENTURIES: Final = 13
"""The records of Spark's table, in each zone, that are about the years 1 to 1582."""
_TABLE: Final = "julian-gregorian-rebase-micros.json"
_UNMARKED: Final = ("", "parquet-mr", "impala", "hive")
"""The writers, as files name them, whose calendar depends on their version and settings."""


class ValueRefused(pa.ArrowInvalid):  # type: ignore[misc] # pyarrow has no types
    """A value does not fit, for the reason that is the message."""


def refuse_if(holds: bool, reason: str) -> None:
    if holds:
        raise ValueRefused(reason)


@dataclass(frozen=True, kw_only=True)
class _Differences:
    """How the moments of a time zone differ between Spark's old and new calendar, in seconds."""

    offset: int
    """How far the old time zone was ahead of UTC before 1582."""
    local: int
    """How much later a moment becomes because the new time zone differs from the old one."""
    later: tuple[tuple[int, int], ...]
    """The moments since 1582 from which on another difference holds, and that difference."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> _Differences:
        """The differences in a record of Spark's table. Before 1582, they are those of the days in all its zones."""
        (begin, difference), *since = zip(record["switches"], record["diffs"], strict=True)
        return cls(offset=_YEAR_1 - begin, local=difference - 172_800, later=tuple(since[_CENTURIES - 1 :]))


_IN_UTC: Final = _Differences(offset=0, local=0, later=((FIRST_DAY * 86_400, 0),))


@dataclass(frozen=True, kw_only=True)
class Calendars:
    """What a file says about its calendars. None: it does not say."""

    days: Calendar | None
    """The calendar of days, and of moments that are not stored as INT96."""
    int96: Calendar | None
    zone: str | None
    """The time zone in which moments were counted in the old calendar."""
    by_spark: bool
    is_exact: bool = False
    """Whether INT96 has nothing but what Spark has, because Spark's own writer wrote the file."""

    def rule(self, family: str) -> Callable[[str, pa.Array], pa.Array] | None:
        """What makes a column proleptic, or refuses, for the reason given, what cannot be known. None: nothing does.

        `family` is `day`, or one of moments in microseconds: `moment`, `int96`, or `local` for those without time zone, which
        Spark never counted in the old calendar.
        """
        calendar = self.int96 if family == "int96" else self.days
        if calendar == "CORRECTED" or (family == "local" and self.by_spark):
            return None
        if family == "day":
            return _rebased_days if calendar else partial(_known, FIRST_DAY, pa.int32())
        zone = "UTC" if family == "local" else self.zone
        if calendar and zone and (differences := _differences(zone)):
            return partial(_rebased_moments, differences)
        return partial(_known, FIRST_DAY * DAY if family == "local" else FIRST_MOMENT, pa.int64())


def calendars_of(metadata: Any, options: ReadOptions) -> Calendars:
    """What the marks in a file's footer say, or else its writer, or else the options."""
    items = (metadata.metadata or {}).items()
    marks = {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in items}
    zone = marks.get("org.apache.spark.timeZone")
    if zone is None and "LEGACY" in {options.calendar, options.int96_calendar}:
        zone = options.time_zone
    writer = next(iter((metadata.created_by or "").lower().split()), "")
    if (version := marks.get("org.apache.spark.version")) is not None:
        parts = [int(part) for part in re.findall(r"\d+", version)[:2]]
        days = _of_spark(parts < [3, 0] or "org.apache.spark.legacyDateTime" in marks)
        int96 = _of_spark(parts < [3, 1] or "org.apache.spark.legacyINT96" in marks)
        return Calendars(days=days, int96=int96, zone=zone, by_spark=True, is_exact=writer == "parquet-mr")
    if writer in _UNMARKED and "iceberg.schema" not in marks:
        return Calendars(days=options.calendar, int96=options.int96_calendar, zone=zone, by_spark=False)
    return Calendars(days="CORRECTED", int96="CORRECTED", zone=zone, by_spark=False)


def _of_spark(legacy: bool) -> Calendar:
    return "LEGACY" if legacy else "CORRECTED"


def _known(first: int, kind: pa.DataType, reason: str, array: pa.Array) -> pa.Array:
    refuse_if(_is_before(first, array.cast(kind)), reason)
    return array


def _is_before(first: int, numbers: pa.Array) -> bool:
    lowest = pc.min(numbers).as_py()
    return lowest is not None and lowest < first


def _rebased_days(_: str, array: pa.Array) -> pa.Array:
    days = array.cast(pa.int32()).cast(pa.int64())
    if not _is_before(FIRST_DAY, days):
        return array
    rebased = pc.if_else(pc.less(days, FIRST_DAY), pc.subtract(days, _lead(days)), days)
    return rebased.cast(pa.int32()).cast(pa.date32())


def _lead(days: pa.Array) -> pa.Array:
    """How many days the Gregorian date with the name of a Julian date comes before it."""
    since = pc.add(days, _PERIODS * 146_100 - _JULIAN_YEAR_0)
    centuries = pc.divide(pc.divide(pc.add(pc.multiply(since, 4), 3), 1461), 100)
    return pc.subtract(pc.subtract(centuries, pc.divide(centuries, 4)), 2 + 3 * _PERIODS)


def _rebased_moments(zone: _Differences, _: str, array: pa.Array) -> pa.Array:
    micros = array.cast(pa.int64())
    if not _is_before(FIRST_MOMENT, micros):
        return array
    days = floor_divided(pc.add_checked(micros, zone.offset * 1_000_000), DAY)
    seconds = pc.subtract(zone.local, pc.multiply(_lead(days), 86_400))
    for begin, difference in zone.later:
        seconds = pc.if_else(pc.less(micros, begin * 1_000_000), seconds, difference)
    return pc.add_checked(micros, pc.multiply(seconds, 1_000_000)).cast(array.type)


def floor_divided(numbers: pa.Array, by: int) -> pa.Array:
    """The quotients, rounded down."""
    quotients = pc.divide(numbers, by)
    return pc.subtract(quotients, pc.greater(pc.multiply(quotients, by), numbers).cast(pa.int64()))


@cache
def _differences(zone: str) -> _Differences | None:
    """The differences in a time zone. None: Spark's table does not have the zone, or is not on this machine."""
    if zone == "UTC":
        return _IN_UTC
    package = find_spec("pyspark")
    homes = [os.environ.get("SPARK_HOME"), *((package and package.submodule_search_locations) or [])]
    folders = [*(Path(home, "jars") for home in homes if home), Path("__spark_libs__")]
    for jar in (jar for folder in folders for jar in sorted(folder.glob("spark-*.jar"))):
        with ZipFile(jar) as archive:
            if _TABLE in archive.namelist():
                records = (each for each in json.loads(archive.read(_TABLE)) if each["tz"] == zone)
                return next(map(_Differences.of, records), None)
    return None
