"""Deadlines by the clock: what has not happened by its time of the day is late from that time on, until it happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from config.models.values import format_duration
from store.catalog.assets import AssetRow
from store.features.problems import conditions
from store.features.problems.conditions import DueJob
from store.keys import ClockDeadline
from watcher.scheduling.planning import ticks
from watcher.scheduling.problems.problem import StandingProblem

_A_MOMENT: Final = timedelta(microseconds=1)


def late_since(due_by: ClockDeadline, last: datetime | None, begun: datetime, now: datetime) -> datetime | None:
    """Return the first time by which it should have happened again, after it happened `last`; None: that is still to come.

    What never happened is expected from the time on at which it `begun` to be configured.
    """
    again = begun if last is None else max(last + due_by.since - _A_MOMENT, begun)
    first = ticks.following(due_by.cron, again)
    return first if first is not None and first <= now else None


async def late_jobs(connection: AsyncConnection, now: datetime) -> list[StandingProblem]:
    """Return the problems of the configured jobs, paused ones too, that have not succeeded by their times.

    The newest success of each job costs one probe. Only where that is too old are all of the job's successes read: an
    older run may have succeeded later, because somebody cleared it.
    """
    jobs = await conditions.due_jobs(connection)
    newest = await conditions.newest_successes(connection, jobs)
    doubtful = [dag_id for dag_id, job in jobs.items() if _since(job, newest.get(dag_id), now) is not None]
    last = await conditions.last_successes(connection, doubtful)
    late = {dag_id: _since(jobs[dag_id], last.get(dag_id), now) for dag_id in doubtful}
    return [_of_job(dag_id, jobs[dag_id], since) for dag_id, since in late.items() if since is not None]


def late_assets(assets: Sequence[AssetRow], now: datetime) -> list[StandingProblem]:
    """Return the problems of the assets whose events have not come by their times."""
    return [
        _of_asset(each, due_by, since)
        for each in assets
        if (due_by := each.due_by) is not None
        and (since := late_since(due_by, each.last_event_at, each.created_at, now)) is not None
    ]


def _since(job: DueJob, last: datetime | None, now: datetime) -> datetime | None:
    return late_since(job.due_by, last, job.created_at, now)


def _of_job(dag_id: str, job: DueJob, since: datetime) -> StandingProblem:
    message = f"no run of {dag_id} has succeeded {_words(job.due_by, since)}"
    remedy = f"`watcher jobs show {dag_id}` says what it waits for, and `watcher runs list {dag_id}` shows its runs"
    return _problem({"dag_id": dag_id}, message, remedy, since, frozenset())


def _of_asset(asset: AssetRow, due_by: ClockDeadline, since: datetime) -> StandingProblem:
    message = f"`{asset.name}` has not come {_words(due_by, since)}"
    remedy = f"`watcher assets show {asset.name}` names its watchers; look at these, and at what writes their source"
    return _problem({"asset": asset.name}, message, remedy, since, frozenset({asset.name}))


def _words(due_by: ClockDeadline, since: datetime) -> str:
    return f"in the {format_duration(due_by.since)} before {since:%Y-%m-%d %H:%M} UTC, and not since"


def _problem(
    subject: Mapping[str, str], message: str, remedy: str, since: datetime, assets: frozenset[str]
) -> StandingProblem:
    return StandingProblem(
        kind="late",
        level="error",
        subject=subject,
        message=message,
        public=message,
        remedy=remedy,
        since=since,
        assets=assets,
    )
