"""Assets and their events for people and tools. Jobs get `store.detection.event_lists.StoredEvent` itself."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import TypeAdapter

from store.catalog.assets import AssetRow, Attached, JobOfAsset
from store.database.asset_events import EventFields
from store.detection.event_lists import StoredEvent
from store.runs.consumption import ConsumingRun
from watcher.serving.api.shapes.base import JsonObject, Shape


class DagScheduleAssetReference(Shape):
    dag_id: str
    created_at: datetime
    updated_at: datetime


class TaskAssetReference(Shape):
    dag_id: str
    task_id: str
    created_at: datetime
    updated_at: datetime


class AssetAliasResponse(Shape):
    id: int
    name: str
    group: str


class AssetWatcherResponse(Shape):
    name: str
    trigger_id: int
    created_date: datetime


class LastAssetEventResponse(Shape):
    id: int
    timestamp: datetime


class AssetResponse(Shape):
    id: int
    name: str
    uri: str
    group: str
    extra: JsonObject
    created_at: datetime
    updated_at: datetime
    scheduled_dags: Sequence[DagScheduleAssetReference]
    producing_tasks: Sequence[TaskAssetReference]
    consuming_tasks: Sequence[TaskAssetReference]
    aliases: Sequence[AssetAliasResponse]
    watchers: Sequence[AssetWatcherResponse]
    last_asset_event: LastAssetEventResponse | None
    unprocessed: int
    """The number of events in failed runs. Airflow has no such field."""
    expect_every: float | None
    """The seconds within which an event is expected. Airflow has no such field."""
    is_late: bool
    """Whether no event came within `expect_every`. Airflow has no such field."""


class AssetAliasCollectionResponse(Shape):
    asset_aliases: Sequence[AssetAliasResponse]
    total_entries: int


class AssetCollectionResponse(Shape):
    assets: Sequence[AssetResponse]
    total_entries: int


def asset_response(
    asset: AssetRow, around: Sequence[JobOfAsset], attached: Sequence[Attached], unprocessed: Mapping[int, int]
) -> AssetResponse:
    """Return the asset with its jobs, aliases and watchers. The arguments may contain those of other assets as well."""
    jobs = [job for job in around if job.asset_id == asset.id]
    names = [name for name in attached if name.asset_id == asset.id]
    last = None
    if asset.last_event_id is not None and asset.last_event_at is not None:
        last = LastAssetEventResponse(id=asset.last_event_id, timestamp=asset.last_event_at)
    return AssetResponse.of(
        asset,
        scheduled_dags=[job for job in jobs if job.role == "schedule"],
        producing_tasks=[job for job in jobs if job.role == "outlet"],
        consuming_tasks=[job for job in jobs if job.role == "inlet"],
        aliases=[name for name in names if name.kind == "alias"],
        watchers=[_watcher(name.name, asset) for name in names if name.kind == "watcher"],
        last_asset_event=last,
        unprocessed=unprocessed.get(asset.id, 0),
        expect_every=None if asset.expect_every is None else asset.expect_every.total_seconds(),
        is_late=asset.is_late,
    )


def _watcher(name: str, asset: AssetRow) -> AssetWatcherResponse:
    """Return a watcher. Airflow's client requires a number, which is computed from the watcher's name."""
    return AssetWatcherResponse(name=name, trigger_id=zlib.crc32(name.encode()), created_date=asset.created_at)


class DagRunAssetReference(Shape):
    run_id: str
    dag_id: str
    logical_date: datetime | None
    start_date: datetime
    end_date: datetime | None
    state: str
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    partition_key: str | None
    triggering: bool


@dataclass(frozen=True, kw_only=True)
class AssetEventResponse(EventFields):
    """An event with its asset and the runs that consumed it."""

    uri: str
    name: str
    group: str
    created_dagruns: Sequence[DagRunAssetReference]


_EVENT: Final = TypeAdapter(AssetEventResponse)


class AssetEventCollectionResponse(Shape):
    asset_events: Sequence[AssetEventResponse]
    total_entries: int


def event_response(event: StoredEvent, runs: Sequence[ConsumingRun]) -> AssetEventResponse:
    """Return the event with its consuming runs. `runs` is a result of `store.runs.consumption.runs_of_events` for this and other events."""
    consuming = [_run(run) for run in runs if run.event_id == event.id]
    asset = {"uri": event.asset.uri, "name": event.asset.name, "group": event.asset.group}
    return _EVENT.validate_python({**vars(event), **asset, "created_dagruns": consuming})


def _run(run: ConsumingRun) -> DagRunAssetReference:
    """Return a consuming run. Airflow's client requires a start, so a queued run has the time when it was queued."""
    return DagRunAssetReference.of(run, start_date=run.start_date or run.queued_at)


class AssetEvents(Shape):
    """Events as jobs see them."""

    asset_events: Sequence[StoredEvent]
