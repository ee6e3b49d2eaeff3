"""The triggers of watchers, and the clients of their sources: one per connection, shared, opened on first use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic import BaseModel

from triggers.base import BaseConnection, BaseEventTrigger, TriggerContext


@asynccontextmanager
async def open_clients(connections: Mapping[str, BaseModel]) -> AsyncIterator[Clients]:
    """Clients until the block ends. What the block raises comes out as it is, in no group."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield Clients(connections, tasks)
        except Exception as error:  # noqa: BLE001  raised again below
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Clients:
    """Opens each connection once. Every client lives in a task of its own, so that one task enters and leaves it."""

    def __init__(self, connections: Mapping[str, BaseModel], tasks: TaskGroup) -> None:
        self._connections = connections
        self._tasks = tasks
        self._open: dict[str, Any] = {}
        self._opening: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    async def get(self, name: str | None) -> Any:
        """The client of this connection; None for watchers that need none. Raises what opening it raises."""
        if name is None:
            return None
        async with self._opening[name]:
            if name not in self._open:
                self._open[name] = await self._tasks.start(self._keep, name)
        return self._open[name]

    async def _keep(self, name: str, *, task_status: TaskStatus[Any]) -> None:
        connection = cast("BaseConnection", self._connections[name])  # the vocabulary holds no others
        async with connection.open() as client:
            task_status.started(client)
            await anyio.sleep_forever()


@dataclass(frozen=True, kw_only=True)
class Hosted:
    """A watcher as the triggerer hosts it: validated options, and the class they belong to."""

    name: str
    asset: str
    asset_id: int
    trigger: type[BaseEventTrigger[Any, Any]]
    options: BaseModel
    connection: str | None


async def build(
    hosted: Hosted, clients: Clients, poll_timeout: timedelta, *, dry_run: bool = False
) -> BaseEventTrigger[Any, Any]:
    """A new trigger on the connection's shared client. Raises whatever its constructor raises."""
    client = await clients.get(hosted.connection)
    context = TriggerContext(watcher=hosted.name, poll_timeout=poll_timeout, dry_run=dry_run)
    return hosted.trigger(hosted.options, client, context)
