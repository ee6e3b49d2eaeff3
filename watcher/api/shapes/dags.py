"""Jobs, as Airflow's dags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from store.keys import Cron
from store.runs.jobs import Job
from watcher.api.shapes.base import Shape


class DAGResponse(Shape):
    """What a job has none of is null or empty, but present: Airflow's client insists."""

    dag_id: str
    dag_display_name: str
    is_paused: bool
    is_stale: bool
    last_parsed_time: datetime | None
    last_parse_duration: float | None = None
    last_expired: datetime | None = None
    bundle_name: str | None = None
    bundle_version: str | None = None
    relative_fileloc: str | None
    fileloc: str
    description: str | None = None
    timetable_summary: str | None
    timetable_description: str | None
    timetable_partitioned: bool = False
    timetable_periodic: bool = False
    tags: Sequence[str] = ()
    max_active_tasks: int = 1
    max_active_runs: int
    max_consecutive_failed_dag_runs: int = 0
    has_task_concurrency_limits: bool = False
    has_import_errors: bool = False
    next_dagrun_logical_date: datetime | None = None
    next_dagrun_data_interval_start: datetime | None = None
    next_dagrun_data_interval_end: datetime | None = None
    next_dagrun_run_after: datetime | None = None
    allowed_run_types: Sequence[str] | None = None
    owners: Sequence[str] = ()
    is_backfillable: bool = False
    file_token: str = ""
    unprocessed: int
    """Ours: events that lie in failed runs."""


class DAGCollectionResponse(Shape):
    dags: Sequence[DAGResponse]
    total_entries: int


def dag_response(job: Job, unprocessed: Mapping[str, int]) -> DAGResponse:
    """A job, and how many events each job failed to process."""
    definition = job.definition
    events, cron = schedule_text(definition.schedule), definition.cron
    schedule = " or ".join(part for part in (events, cron and cron.expression) if part) or None
    tick = job.next_tick if cron else None
    return DAGResponse(
        dag_id=job.dag_id,
        dag_display_name=job.dag_id,
        is_paused=job.paused,
        is_stale=not job.active,
        last_parsed_time=job.updated_at,
        relative_fileloc=definition.application,
        fileloc=definition.application,
        timetable_summary=schedule,
        timetable_description=_description(events, cron),
        timetable_periodic=cron is not None,
        max_active_runs=definition.max_active_runs,
        unprocessed=unprocessed.get(job.dag_id, 0),
        next_dagrun_logical_date=tick,
        next_dagrun_data_interval_start=tick,
        next_dagrun_data_interval_end=tick,
        next_dagrun_run_after=tick,
    )


def _description(events: str | None, cron: Cron | None) -> str | None:
    by_time = cron and f"{cron.expression} ({cron.timezone})"
    by_events = events and f"Triggered by assets: {events}"
    return " or ".join(part for part in (by_events, by_time) if part) or None


def schedule_text(condition: Any) -> str | None:
    """A schedule in the words of people: `a & (b | c)`; None where there is none. `condition` is `job.definition`'s."""
    return None if condition is None else _text(condition, top=True)


def _text(condition: Any, *, top: bool = False) -> str:
    match condition:
        case str() as name:
            return name
        case {"asset": str() as name}:
            return name
        case {"alias": str() as name}:
            return f"alias({name})"
        case {"all": parts}:
            joined = " & ".join(map(_text, parts))
        case {"any": parts}:
            joined = " | ".join(map(_text, parts))
        case _:
            return str(condition)
    return joined if top or len(parts) == 1 else f"({joined})"
