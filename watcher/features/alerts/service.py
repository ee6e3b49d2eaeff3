"""The service of alerts: what is wrong is looked at, and what changed is sent, while this process leads."""

from __future__ import annotations

import anyio
from anyio.abc import TaskStatus

from config.features.alerts.settings import AlertsPart
from watcher.configuration.services import ServiceContext
from watcher.host.containment import Service
from watcher.installed import resolve
from watcher.outbound.alerts import Alerts, Evaluator
from watcher.outbound.outbox.sender import Sender
from watcher.scheduling.problems.sources import ProblemsOf


def build(context: ServiceContext) -> Service:
    """Build the service. It also ends and sends the alerts of rules that are no longer configured."""
    host = context.host
    destination = Alerts.of(host.settings.part(AlertsPart).alerts, host.metrics)
    sender = Sender(database=host.database, leadership=host.leadership, destinations=[destination])
    host.hints.listen("outbox", lambda _names: sender.wake())
    problems_of: list[ProblemsOf] = [resolve(path) for path in context.features.paths("problems").values()]
    evaluator = Evaluator.of(
        host.settings,
        host.database,
        host.leadership,
        on_alerts=sender.wake,
        planners=context.planners,
        problems_of=problems_of,
    )

    async def run(*, task_status: TaskStatus[None]) -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(sender.run)
            await tasks.start(evaluator.run)
            task_status.started()

    return run
