"""The neighbouring Airflow as a part of the daemon: forwarding, listening, and one client for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskStatus

from config.features.airflow.settings import AirflowSettings
from store.database import Database
from store.detection.interest import EventHooks
from watcher.host.health import Health
from watcher.host.leader_election import Leadership
from watcher.host.loops import Hint
from watcher.outbound.airflow.client import AirflowClient
from watcher.outbound.airflow.forward import Forward
from watcher.outbound.airflow.listener import AirflowListener
from watcher.outbound.outbox.delivery import Destination


@dataclass(kw_only=True, eq=False)
class Neighbour:
    """Forwards and listens while this process leads. Airflow's events that carry `instance` are ours."""

    settings: AirflowSettings
    instance: str
    database: Database
    leadership: Leadership
    hint: Callable[[Hint], None]
    hooks: EventHooks
    health: Health

    def __post_init__(self) -> None:
        self._client = AirflowClient(self.settings)
        forward = Forward(client=self._client, instance=self.instance, lateness=self.settings.lateness)
        self.destinations: Sequence[Destination] = [forward]
        self._listeners = [self._listener(source, asset) for source, asset in self.settings.listen.items()]

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled. Counts as started whether Airflow is there or not."""
        try:
            async with anyio.create_task_group() as tasks:
                for listener in self._listeners:
                    await tasks.start(listener.run)
                task_status.started()
                await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self._client.close()

    def _listener(self, source: str, asset: str) -> AirflowListener:
        return AirflowListener(
            source=source,
            asset=asset,
            client=self._client,
            instance=self.instance,
            lateness=self.settings.lateness,
            poll_interval=self.settings.poll_interval,
            database=self.database,
            leadership=self.leadership,
            hint=self.hint,
            hooks=self.hooks,
            health=self.health,
        )
