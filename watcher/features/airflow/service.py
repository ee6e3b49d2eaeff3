"""The services of the neighbouring Airflow: forwarding and listening while this process leads."""

from __future__ import annotations

import anyio
from anyio.abc import TaskStatus

from config.features.airflow.settings import AirflowPart
from watcher.configuration.services import ServiceContext
from watcher.host.containment import Service
from watcher.outbound.airflow.neighbour import Neighbour
from watcher.outbound.outbox.sender import Sender


def build(context: ServiceContext) -> Service:
    """Build the service. Airflow knows our events by the id of the installation."""
    host = context.host
    settings = host.settings.part(AirflowPart).airflow
    assert settings is not None  # noqa: S101  without them the feature is not configured
    neighbour = Neighbour(
        settings=settings,
        instance=context.installation,
        database=host.database,
        leadership=host.leadership,
        hint=host.hints.give,
        health=host.health,
        hooks=context.hooks,
    )
    sender = Sender(database=host.database, leadership=host.leadership, destinations=neighbour.destinations)
    host.hints.listen("outbox", lambda _names: sender.wake())

    async def run(*, task_status: TaskStatus[None]) -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(sender.run)
            await tasks.start(neighbour.run)
            task_status.started()

    return run
