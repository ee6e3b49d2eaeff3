"""Everything that is wrong now, as sentences: rows from the database, judged by pure rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from config.models.values import format_duration
from store.catalog import aliases, assets, watchers
from store.catalog.assets import AssetRow
from store.catalog.watchers import WatcherRow
from store.keys import Condition, JobDefinition
from store.processes import alerts
from store.processes.alerts import FailedRun
from store.runs import bad_records, waiting
from store.runs.runs import RunRow
from store.runs.waiting import QueueOfAsset
from watcher.outbound.alerts.changes import Complaint
from watcher.scheduling.conditions import Resolved, is_met, names_alias

REMEMBERED: Final = timedelta(days=7)
"""The time for which a failed run remains a complaint."""
_FAILING: Final = frozenset({"failing", "blocked"})


async def read_complaints(connection: AsyncConnection, alerting_since: datetime, now: datetime) -> Sequence[Complaint]:
    """Read every complaint, whether a rule covers it or not."""
    failing = [complaint for row in await watchers.listed(connection) if (complaint := of_watcher(row))]
    late = [of_late_asset(asset, now) for asset in await assets.expected(connection) if asset.is_late]
    failed = await alerts.failed_runs(connection, max(alerting_since, now - REMEMBERED))
    unresolved = await bad_records.unresolved(connection)
    dag_ids = sorted({run.dag_id for run in failed} | {run.dag_id for run in unresolved})
    around = {dag_id: await _around(connection, dag_id) for dag_id in dag_ids}
    return [
        *failing,
        *late,
        *(of_failed_run(run, around[run.dag_id]) for run in failed),
        *(of_bad_records(run, around[run.dag_id]) for run in unresolved),
        *await _waiting_too_long(connection, now),
    ]


async def _waiting_too_long(connection: AsyncConnection, now: datetime) -> list[Complaint]:
    jobs = await alerts.deadlines(connection)
    queues: dict[str, list[QueueOfAsset]] = {dag_id: [] for dag_id in jobs}
    for queue in await waiting.queues_of(connection, list(jobs)) if jobs else ():
        queues[queue.dag_id].append(queue)
    overdue = []
    for dag_id, (definition, deadline) in jobs.items():
        resolved: Resolved = {}
        if names_alias(definition.schedule):
            resolved = await aliases.resolved_names(connection, dag_id)
        complaint = of_waiting_job(dag_id, definition, deadline, queues[dag_id], resolved, now)
        if complaint is not None:
            overdue.append(complaint)
    return overdue


async def _around(connection: AsyncConnection, dag_id: str) -> frozenset[str]:
    return frozenset(asset.name for asset in await assets.around_job(connection, dag_id))


def of_watcher(row: WatcherRow) -> Complaint | None:
    """Return None for a watcher that works, or that a person has paused.

    A watcher that its own failures have paused remains a complaint until a person resumes it.
    """
    if row.state not in _FAILING and not row.is_unassigned and not row.has_given_up:
        return None
    return Complaint(
        alert="watcher_failing",
        subject={"watcher": row.name},
        message=f"the watcher {row.name} is {row.state}: {row.error or 'it does not say why'}",
        assets=frozenset({row.asset}),
    )


def of_failed_run(run: FailedRun, assets_around: frozenset[str]) -> Complaint:
    return Complaint(
        alert="run_failed",
        subject={"dag_id": run.dag_id, "run_id": run.run_id},
        message=f"the run {run.run_id} of {run.dag_id} has failed: {run.reason or 'nobody knows why'}",
        assets=assets_around,
        dag_id=run.dag_id,
        since=run.end_date,
    )


def of_bad_records(run: RunRow, assets_around: frozenset[str]) -> Complaint:
    return Complaint(
        alert="bad_records",
        subject={"dag_id": run.dag_id, "run_id": run.run_id},
        message=bad_records.sentence(run),
        assets=assets_around,
        dag_id=run.dag_id,
        since=run.end_date,
    )


def of_late_asset(asset: AssetRow, now: datetime) -> Complaint:
    """Return the complaint about an asset that got no event for longer than `expect_every`."""
    expected = asset.expect_every or timedelta(0)
    return Complaint(
        alert="watcher_late",
        subject={"asset": asset.name},
        message=f"`{asset.name}` has not come since {_moment(now - asset.age)}, and is expected every {format_duration(expected)}",
        assets=frozenset({asset.name}),
        since=now - asset.age + expected,
    )


def of_waiting_job(
    dag_id: str,
    definition: JobDefinition,
    deadline: timedelta,
    queues: Sequence[QueueOfAsset],
    resolved: Resolved,
    now: datetime,
) -> Complaint | None:
    """Return None for a job whose condition is met, whose queue is empty, or that has not waited for its deadline yet."""
    condition = definition.schedule
    queued = {queue.asset: queue.oldest for queue in queues if queue.oldest is not None}
    if condition is None or not queued or is_met(condition, queued.keys(), resolved):
        return None
    oldest = min(queued.values())
    if now - oldest < deadline:
        return None
    return Complaint(
        alert="waiting_too_long",
        subject={"dag_id": dag_id},
        message=f"{lacking(condition, queued, resolved)} has not come since {_moment(oldest)}: {dag_id} waits for it, and "
        f"its deadline is {format_duration(deadline)}",
        assets=frozenset(queue.asset for queue in queues),
        dag_id=dag_id,
        since=oldest + deadline,
    )


def lacking(condition: Condition, queued: Mapping[str, datetime], resolved: Resolved) -> str:
    """Name the missing parts of a condition that is not met."""
    match condition:
        case str():
            return f"`{condition}`"
        case {"alias": str(name)}:
            return f"the alias `{name}`"
        case {"any": parts}:
            return " or ".join(lacking(part, queued, resolved) for part in parts)
        case {"all": parts}:
            missing = [part for part in parts if not is_met(part, queued.keys(), resolved)]
            return " and ".join(lacking(part, queued, resolved) for part in missing)
    raise ValueError(f"not a condition: {condition!r}")


def _moment(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
