"""The audit, and how the whole is doing: `/api/v2/audit`, `/api/v2/monitor/health`, `/api/v2/version` and the probes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, HTTPException, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import Table

from store.catalog import catalog_sync, watchers
from store.catalog.freshness import freshness
from store.database import migrations
from store.database.schema import dispatcher, triggerer
from store.errors import SchemaOutdated
from store.processes import audit, triggerers
from watcher.api.auth import Viewer
from watcher.api.context import ApiContext, Context
from watcher.api.errors import UNAVAILABLE
from watcher.api.log_answers import WriteId
from watcher.api.parameters import UnorderedWindow
from watcher.api.shapes.watchers import AuditCollection, audit_record
from watcher.versions import program_version

router = APIRouter(tags=["Monitor"])
probes = APIRouter(tags=["Probes"])


@router.get("/audit")
async def list_audit(context: Context, _: Viewer, window: UnorderedWindow, write_id: WriteId = None) -> AuditCollection:
    async with context.database.reading() as connection:
        found, total = await audit.entries(connection, write_id=write_id, limit=window.limit, offset=window.offset)
    return AuditCollection(audit=[audit_record(entry) for entry in found], total_entries=total)


@router.get("/monitor/health")
async def health(context: Context) -> dict[str, Any]:
    """As Airflow tells it; our scheduler and dispatcher are one, and known by the dispatcher's sign of life."""
    try:
        scheduling, scheduler_at = await _heartbeat(context, dispatcher)
        triggering, triggerer_at = await _heartbeat(context, triggerer)
    except UNAVAILABLE:
        return {
            "metadatabase": {"status": "unhealthy"},
            "scheduler": _unknown("scheduler"),
            "triggerer": _unknown("triggerer"),
        }
    return {
        "metadatabase": {"status": "healthy"},
        "scheduler": {"status": scheduling, "latest_scheduler_heartbeat": scheduler_at},
        "triggerer": {"status": triggering, "latest_triggerer_heartbeat": triggerer_at},
        "dag_processor": None,
    }


async def _heartbeat(context: ApiContext, processes: Table) -> tuple[str | None, datetime | None]:
    async with context.database.reading() as connection:
        found = await triggerers.heartbeat(connection, processes)
    if found is None:
        return None, None
    return "healthy" if found.lives else "unhealthy", found.at


def _unknown(kind: str) -> dict[str, None]:
    return {"status": None, f"latest_{kind}_heartbeat": None}


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
        found = await watchers.all_watchers(connection)
        expected = await freshness(connection)
    return Response(context.metrics.exposition(found, expected), media_type=CONTENT_TYPE_LATEST)
