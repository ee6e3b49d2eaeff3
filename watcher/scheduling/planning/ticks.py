"""When a cron expression fires: pure functions of moments. croniter knows the expressions, this module the time zones.

Where the clocks change, the rules are those of Airflow's cron timetables:

a given hour (`30 2 * * *`)   skipped that day: fires later, by as much as the clocks went forward (03:30);
                              repeated that day: fires once, the second time
every hour (`30 * * * *`)     skipped: does not fire; repeated: fires both times
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter

from store.keys import CronSchedule

_FIRST_SEARCH: Final = timedelta(minutes=2)  # a search costs as much as the ticks that it finds
_GROWTH: Final = 4
_LONGEST_SEARCH: Final = timedelta(days=366 * 16)  # beyond the longest pause between two 29ths of February
_MOST_AT_ONCE: Final = 100
_A_DAY: Final = timedelta(days=1)


def between(cron: CronSchedule, after: datetime, until: datetime) -> list[datetime]:
    """All ticks after `after` and not after `until`, in UTC, in order."""
    zone = ZoneInfo(cron.timezone)
    start, end = after.astimezone(zone), until.astimezone(zone)
    # In local time ticks may be out of order, by as much as the clocks change.
    naive = _local_time(start) - _clock_change(start)
    last = _local_time(end) + _clock_change(end)
    schedule = croniter(cron.expression, naive)
    every_hour = schedule.expanded[1] == ["*"]
    ticks: set[datetime] = set()
    try:
        while (naive := schedule.get_next(datetime)) <= last:
            ticks.update(_moments(naive, zone, every_hour=every_hour))
    except CroniterBadDateError:  # none in the years that it searches
        pass
    return sorted(moment for moment in ticks if after < moment <= until)


def following(cron: CronSchedule, moment: datetime) -> datetime | None:
    """The first tick after `moment`; None if there is none for many years."""
    return next(upcoming(cron, moment), None)


def upcoming(cron: CronSchedule, moment: datetime) -> Iterator[datetime]:
    """The ticks after `moment`, in order, without end, unless there is none for many years."""
    search = _FIRST_SEARCH
    while search <= _LONGEST_SEARCH:
        ticks = between(cron, moment, moment + search)
        yield from ticks
        moment += search
        search = search if ticks else search * _GROWTH


def latest(cron: CronSchedule, after: datetime, until: datetime) -> datetime | None:
    """The last tick after `after` and not after `until`; None if there is none."""
    search = _FIRST_SEARCH
    while not (ticks := between(cron, max(after, until - search), until)):
        if until - search <= after:
            return None
        search *= _GROWTH
    return ticks[-1]


def due(cron: CronSchedule, next_tick: datetime, now: datetime, *, catchup: bool) -> list[datetime]:
    """The ticks from `next_tick` to now that get a run: with `catchup` each (the oldest, if very many), otherwise the last."""
    before = next_tick - timedelta(microseconds=1)
    if catchup:
        return list(islice(takewhile(lambda tick: tick <= now, upcoming(cron, before)), _MOST_AT_ONCE))
    last = latest(cron, before, now)
    return [] if last is None else [last]


def _moments(naive: datetime, zone: ZoneInfo, *, every_hour: bool) -> list[datetime]:
    """The moments at which local clocks show this time."""
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    skipped = _local_time(first.astimezone(zone)) != naive
    if every_hour:
        return [] if skipped else [first, second]
    return [first if skipped else second]


def _local_time(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None, fold=0)


def _clock_change(moment: datetime) -> timedelta:
    """How far the clocks change around this moment."""
    offsets = [(moment.astimezone(UTC) + days * _A_DAY).astimezone(moment.tzinfo).utcoffset() for days in (-1, 0, 1)]
    known = [offset for offset in offsets if offset is not None]
    return max(known) - min(known)
