"""Assets."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping

from store.catalog.freshness import Freshness
from store.database.paging import Rows
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
    aliases: Sequence[AssetAliasResponse]
    watchers: Sequence[AssetWatcherResponse]
    last_asset_event: LastAssetEventResponse | None
    unprocessed: int
    """Ours: events that lie in failed runs."""
    expect_every: float | None
    """Ours: an event is expected every so many seconds."""
    is_late: bool
    """Ours: none came for longer."""


class AssetAliasCollectionResponse(Shape):
    asset_aliases: Sequence[AssetAliasResponse]
    total_entries: int


class AssetCollectionResponse(Shape):
    assets: Sequence[AssetResponse]
    total_entries: int


@dataclass(frozen=True, kw_only=True)
class Around:
    """What stands around some assets, from `store.catalog.assets` and `store.catalog.aliases`."""

    jobs: Rows
    watchers: Rows
    aliases: Rows
    unprocessed: Mapping[int, int]
    freshness: Sequence[Freshness]


def alias_response(alias: RowMapping) -> AssetAliasResponse:
    """A row of table `asset_alias`."""
    return AssetAliasResponse(**{name: alias[name] for name in AssetAliasResponse.model_fields})


def asset_response(asset: RowMapping, known: Around) -> AssetResponse:
    """`known` may tell of other assets too."""
    around = [job for job in known.jobs if job["asset_id"] == asset["id"]]
    last_id = asset["last_event_id"]
    expected = next((one for one in known.freshness if one.asset_id == asset["id"]), None)
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
        aliases=[alias_response(alias) for alias in known.aliases if alias["asset_id"] == asset["id"]],
        watchers=[_watcher(w["name"], asset) for w in known.watchers if w["asset_id"] == asset["id"]],
        last_asset_event=LastAssetEventResponse(id=last_id, timestamp=asset["last_event_at"]) if last_id else None,
        unprocessed=known.unprocessed.get(asset["id"], 0),
        expect_every=None if expected is None else expected.expect_every.total_seconds(),
        is_late=expected is not None and expected.is_late,
    )


def _task(job: RowMapping) -> TaskAssetReference:
    return TaskAssetReference(**_times(job), dag_id=job["dag_id"], task_id=job["task_id"])


def _times(job: RowMapping) -> dict[str, datetime]:
    return {"created_at": job["created_at"], "updated_at": job["updated_at"]}


def _watcher(name: str, asset: RowMapping) -> AssetWatcherResponse:
    """Airflow's client insists on a number; our watchers are known by name."""
    return AssetWatcherResponse(name=name, trigger_id=zlib.crc32(name.encode()), created_date=asset["created_at"])
