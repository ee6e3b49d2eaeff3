"""Runs that take longer than their job expects, or much longer than usual, until they end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from config.models.values import format_duration
from store.features.problems.conditions import RunningRun
from watcher.scheduling.problems.problem import Level, StandingProblem

UNUSUAL: Final = 10
"""How many times the usual duration is worth a hint."""
AN_HOUR: Final = timedelta(hours=1)
"""No shorter run is worth a hint, however short the runs before it were."""
_PRECISE: Final = timedelta(minutes=2)


def worth_comparing(running: Sequence[RunningRun], now: datetime) -> frozenset[str]:
    """Return the jobs with a run that may be worth a hint: what their runs took before is read for these only."""
    return frozenset(run.dag_id for run in running if _may_be_hinted(run, now))


def long_runs(
    running: Sequence[RunningRun], took: Mapping[str, Sequence[float]], now: datetime
) -> list[StandingProblem]:
    """Return the problems and hints. `took` has the seconds of the last successes of jobs."""
    return [problem for run in running if (problem := _of_run(run, took.get(run.dag_id, ()), now)) is not None]


def jobs_at_their_limit(running: Sequence[RunningRun]) -> Mapping[str, Sequence[RunningRun]]:
    """Return the runs that events wait behind, by job: as many as may run at a time, the oldest first."""
    by_job = defaultdict[str, list[RunningRun]](list)
    for run in sorted(running, key=lambda each: each.start_date):
        by_job[run.dag_id].append(run)
    return {dag_id: runs for dag_id, runs in by_job.items() if len(runs) >= runs[0].definition.max_active_runs}


def _is_over(run: RunningRun, now: datetime) -> bool:
    within = run.definition.expect_within
    return within is not None and now - run.start_date > within


def _may_be_hinted(run: RunningRun, now: datetime) -> bool:
    return not _is_over(run, now) and now - run.start_date >= AN_HOUR


def _of_run(run: RunningRun, took: Sequence[float], now: datetime) -> StandingProblem | None:
    within = run.definition.expect_within
    if within is not None and _is_over(run, now):
        return _problem(run, "error", f"it is expected within {format_duration(within)}", run.start_date + within)
    if not took or not _may_be_hinted(run, now):
        return None
    usual = timedelta(seconds=median(took))
    limit = max(usual * UNUSUAL, AN_HOUR)
    if now - run.start_date < limit:
        return None
    return _problem(run, "info", f"its runs usually take {_about(usual)}", run.start_date + limit)


def _about(usual: timedelta) -> str:
    """Return a duration to the second, and long ones to the minute."""
    unit = timedelta(seconds=1) if usual < _PRECISE else timedelta(minutes=1)
    return format_duration(max(round(usual / unit), 1) * unit)


def _problem(run: RunningRun, level: Level, why: str, since: datetime) -> StandingProblem:
    message = (
        f"the run {run.run_id} of {run.dag_id} has been running since {run.start_date:%Y-%m-%d %H:%M:%S} UTC: {why}"
    )
    return StandingProblem(
        kind="running_too_long",
        level=level,
        subject={"dag_id": run.dag_id, "run_id": run.run_id},
        message=message,
        public=message,
        cause=f"{run.dag_id}: {why}",
        remedy=f"`watcher runs logs {run.dag_id} {run.run_id}` shows what it does; `timeout` of a job ends such a try by itself",
        since=since,
    )
