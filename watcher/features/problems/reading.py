"""Reads everything that is wrong now: rows from the database and one process's health, judged by pure rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from config.models.values import format_duration
from store.catalog import assets
from store.catalog.assets import AssetRow
from store.catalog.suspects import suspects
from store.catalog.watchers import WatcherRow
from store.database.paging import PageRequest
from store.features.problems import conditions
from store.features.problems.conditions import MOST_FAILED, FailedRun, RunningRun
from store.keys import JobDefinition
from store.runs.queue import kept_events, waiting
from store.runs.queue.kept_events import StrandedQueue
from store.runs.queue.waiting import MOST_COUNTED, QueueOfAsset
from store.runs.runs import RunRow
from store.runs.tries import bad_records
from store.runs.tries.bad_records import MOST_UNRESOLVED
from watcher.features.problems.lateness import late_assets, late_jobs
from watcher.features.problems.long_runs import jobs_at_their_limit, long_runs, worth_comparing
from watcher.scheduling.planning.base import NO_PARTITIONS, Planners, WaitingPartition
from watcher.scheduling.planning.conditions import Resolved, is_met, lacking
from watcher.scheduling.problems.problem import StandingProblem, cause_of, without
from watcher.scheduling.problems.sources import ProblemsLook

ALL_PARTITIONS: Final = PageRequest(limit=2**31)
"""The window of those who look for the partitions that have waited for too long."""
_FAILING: Final = frozenset({"failing", "blocked", "unstable"})


async def problems(look: ProblemsLook) -> Sequence[StandingProblem]:
    """Read the problems of watchers, assets, jobs and runs."""
    connection, now, rows = look.connection, look.now, look.rows
    if rows is None:
        rows = await suspects(connection)
    failed = await conditions.failed_runs(connection)
    unresolved = await bad_records.unresolved(connection)
    expected = await assets.expected(connection)
    running = await conditions.running_runs(connection)
    took = await conditions.last_durations(connection, worth_comparing(running, now))
    slow = long_runs(running, took, now)
    overdue = await _waiting_too_long(connection, now, look.planners, jobs_at_their_limit(running))
    around = await conditions.assets_around(
        connection,
        {run.dag_id for run in failed}
        | {run.dag_id for run in unresolved}
        | {problem.dag_id for problem in slow if problem.dag_id is not None},
    )
    return [
        *(problem for row in rows for problem in of_watcher(row)),
        *(of_late_asset(asset, now) for asset in expected if asset.is_late),
        *late_assets(expected, now),
        *await late_jobs(connection, now),
        *(replace(run, assets=around.get(run.dag_id or "", frozenset())) for run in slow),
        *(of_failed_run(run, around.get(run.dag_id, frozenset())) for run in failed),
        *overdue,
        *(of_stranded_queue(queue) for queue in await kept_events.stranded(connection)),
        *(of_bad_records(run, around.get(run.dag_id, frozenset())) for run in unresolved),
        *_of_what_is_cut(failed, unresolved),
    ]


async def _waiting_too_long(
    connection: AsyncConnection, now: datetime, planners: Planners, ahead: Mapping[str, Sequence[RunningRun]]
) -> list[StandingProblem]:
    jobs = await conditions.deadlines(connection)
    if not jobs:
        return []
    queues = defaultdict[str, list[QueueOfAsset]](list)
    for queue in await waiting.queues_of(connection, list(jobs)):
        queues[queue.dag_id].append(queue)
    resolved = await waiting.resolved(connection, list(queues))
    partitions = await planners.waiting(
        connection, {dag_id: definition for dag_id, (definition, _) in jobs.items()}, ALL_PARTITIONS
    )
    problems = (
        of_waiting_partitions(
            dag_id, deadline, partitions.get(dag_id, NO_PARTITIONS).shown, queues[dag_id], now, ahead.get(dag_id, ())
        )
        if not definition.batch.is_plain
        else of_waiting_job(
            dag_id, definition, deadline, queues[dag_id], resolved.get(dag_id, {}), now, ahead.get(dag_id, ())
        )
        for dag_id, (definition, deadline) in jobs.items()
    )
    return [problem for problem in problems if problem is not None]


def of_watcher(row: WatcherRow) -> Iterator[StandingProblem]:
    """Yield the problems of a watcher: none if it works without findings, or if a person has paused it.

    A watcher that its own failures have paused remains a problem until a person resumes it. A finding that keeps the
    watcher from working is in its error, and is no problem of its own.
    """
    error = row.error or "it does not say why"
    is_failing = row.state in _FAILING or row.is_unassigned or row.has_given_up
    if is_failing or row.state == "waiting":
        yield StandingProblem(
            kind="watcher_failing" if is_failing else "watcher_waiting",
            level="error" if is_failing and row.state != "unstable" else "warning",
            subject={"watcher": row.name},
            message=f"{_what(row)}: {error}",
            public=_public(row, error),
            cause=cause_of(error, row.name),
            remedy=f"correct the cause, then `watcher resume {row.name}`" if row.has_given_up else "",
            since=row.failing_since,
            next_try_at=row.next_try_at,
            assets=frozenset({row.asset}),
        )
    yield from (_of_finding(row, finding) for finding in row.findings_now if finding["message"] not in error)


def _what(row: WatcherRow) -> str:
    return f"nobody hosts the watcher {row.name}" if row.is_unassigned else f"the watcher {row.name} is {row.state}"


def _public(row: WatcherRow, error: str) -> str:
    """Return what is wrong with a watcher. Its error may hold values of the source once it has a position."""
    if row.watermark is not None and not row.is_unassigned:
        return _what(row)
    if row.state in _FAILING:
        return f"the watcher {row.name} has no position yet and is {row.state}: {error}"
    return f"{_what(row)}: {error}"


def _of_finding(row: WatcherRow, finding: Mapping[str, Any]) -> StandingProblem:
    return StandingProblem(
        kind="finding",
        level=finding["level"],
        subject={"watcher": row.name, "check": finding["check"]},
        message=f"the watcher {row.name}: {finding['message']}",
        public=f"the watcher {row.name} has a finding: {finding['check']}",
        cause=without(finding["message"], row.name),
        remedy=finding["remedy"],
        since=datetime.fromisoformat(finding["since"]),
        assets=frozenset({row.asset}),
    )


def of_failed_run(run: FailedRun, assets_around: frozenset[str]) -> StandingProblem:
    what, reason = f"the run {run.run_id} of {run.dag_id} has failed", run.reason or "nobody knows why"
    return StandingProblem(
        kind="run_failed",
        level="error",
        subject={"dag_id": run.dag_id, "run_id": run.run_id},
        message=f"{what}: {reason}",
        public=what,
        cause=cause_of(reason, run.run_id, run.dag_id),
        remedy=f"correct the cause, then `watcher runs retry {run.dag_id} {run.run_id}`",
        since=run.end_date,
        assets=assets_around,
    )


def of_bad_records(run: RunRow, assets_around: frozenset[str]) -> StandingProblem:
    what, reason = bad_records.sentence(run), run.reason
    return StandingProblem(
        kind="bad_records",
        level="warning",
        subject={"dag_id": run.dag_id, "run_id": run.run_id},
        message=f"{what}: {reason}" if reason else what,
        public=what,
        cause=f"{run.dag_id}: {cause_of(reason or '', run.run_id)}",
        remedy=f"look at them, then `watcher runs resolve {run.dag_id} {run.run_id}`",
        since=run.end_date,
        assets=assets_around,
    )


def of_late_asset(asset: AssetRow, now: datetime) -> StandingProblem:
    """Return the problem of an asset that got no event for longer than `expect_every`."""
    expected = asset.expect_every or timedelta(0)
    came = _moment(now - asset.age)
    message = f"`{asset.name}` has not come since {came}, and is expected every {format_duration(expected)}"
    return StandingProblem(
        kind="watcher_late",
        level="error",
        subject={"asset": asset.name},
        message=message,
        public=message,
        remedy=f"`watcher assets show {asset.name}` names its watchers; look at these, and at what writes their source",
        since=now - asset.age + expected,
        assets=frozenset({asset.name}),
    )


def of_waiting_job(
    dag_id: str,
    definition: JobDefinition,
    deadline: timedelta,
    queues: Sequence[QueueOfAsset],
    resolved: Resolved,
    now: datetime,
    ahead: Sequence[RunningRun] = (),
) -> StandingProblem | None:
    """Return None for a job whose queue is empty, or that has not waited for its deadline yet.

    One whose condition is met waits if the runs `ahead` are as many as may run at a time.
    """
    condition = definition.schedule
    queued = {key for queue in queues for key in queue.keys}
    if condition is None or not queued:
        return None
    oldest = min(queue.oldest for queue in queues if queue.oldest is not None)
    if now - oldest < deadline:
        return None
    if is_met(condition, queued, resolved):
        return _behind(dag_id, ahead, deadline, oldest, queues) if ahead else None
    what = lacking(condition, queued, resolved)
    return _of_deadline(dag_id, what, "", deadline, oldest, queues)


def of_waiting_partitions(
    dag_id: str,
    deadline: timedelta,
    partitions: Sequence[WaitingPartition],
    queues: Sequence[QueueOfAsset],
    now: datetime,
    ahead: Sequence[RunningRun] = (),
) -> StandingProblem | None:
    """Return None for a job of which no partition has waited for longer than the deadline.

    It waits for the rest of its condition, or for a run to end, if the runs `ahead` are as many as may run at a time.
    """
    overdue = [each for each in partitions if each.lacks and now - each.oldest >= deadline]
    if not overdue:
        waits = [each for each in partitions if not each.lacks and (ahead or each.has_run)]
        behind = min((each.oldest for each in waits), default=now)
        return _behind(dag_id, ahead, deadline, behind, queues) if waits and now - behind >= deadline else None
    oldest = min(overdue, key=lambda each: each.oldest)
    key = "events without a partition key" if oldest.partition_key is None else f"the partition {oldest.partition_key}"
    key += " (redelivery incomplete)" if oldest.is_redelivery else ""
    others = f" and {len(overdue) - 1} more" if len(overdue) > 1 else ""
    return _of_deadline(dag_id, oldest.lacks, f" for {key}{others}", deadline, oldest.oldest, queues)


def _behind(
    dag_id: str,
    ahead: Sequence[RunningRun],
    deadline: timedelta,
    oldest: datetime,
    queues: Sequence[QueueOfAsset],
) -> StandingProblem:
    runs = "a run of their partition"
    if ahead:
        first = f"{ahead[0].run_id}, running since {_moment(ahead[0].start_date)}"
        runs = f"the run {first}" if len(ahead) == 1 else f"{len(ahead)} runs, the oldest of which is {first}"
    message = (
        f"events of {dag_id} have waited since {_moment(oldest)} behind {runs}; its deadline is "
        f"{format_duration(deadline)}"
    )
    return _too_long(dag_id, message, f"{dag_id} waits behind a run", oldest + deadline, queues)


def _of_deadline(
    dag_id: str, what: str, partition: str, deadline: timedelta, oldest: datetime, queues: Sequence[QueueOfAsset]
) -> StandingProblem:
    message = (
        f"{what} has not come since {_moment(oldest)}{partition}: {dag_id} waits for it, and its deadline is "
        f"{format_duration(deadline)}"
    )
    return _too_long(dag_id, message, what, oldest + deadline, queues)


def _too_long(
    dag_id: str, message: str, cause: str, since: datetime, queues: Sequence[QueueOfAsset]
) -> StandingProblem:
    return StandingProblem(
        kind="waiting_too_long",
        level="error",
        subject={"dag_id": dag_id},
        message=message,
        public=message,
        cause=cause,
        remedy=f"`watcher jobs queue {dag_id}` shows all that waits; look at what brings the rest",
        since=since,
        assets=frozenset(queue.asset for queue in queues),
    )


def of_stranded_queue(queue: StrandedQueue) -> StandingProblem:
    """Return the problem of a job that has queued events and no schedule, so that no run will ever take them by itself."""
    many = f"more than {MOST_COUNTED:,}" if queue.events > MOST_COUNTED else f"{queue.events:,}"
    events = "1 event waits" if queue.events == 1 else f"{many} events wait"
    message = f"{events} in the queue of {queue.dag_id}, which has no schedule that takes them"
    return StandingProblem(
        kind="waiting",
        level="warning",
        subject={"dag_id": queue.dag_id},
        message=message,
        public=message,
        remedy=f"`watcher jobs queue {queue.dag_id} --run` makes runs of them, `--drop` discards them",
        since=queue.oldest,
    )


def _of_what_is_cut(failed: Sequence[FailedRun], unresolved: Sequence[RunRow]) -> Iterator[StandingProblem]:
    """Yield a sentence for each list that ends at its limit: the older ones are problems, too."""
    for runs, most, kind, what in (
        (failed, MOST_FAILED, "run_failed", "have failed"),
        (unresolved, MOST_UNRESOLVED, "bad_records", "have bad records that nobody has resolved"),
    ):
        if len(runs) >= most:
            sentence = f"more runs {what}: only the newest {most} are counted"
            yield StandingProblem(kind=kind, level="warning", subject={"runs": what}, message=sentence, public=sentence)


def _moment(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
