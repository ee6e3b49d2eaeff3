"""The application: every route behind the same guards, every failure told the same way."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI

from watcher.api import reference
from watcher.api.context import ApiContext
from watcher.api.document import Documented
from watcher.api.errors import add_handlers
from watcher.api.execution import ROUTERS
from watcher.api.guards import Guards
from watcher.api.routes import (
    asset_store,
    assets,
    dag_runs,
    dags,
    events,
    execution_tokens,
    logs,
    queued_events,
    reload,
    system,
    task_instances,
    task_store,
    tokens,
    watchers,
)
from watcher.machine import program_version


def create_probes(context: ApiContext) -> FastAPI:
    """What a process answers that has not the role `api`: /healthz, /readyz and /metrics, and nothing else."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.state.context = context
    app.include_router(system.probes)
    add_handlers(app)
    app.add_middleware(Guards)
    return app


def create_app(context: ApiContext) -> FastAPI:
    """The REST API, the Execution API and the probes."""
    # FastAPI's own pages load scripts of other machines.
    app = Documented(
        title="Asset Watcher", version=program_version(), redirect_slashes=False, docs_url=None, redoc_url=None
    )
    app.state.context = context
    core = APIRouter(prefix="/api/v2")
    # The first that matches wins: `assets/events` before `assets/{asset_id}`.
    for resource in (
        events,
        queued_events,
        assets,
        asset_store,
        dags,
        dag_runs,
        task_store,
        task_instances,
        logs,
        watchers,
        reload,
        tokens,
        execution_tokens,
        system,
    ):
        core.include_router(resource.router)
    for router in ROUTERS:  # asked most often, so looked at first
        app.include_router(router, prefix="/execution")
    app.include_router(core)
    app.include_router(system.probes)
    app.include_router(reference.router)
    add_handlers(app)
    app.add_middleware(Guards)
    return app
