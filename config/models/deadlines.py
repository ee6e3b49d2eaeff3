"""Deadlines: how long a condition may be met in part, and by what time of a day something must have happened.

deadline: 2h
deadline: {by: "07:00", timezone: Europe/Berlin, on: weekdays, since: 12h}
expect_by: "07:00"
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final, Literal, Self, TypeAlias
from zoneinfo import available_timezones

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from config.models.values import PositiveDuration
from config.names import did_you_mean
from config.section import Section

_TIME: Final = "([01][0-9]|2[0-3]):[0-5][0-9]"
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

TimeOfDay: TypeAlias = Annotated[str, Field(pattern=f"^{_TIME}$")]
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
    """Maximum time for which the schedule's condition may be met only in part; after that the alert `waiting_too_long` is raised."""
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


def _kind(given: object) -> str:
    return "clock" if isinstance(given, dict | Section) else "short"


Deadline: TypeAlias = Annotated[
    Annotated[PositiveDuration, Tag("short")] | Annotated[DeadlineConfig, Tag("clock")], Discriminator(_kind)
]
ExpectBy: TypeAlias = Annotated[
    Annotated[TimeOfDay, Tag("short")] | Annotated[ExpectByConfig, Tag("clock")], Discriminator(_kind)
]
