"""Assets."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from store.filters import Rows
from watcher.api.shapes.base import Shape


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
    extra: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    scheduled_dags: Sequence[DagScheduleAssetReference]
    producing_tasks: Sequence[TaskAssetReference]
    consuming_tasks: Sequence[TaskAssetReference]
    aliases: Sequence[AssetAliasResponse] = ()
    watchers: Sequence[AssetWatcherResponse]
    last_asset_event: LastAssetEventResponse | None


class AssetCollectionResponse(Shape):
    assets: Sequence[AssetResponse]
    total_entries: int


def asset_response(asset: RowMapping, jobs: Rows, watchers: Rows) -> AssetResponse:
    """`jobs` and `watchers` are those of `store.listings`, of this asset and perhaps of others."""
    around = [job for job in jobs if job["asset_id"] == asset["id"]]
    last_id = asset["last_event_id"]
    return AssetResponse(
        **{name: asset[name] for name in ("id", "name", "uri", "group", "created_at", "updated_at")},
        extra=json.loads(asset["extra"]),
        scheduled_dags=[
            DagScheduleAssetReference(**_times(job), dag_id=job["dag_id"])
            for job in around
            if job["role"] == "schedule"
        ],
        producing_tasks=[_task(job) for job in around if job["role"] == "outlet"],
        consuming_tasks=[_task(job) for job in around if job["role"] == "inlet"],
        watchers=[_watcher(w["name"], asset) for w in watchers if w["asset_id"] == asset["id"]],
        last_asset_event=LastAssetEventResponse(id=last_id, timestamp=asset["last_event_at"]) if last_id else None,
    )


def _task(job: RowMapping) -> TaskAssetReference:
    return TaskAssetReference(**_times(job), dag_id=job["dag_id"], task_id=job["task_id"])


def _times(job: RowMapping) -> dict[str, datetime]:
    return {"created_at": job["created_at"], "updated_at": job["updated_at"]}


def _watcher(name: str, asset: RowMapping) -> AssetWatcherResponse:
    """Airflow's client insists on a number; our watchers are known by name."""
    return AssetWatcherResponse(name=name, trigger_id=zlib.crc32(name.encode()), created_date=asset["created_at"])
