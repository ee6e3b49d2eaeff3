"""When a cron expression fires, as pure functions of moments; croniter knows the expressions, this knows the time zones.

Where the clocks are changed, rules follow Airflow's cron timetables:

an hour is named (`30 2 * * *`)   skipped that day: fires as much later as the clocks were put on (03:30);
                                  there twice: fires once, the second time
every hour (`30 * * * *`)         skipped: does not fire; there twice: fires both times
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter

from store.keys import CronSchedule

_FIRST_SEARCH: Final = timedelta(hours=1)
_LONGEST_SEARCH: Final = timedelta(days=366 * 16)  # beyond the longest pause between two 29ths of February
_MOST_AT_ONCE: Final = 100
_A_DAY: Final = timedelta(days=1)


def between(cron: CronSchedule, after: datetime, until: datetime) -> list[datetime]:
    """All ticks later than `after` and not later than `until`, in UTC, in order."""
    zone = ZoneInfo(cron.timezone)
    start, end = after.astimezone(zone), until.astimezone(zone)
    # On the wall's clock ticks may stand in another order than in time, as far apart as the clocks are moved.
    naive = _on_the_wall(start) - _moved(start)
    last = _on_the_wall(end) + _moved(end)
    schedule = croniter(cron.expression, naive)
    every_hour = schedule.expanded[1] == ["*"]
    ticks: set[datetime] = set()
    try:
        while (naive := schedule.get_next(datetime)) <= last:
            ticks.update(_moments(naive, zone, every_hour=every_hour))
    except CroniterBadDateError:  # none in the years it looks at
        pass
    return sorted(moment for moment in ticks if after < moment <= until)


def following(cron: CronSchedule, moment: datetime) -> datetime | None:
    """The first tick later than `moment`; None when there is none for many years."""
    return next(upcoming(cron, moment), None)


def upcoming(cron: CronSchedule, moment: datetime) -> Iterator[datetime]:
    """The ticks later than `moment`, in order, for ever, or until there is none for many years."""
    search = _FIRST_SEARCH
    while search <= _LONGEST_SEARCH:
        ticks = between(cron, moment, moment + search)
        yield from ticks
        moment += search
        search = search if ticks else search * 2


def latest(cron: CronSchedule, after: datetime, until: datetime) -> datetime | None:
    """The last tick later than `after` and not later than `until`; None when there is none."""
    search = _FIRST_SEARCH
    while not (ticks := between(cron, max(after, until - search), until)):
        if until - search <= after:
            return None
        search *= 2
    return ticks[-1]


def due(cron: CronSchedule, next_tick: datetime, now: datetime, *, catchup: bool) -> list[datetime]:
    """The ticks from `next_tick` until now that get a run each: all (the oldest of very many), or the last one only."""
    before = next_tick - timedelta(microseconds=1)
    if catchup:
        return list(islice(takewhile(lambda tick: tick <= now, upcoming(cron, before)), _MOST_AT_ONCE))
    last = latest(cron, before, now)
    return [] if last is None else [last]


def _moments(naive: datetime, zone: ZoneInfo, *, every_hour: bool) -> list[datetime]:
    """When the wall's clock shows this time."""
    first, second = (naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    skipped = _on_the_wall(first.astimezone(zone)) != naive
    if every_hour:
        return [] if skipped else [first, second]
    return [first if skipped else second]


def _on_the_wall(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None, fold=0)


def _moved(moment: datetime) -> timedelta:
    """How far the clocks are moved around this moment."""
    offsets = [(moment.astimezone(UTC) + days * _A_DAY).astimezone(moment.tzinfo).utcoffset() for days in (-1, 0, 1)]
    known = [offset for offset in offsets if offset is not None]
    return max(known) - min(known)
