"""The service that sends heartbeats while this process leads."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import httpx
from anyio.abc import TaskStatus

from asset_watcher_heartbeat import tables
from asset_watcher_heartbeat.settings import HeartbeatPart
from watcher.configuration.services import ServiceContext
from watcher.host.containment import Service
from watcher.host.leader_election import Leadership
from watcher.host.loops import keep_going

PATIENCE = 10.0
"""Seconds for one request."""


def build(context: ServiceContext) -> Service:
    """Build the service, which the settings have a section for."""
    settings = context.host.settings.part(HeartbeatPart).heartbeat
    assert settings is not None  # else the feature is not configured
    leadership = context.host.leadership

    async def run(*, task_status: TaskStatus[None]) -> None:
        task_status.started()
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            while True:
                if leadership.leads:
                    failure = await _send(client, settings.url)
                    await _remember(leadership, failure)
                await anyio.sleep(settings.every.total_seconds())

    return run


async def _remember(leadership: Leadership, failure: str | None) -> None:
    async with (
        keep_going("heartbeat.not_remembered"),
        leadership.transaction() as connection,
    ):
        await tables.remember(connection, datetime.now(UTC), failure)


async def _send(client: httpx.AsyncClient, url: str) -> str | None:
    """Send a heartbeat. Return why it has not arrived."""
    try:
        (await client.post(url, json={"state": "leading"})).raise_for_status()
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    return None
