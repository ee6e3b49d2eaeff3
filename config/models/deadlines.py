"""Deadlines: how long a condition may be met in part, and by what time of a day something must have happened.

deadline: 2h
deadline: {by: "07:00", timezone: Europe/Berlin, on: weekdays, since: 12h}
expect_by: "07:00"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self, TypeAlias
from zoneinfo import available_timezones

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from config.models.values import PositiveDuration
from config.names import did_you_mean
from config.section import Section

_TIME: Final = "([01][0-9]|2[0-3]):[0-5][0-9]"
_HOURS: Final = 24
_MINUTES: Final = 60
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_SPELLED: Final = re.compile(
    r"(?P<hour>\d{1,2})(?:[:.h](?P<minute>\d{1,2}))?(?::00)?\s*(?P<half>[ap])?\.?(?:m\.?|h|:|o'clock|uhr|z|utc)?",
    re.IGNORECASE,
)


def _check_time(written: Any) -> Any:
    """Return a time of a day as it is. Raises ValueError, with the time that was meant, for another spelling."""
    if isinstance(written, str) and re.fullmatch(_TIME, written):
        return written
    meant = " or ".join(f'"{time}"' for time in dict.fromkeys(_times_meant(written))) or 'a time such as "07:00"'
    raise ValueError(f"must be a time of the day in quotes, two digits each: write {meant}")


def _times_meant(written: Any) -> Iterator[str]:
    """Yield the times that were probably meant: YAML 1.1 reads `6:00` as 360, and leading zeros of a number are lost."""
    if isinstance(written, int) and not isinstance(written, bool):
        for base in (1, 60, 100, 3600):
            hour, rest = divmod(written, base)
            minute = rest // 60 if base == 3600 else rest  # noqa: PLR2004  seconds of an hour
            if 0 <= hour < _HOURS and minute < _MINUTES and (hour or base == 1):
                yield f"{hour:02}:{minute:02}"
    elif isinstance(written, float):
        yield from _times_meant(f"{written:.2f}")
    elif isinstance(written, str) and (match := _SPELLED.fullmatch(written.strip())):
        hour, minute = int(match["hour"]), int(match["minute"] or 0)
        if match["half"] and hour <= _HOURS // 2:
            hour = hour % (_HOURS // 2) + (_HOURS // 2 if match["half"] in "pP" else 0)
        if hour <= _HOURS and minute < _MINUTES:
            yield f"{hour % _HOURS:02}:{minute:02}"


TimeOfDay: TypeAlias = Annotated[str, Field(pattern=f"^{_TIME}$"), BeforeValidator(_check_time)]
Day: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def _check_zone(zone: str) -> str:
    if zone != "UTC" and zone not in (zones := available_timezones()):
        raise ValueError(f"is not a time zone of the IANA database; {did_you_mean(zone, zones)}")
    return zone


def _check_days(days: tuple[Day, ...]) -> tuple[Day, ...]:
    if not days:
        raise ValueError("must name at least one day")
    return days


TimeZone: TypeAlias = Annotated[str, AfterValidator(_check_zone)]
Days: TypeAlias = Literal["daily", "weekdays"] | Annotated[tuple[Day, ...], AfterValidator(_check_days)]


class ExpectByConfig(Section):
    by: TimeOfDay
    """Time of the day, such as `07:00`, by which it must have happened."""
    timezone: TimeZone = "UTC"
    """Time zone of the IANA database."""
    on: Days = "daily"
    """Days on which it must: `daily`, `weekdays` (Monday to Friday), or a list of `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`."""
    since: PositiveDuration = timedelta(hours=24)
    """How long before that time it may have happened."""

    @property
    def cron(self) -> str:
        """The times as a cron expression."""
        return cron_of(self.by, self.on)


class DeadlineConfig(Section):
    after: PositiveDuration | None = None
    """Maximum time for which the schedule's condition may be met only in part, or events may wait behind a run; after that the alert `waiting_too_long` is raised."""
    by: TimeOfDay | None = None
    """Time of the day, such as `07:00`, by which a run must have succeeded; else the alert `late` is raised."""
    timezone: TimeZone = "UTC"
    """Time zone of the IANA database."""
    on: Days = "daily"
    """Days on which it must: `daily`, `weekdays` (Monday to Friday), or a list of `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`."""
    since: PositiveDuration = timedelta(hours=24)
    """How long before that time the run may have succeeded."""
    then: Literal["alert", "run"] = "alert"
    """What happens when the condition has been met in part for longer than `after`: an alert; or `run`, for jobs with
    `batch.complete`: the partition is run as it is."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.after is None and self.by is None:
            raise ValueError("must have `after` (how long), `by` (a time of the day), or both")
        if self.by is None and self.model_fields_set & {"timezone", "on", "since"}:
            raise ValueError("`timezone`, `on` and `since` have no effect without `by`; remove them, or add it")
        if self.then == "run" and self.after is None:
            raise ValueError("`then: run` needs `after`: how long after its first event a partition is run as it is")
        return self

    @property
    def cron(self) -> str | None:
        """The times as a cron expression; None without `by`."""
        return None if self.by is None else cron_of(self.by, self.on)


def cron_of(by: str, on: Days) -> str:
    """Return the cron expression of a time on days."""
    hour, minute = by.split(":")
    days = (
        {"daily": "*", "weekdays": "1-5"}[on]
        if isinstance(on, str)
        else ",".join(str(_DAYS.index(day) + 1) for day in on)
    )
    return f"{int(minute)} {int(hour)} * * {days}"


def _check_no_time(written: Any) -> Any:
    """Return a duration as it was written. Raises ValueError for a time of a day."""
    if isinstance(written, str) and ":" in written and (time := next(_times_meant(written), None)):
        raise ValueError(f'must be a duration such as `2h`; a time of the day is written `{{by: "{time}"}}`')
    return written


def _kind(given: object) -> str:
    return "clock" if isinstance(given, dict | Section) else "short"


Deadline: TypeAlias = Annotated[
    Annotated[PositiveDuration, BeforeValidator(_check_no_time), Tag("short")]
    | Annotated[DeadlineConfig, Tag("clock")],
    Discriminator(_kind),
]
ExpectBy: TypeAlias = Annotated[
    Annotated[TimeOfDay, Tag("short")] | Annotated[ExpectByConfig, Tag("clock")], Discriminator(_kind)
]
