"""The neighbouring Airflow as a part of the daemon: forwarding, listening, and one client for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskStatus

from config.models.settings import AirflowSettings
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
    """Forwards and listens while this process leads. Airflow's events that carry `instance` are ours.

    Without settings there is no neighbour, and nothing happens.
    """

    settings: AirflowSettings | None
    instance: str
    database: Database
    leadership: Leadership
    hint: Callable[[Hint], None]
    hooks: EventHooks
    health: Health

    def __post_init__(self) -> None:
        self.destinations: Sequence[Destination] = ()
        self._listeners: Sequence[AirflowListener] = ()
        self._client: AirflowClient | None = None
        if self.settings is not None:
            client = self._client = AirflowClient(self.settings)
            self.destinations = [Forward(client=client, instance=self.instance, lateness=self.settings.lateness)]
            listen = self.settings.listen.items()
            self._listeners = [self._listener(client, self.settings, source, asset) for source, asset in listen]

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen until cancelled. Counts as started whether Airflow is there or not."""
        try:
            async with anyio.create_task_group() as tasks:
                for listener in self._listeners:
                    await tasks.start(listener.run)
                task_status.started()
                await anyio.sleep_forever()
        finally:
            if self._client is not None:
                with anyio.CancelScope(shield=True):
                    await self._client.close()

    def _listener(self, client: AirflowClient, settings: AirflowSettings, source: str, asset: str) -> AirflowListener:
        return AirflowListener(
            source=source,
            asset=asset,
            client=client,
            instance=self.instance,
            lateness=settings.lateness,
            poll_interval=settings.poll_interval,
            database=self.database,
            leadership=self.leadership,
            hint=self.hint,
            hooks=self.hooks,
            health=self.health,
        )
