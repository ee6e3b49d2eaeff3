"""Asset events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from store.database.paging import Rows
from watcher.api.shapes.base import Shape


class DagRunAssetReference(Shape):
    run_id: str
    dag_id: str
    logical_date: datetime | None
    start_date: datetime
    end_date: datetime | None
    state: str
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    partition_key: str | None = None
    triggering: bool


class AssetEventResponse(Shape):
    id: int
    asset_id: int
    uri: str
    name: str
    group: str
    extra: dict[str, Any]
    source_task_id: str | None
    source_dag_id: str | None
    source_run_id: str | None
    source_map_index: int
    source_watcher: str | None
    created_dagruns: Sequence[DagRunAssetReference]
    timestamp: datetime
    partition_key: str | None = None


class AssetEventCollectionResponse(Shape):
    asset_events: Sequence[AssetEventResponse]
    total_entries: int


_SOURCES = ("source_task_id", "source_dag_id", "source_run_id", "source_map_index", "source_watcher")


def event_response(event: RowMapping, runs: Rows) -> AssetEventResponse:
    """`runs` are those of `store.runs.runs.runs_of_events`, of this event and perhaps of others."""
    return AssetEventResponse(
        **{name: event[name] for name in ("id", "asset_id", "uri", "name", "group", "timestamp", *_SOURCES)},
        extra=json.loads(event["extra"]),
        created_dagruns=[_run(run) for run in runs if run["event_id"] == event["id"]],
    )


def _run(run: RowMapping) -> DagRunAssetReference:
    """Airflow's client insists on a start; a run that still waits has been started to wait."""
    same = (
        "run_id",
        "dag_id",
        "logical_date",
        "end_date",
        "state",
        "data_interval_start",
        "data_interval_end",
        "triggering",
    )
    return DagRunAssetReference(**{name: run[name] for name in same}, start_date=run["start_date"] or run["queued_at"])


class ExecutionAsset(Shape):
    """An asset as a job sees it."""

    name: str
    uri: str
    group: str
    extra: dict[str, Any]


class SourceRun(Shape):
    """The run whose task made an event."""

    dag_id: str
    run_id: str
    data_interval_start: datetime | None
    data_interval_end: datetime | None


class SourceTaskInstance(Shape):
    """The task instance that made an event."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


class ExecutionEvent(Shape):
    """An event as a job sees it; the two last are there when a job of ours made it."""

    id: int
    timestamp: datetime
    extra: dict[str, Any]
    asset: ExecutionAsset
    created_dagruns: Sequence[DagRunAssetReference] = ()
    source_task_id: str | None
    source_dag_id: str | None
    source_run_id: str | None
    source_map_index: int
    source_watcher: str | None
    partition_key: str | None = None
    source_dag_run: SourceRun | None
    source_task_instance: SourceTaskInstance | None


def execution_asset(asset: RowMapping) -> ExecutionAsset:
    """From a row of `store.catalog.assets`."""
    return ExecutionAsset(**{name: asset[name] for name in ("name", "uri", "group")}, extra=json.loads(asset["extra"]))


def execution_event(event: RowMapping, source_runs: Mapping[int, RowMapping]) -> ExecutionEvent:
    """From a row of `store.detection.events.events`, and what `store.runs.runs.source_runs` found."""
    return ExecutionEvent(
        **{name: event[name] for name in ("id", "timestamp", *_SOURCES)},
        extra=json.loads(event["extra"]),
        asset=ExecutionAsset(
            **{name: event[name] for name in ("name", "uri", "group")}, extra=json.loads(event["asset_extra"])
        ),
        **_source(event, source_runs.get(event["id"])),
    )


def _source(event: RowMapping, run: RowMapping | None) -> dict[str, Any]:
    if run is None:
        return {"source_dag_run": None, "source_task_instance": None}
    of_task = {name: event[f"source_{name}"] for name in ("dag_id", "run_id", "task_id", "map_index")}
    return {
        "source_dag_run": SourceRun(**{name: run[name] for name in SourceRun.model_fields}),
        "source_task_instance": SourceTaskInstance(**of_task),
    }
