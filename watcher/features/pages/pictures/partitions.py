"""The last partitions of a job: what became of each, and which days of a calendar never came (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from store.runs.runs import RunRow
from watcher.host.page_paths import path
from watcher.scheduling.planning.base import WaitingPartition

MOST: Final = 60
_WEEK: Final = 7
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Partition:
    """A partition with its state, what there is to say about that, and where it stands."""

    key: str
    state: str
    about: str
    page: str

    @property
    def title(self) -> str:
        return f"{self.key}: {self.state.replace('_', ' ')}{f', {self.about}' if self.about else ''}"


@dataclass(frozen=True, kw_only=True)
class Week:
    """A line of a calendar, from Monday on; None: the day is not among the partitions."""

    monday: date
    days: Sequence[Partition | None]


@dataclass(frozen=True, kw_only=True)
class LastPartitions:
    """The last partitions: by weeks if their keys are days, else as a list, the newest first."""

    listed: Sequence[Partition]
    weeks: Sequence[Week]

    @property
    def counts(self) -> Mapping[str, int]:
        """How many are in each state, the most frequent first."""
        return dict(Counter(partition.state for partition in self.listed).most_common())


def last_partitions(
    dag_id: str, newest: Iterable[RunRow], waiting: Iterable[WaitingPartition], source: str
) -> LastPartitions:
    """Return the partitions with the last `MOST` keys, from the newest run of each and from what waits.

    `newest` comes with the newest run first. `source` is the page where events of a key that never came would stand.
    """
    known = {each.partition_key: _waits(dag_id, each.partition_key, each) for each in waiting if each.partition_key}
    for run in newest:
        if run.partition_key is not None:
            known.setdefault(run.partition_key, _ran(run.partition_key, run))
    days = _days(known)
    if not days:
        return LastPartitions(listed=list(known.values())[:MOST], weeks=())
    last = max(days)
    first = max(min(days), last - (MOST - 1) * _DAY)
    missing = Partition(key="", state="never_come", about="", page=source)
    shown = {
        day: known.get(day.isoformat()) or _named(missing, day.isoformat())
        for day in (first + number * _DAY for number in range((last - first).days + 1))
    }
    return LastPartitions(listed=list(reversed(shown.values())), weeks=_weeks(shown))


def _named(partition: Partition, key: str) -> Partition:
    return Partition(key=key, state=partition.state, about=partition.about, page=partition.page)


def _waits(dag_id: str, key: str, waiting: WaitingPartition) -> Partition:
    if waiting.lacks:
        state = "redelivery_incomplete" if waiting.is_redelivery else "waiting"
        about = f"for {waiting.lacks.replace('`', '')}"
    else:
        state, about = "queued", "until its run ends" if waiting.has_run else "for its turn"
    return Partition(key=key, state=state, about=about, page=path("jobs", dag_id) + "#partitions")


def _ran(key: str, run: RunRow) -> Partition:
    state, about = run.state, ""
    if run.state == "success" and run.partition_complete is False:
        state, about = "incomplete", "run as it was"
    elif run.state == "success":
        state, about = "redelivered" if run.redelivered else "complete", "late events came" if run.late else ""
    return Partition(key=key, state=state, about=about, page=path("runs", run.dag_id, run.run_id))


def _days(keys: Iterable[str]) -> Sequence[date]:
    """Return the keys as days; none if one of them is no day."""
    days = []
    for key in keys:
        try:
            day = date.fromisoformat(key)
        except ValueError:
            return ()
        if day.isoformat() != key:
            return ()
        days.append(day)
    return days


def _weeks(shown: Mapping[date, Partition]) -> Sequence[Week]:
    """Return the weeks with these days, the newest first."""
    mondays = sorted({day - day.weekday() * _DAY for day in shown}, reverse=True)
    return [
        Week(monday=monday, days=[shown.get(monday + number * _DAY) for number in range(_WEEK)]) for monday in mondays
    ]
