"""Asset events as people and tools see them; jobs are sent `store.detection.events.AssetEvent` itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from store.detection.events import AssetEvent, EventFields
from store.runs.runs import ConsumingRun
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


@dataclass(frozen=True, kw_only=True)
class AssetEventResponse(EventFields):
    """An event with its asset and the runs that consumed it."""

    uri: str
    name: str
    group: str
    created_dagruns: Sequence[DagRunAssetReference]
    partition_key: str | None = None


class AssetEventCollectionResponse(Shape):
    asset_events: Sequence[AssetEventResponse]
    total_entries: int


def event_response(event: AssetEvent, runs: Sequence[ConsumingRun]) -> AssetEventResponse:
    """`runs` are those of `store.runs.runs.runs_of_events`, of this event and perhaps of others."""
    values = vars(event)
    return AssetEventResponse(
        **{field.name: values[field.name] for field in fields(EventFields)},
        uri=event.asset.uri,
        name=event.asset.name,
        group=event.asset.group,
        created_dagruns=[_run(run) for run in runs if run.event_id == event.id],
    )


def _run(run: ConsumingRun) -> DagRunAssetReference:
    """Airflow's client insists on a start; a run that still waits has been started to wait."""
    return DagRunAssetReference.of(run, start_date=run.start_date or run.queued_at)


class AssetEvents(Shape):
    """Events as jobs see them."""

    asset_events: Sequence[AssetEvent]
