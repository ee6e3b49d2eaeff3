"""Runs in Airflow's shape. `reason`, `warning`, `trace_id`, `bad_records…`, `cleaned` and `superseded` are additional fields."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from store.database.cursors import CursorPage
from store.runs.runs import RunRow
from watcher.serving.api.shapes.base import JsonObject, Shape, duration
from watcher.serving.api.shapes.dags import DagVersionResponse


class DAGRunResponse(Shape):
    dag_run_id: str
    dag_id: str
    logical_date: datetime | None
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    last_scheduling_decision: datetime | None = None
    run_type: str
    state: str
    triggered_by: str | None
    triggering_user_name: str | None = None
    conf: JsonObject | None
    note: str | None
    dag_versions: Sequence[DagVersionResponse] = ()
    bundle_version: str | None = None
    dag_display_name: str
    partition_key: str | None
    partition_date: datetime | None = None
    reason: str | None
    warning: str | None
    trace_id: str
    bad_records: int | None
    """The bad records of the run's last success; null if no success of it has reported any."""
    bad_records_resolved_at: datetime | None
    cleaned: int
    """The files of its events that its last try did not get, because `clean_source` has deleted them."""
    superseded: int
    """The files that it left out because newer versions of their paths count."""


class DAGRunCollectionResponse(Shape):
    """A page of runs. `total_entries` is null for a request with a cursor, which counts nothing."""

    dag_runs: Sequence[DAGRunResponse]
    total_entries: int | None
    total_entries_limit: int | None = None
    next_cursor: str | None = None
    previous_cursor: str | None = None


def run_response(run: RunRow) -> DAGRunResponse:
    """Return a run under Airflow's names."""
    return DAGRunResponse.of(
        run,
        dag_run_id=run.run_id,
        dag_display_name=run.dag_id,
        duration=duration(run.start_date, run.end_date),
        cleaned=run.cleaned,
        superseded=run.superseded,
    )


def run_collection(page: CursorPage[RunRow]) -> DAGRunCollectionResponse:
    """Return a page of runs."""
    return DAGRunCollectionResponse(
        dag_runs=[run_response(run) for run in page.rows],
        total_entries=page.total,
        next_cursor=page.next,
        previous_cursor=page.previous,
    )
