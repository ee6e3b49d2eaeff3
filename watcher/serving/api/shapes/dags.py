"""Jobs and their versions in the shape of Airflow's DAGs. `unprocessed` is an additional field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid5

from store.keys import Condition, CronSchedule
from store.runs.jobs import JobRow
from watcher.scheduling.planning.conditions import asks
from watcher.serving.api.shapes.base import Shape

VERSION: Final = 1
"""The version number of every job, which stands for its present configuration."""
_VERSIONS: Final = UUID("5f2f1b0e-6a0f-4b0e-9d54-6d1f0c8a7b11")
"""The namespace of the ids of versions."""


class DagTagResponse(Shape):
    name: str
    dag_id: str
    dag_display_name: str


class DagVersionResponse(Shape):
    """A job as it is configured now. Earlier versions are not kept."""

    id: UUID
    version_number: int = VERSION
    dag_id: str
    bundle_name: str | None = None
    bundle_version: str | None = None
    created_at: datetime
    dag_display_name: str
    bundle_url: str | None = None


class DAGVersionCollectionResponse(Shape):
    dag_versions: Sequence[DagVersionResponse]
    total_entries: int


class DAGResponse(Shape):
    """A job. Fields that do not apply are null or empty but present, because Airflow's client requires them."""

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
    tags: Sequence[DagTagResponse] = ()
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
    """The number of events in failed runs. Airflow has no such field."""


class DAGCollectionResponse(Shape):
    dags: Sequence[DAGResponse]
    total_entries: int


class DAGDetailsResponse(DAGResponse):
    catchup: bool
    dag_run_timeout: timedelta | None
    asset_expression: dict[str, Any] | None
    doc_md: str | None = None
    start_date: datetime | None = None
    end_date: datetime | None = None
    is_paused_upon_creation: bool | None = None
    params: dict[str, Any] | None = None
    render_template_as_native_obj: bool = False
    template_search_path: Sequence[str] | None = None
    timezone: str | None
    last_parsed: datetime | None
    default_args: dict[str, Any] | None = None
    rerun_with_latest_version: bool | None = None
    owner_links: dict[str, str] | None = None
    is_favorite: bool = False
    active_runs_count: int
    """The number of running runs."""
    concurrency: int
    latest_dag_version: DagVersionResponse


def version_response(job: JobRow) -> DagVersionResponse:
    """Return the present version of the job."""
    return DagVersionResponse(
        id=uuid5(_VERSIONS, f"{job.dag_id}/{job.updated_at.isoformat()}"),
        dag_id=job.dag_id,
        created_at=job.updated_at,
        dag_display_name=job.dag_id,
    )


def details_response(
    job: JobRow, unprocessed: Mapping[str, int], uris: Mapping[str, str], active_runs: int
) -> DAGDetailsResponse:
    """Return the job with its details. `uris` holds the uris of the assets of its schedule, by name."""
    definition, shown = job.definition, dag_response(job, unprocessed)
    schedule = definition.schedule
    return DAGDetailsResponse.of(
        shown,
        catchup=definition.catchup,
        dag_run_timeout=definition.timeout,
        asset_expression=None if schedule is None else _expression(schedule, uris),
        timezone=definition.cron and definition.cron.timezone,
        last_parsed=job.updated_at,
        active_runs_count=active_runs,
        concurrency=shown.max_active_tasks,
        latest_dag_version=version_response(job),
    )


def _expression(condition: Condition, uris: Mapping[str, str]) -> dict[str, Any]:
    """Return a schedule in Airflow's form."""
    match condition:
        case str() as name:
            return {"asset": {"name": name, "uri": uris.get(name, name), "group": "asset"}}
        case {"asset": str() as name}:
            return {"asset": {**_expression(name, uris)["asset"], **_where(condition)}}
        case {"all": parts}:
            return {"all": [_expression(part, uris) for part in parts]}
        case {"any": parts}:
            return {"any": [_expression(part, uris) for part in parts]}
    return {"alias": {"name": condition["alias"], "group": "asset", **_where(condition)}}


def _where(reference: Mapping[str, Any]) -> dict[str, Any]:
    return {} if reference.get("where") is None else {"where": reference["where"]}


def dag_response(job: JobRow, unprocessed: Mapping[str, int]) -> DAGResponse:
    """Return a job. `unprocessed` holds the number of events in failed runs by job."""
    definition = job.definition
    events, cron = schedule_text(definition.schedule), definition.cron
    word = " and " if definition.joint else " or "
    schedule = word.join(part for part in (events, cron and cron.expression) if part) or None
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
        timetable_description=_description(events, cron, word),
        timetable_partitioned=definition.batch.is_partitioned,
        timetable_periodic=cron is not None,
        max_active_runs=definition.max_active_runs,
        unprocessed=unprocessed.get(job.dag_id, 0),
        next_dagrun_logical_date=tick,
        next_dagrun_data_interval_start=tick,
        next_dagrun_data_interval_end=tick,
        next_dagrun_run_after=tick,
    )


def _description(events: str | None, cron: CronSchedule | None, word: str) -> str | None:
    by_time = cron and f"{cron.expression} ({cron.timezone})"
    by_events = events and f"Triggered by assets: {events}"
    return word.join(part for part in (by_events, by_time) if part) or None


def schedule_text(condition: Any) -> str | None:
    """Return the schedule as people write it, `a & (b | c)`, or None without one. `condition` is that of `job.definition`."""
    return None if condition is None else _text(condition, top=True)


def _text(condition: Any, *, top: bool = False) -> str:
    match condition:
        case str() as name:
            return name
        case {"asset": str() as name}:
            return f"({name}{asks(condition)})" if asks(condition) else name
        case {"alias": str() as name}:
            return f"(alias({name}){asks(condition)})" if asks(condition) else f"alias({name})"
        case {"all": parts}:
            joined = " & ".join(map(_text, parts))
        case {"any": parts}:
            joined = " | ".join(map(_text, parts))
        case _:
            return str(condition)
    return joined if top or len(parts) == 1 else f"({joined})"
