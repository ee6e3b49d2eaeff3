"""The routes of the REST API for people and tools."""

from __future__ import annotations

from typing import Final

from watcher.serving.api.routes import (
    asset_store,
    assets,
    dag_runs,
    dags,
    events,
    execution_tokens,
    filtered,
    job_queues,
    logs,
    queued_events,
    rejected,
    reload,
    stream,
    system,
    task_changes,
    task_instances,
    task_store,
    tokens,
    watchers,
)

ROUTERS: Final = (
    events.router,
    asset_store.router,
    queued_events.router,
    assets.router,
    dags.router,
    job_queues.router,
    filtered.router,
    dag_runs.router,
    task_store.router,
    task_instances.router,
    task_changes.router,
    logs.router,
    watchers.router,
    rejected.router,
    reload.router,
    stream.router,
    tokens.router,
    tokens.links,
    execution_tokens.router,
    system.router,
)
"""The routers, those first that are called often: each route that does not match costs a request time. The first route that
matches wins, so `assets/events` comes before `assets/{asset_id}`."""
