"""The audit, and how the whole is doing: `/api/v2/audit`, `/api/v2/monitor/health`, `/api/v2/version` and the probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST

from store.catalog import assets, catalog_sync, watchers
from store.database import migrations
from store.errors import SchemaOutdated
from store.processes import audit, triggerers
from store.processes.triggerers import Heartbeat
from watcher.api.auth import Viewer
from watcher.api.context import ApiContext, Context
from watcher.api.errors import UNAVAILABLE
from watcher.api.parameters import UnorderedWindow
from watcher.api.routes.logs import WriteId
from watcher.api.shapes.base import JsonObject, Shape
from watcher.machine import program_version

router = APIRouter(tags=["Monitor"])
probes = APIRouter(tags=["Probes"])


class AuditRecord(Shape):
    id: int
    at: datetime
    actor: str
    action: str
    target: str
    detail: JsonObject
    write_id: str | None


class AuditCollection(Shape):
    audit: Sequence[AuditRecord]
    total_entries: int


@router.get("/audit")
async def list_audit(context: Context, _: Viewer, window: UnorderedWindow, write_id: WriteId = None) -> AuditCollection:
    async with context.database.reading() as connection:
        entries = await audit.listed(connection, write_id, window)
    return AuditCollection(audit=[AuditRecord.of(entry) for entry in entries.rows], total_entries=entries.total)


@router.get("/monitor/health")
async def health(context: Context) -> dict[str, Any]:
    """As Airflow tells it; our scheduler and dispatcher are one, and known by the dispatcher's sign of life."""
    try:
        async with context.database.reading() as connection:
            newest = await triggerers.heartbeats(connection)
    except UNAVAILABLE:
        return {"metadatabase": {"status": "unhealthy"}, **_health({"scheduler": None, "triggerer": None})}
    return {"metadatabase": {"status": "healthy"}, **_health(newest), "dag_processor": None}


def _health(newest: Mapping[str, Heartbeat | None]) -> dict[str, Any]:
    return {
        kind: {"status": _status(beat), f"latest_{kind}_heartbeat": beat and beat.at} for kind, beat in newest.items()
    }


def _status(beat: Heartbeat | None) -> str | None:
    return None if beat is None else "healthy" if beat.lives else "unhealthy"


@router.get("/version")
async def get_version() -> dict[str, str | None]:
    return {"version": program_version(), "git_version": None}


@probes.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@probes.get("/readyz")
async def readyz(context: Context) -> dict[str, str]:
    """Everything has started, the database answers with this program's schema, and the configuration is the one applied."""
    reason = await _unready(context)
    if reason is not None:
        raise HTTPException(503, reason)
    return {"status": "ready"}


async def _unready(context: ApiContext) -> str | None:
    if not context.ready():
        return "not everything has started yet"
    try:
        await migrations.check(context.database)
        async with context.database.reading() as connection:
            applied = await catalog_sync.applied_hash(connection)
    except SchemaOutdated as error:
        return str(error)
    except UNAVAILABLE:
        return "the database does not answer"
    if context.configuration_hash not in {None, applied}:
        return "another process applied another configuration since; start this one again with the same file"
    return None


@probes.get("/metrics")
async def metrics(context: Context) -> Response:
    async with context.database.reading() as connection:
        rows, expected = await watchers.listed(connection), await assets.expected(connection)
    exposition = partial(context.metrics.exposition, rows, expected, context.descriptions)
    return Response(await anyio.to_thread.run_sync(exposition), media_type=CONTENT_TYPE_LATEST)
