"""The clients of sources, one per connection, shared by all its watchers and opened on first use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from pydantic import BaseModel

from triggers.base import BaseConnection
from triggers.errors import SourceUnavailable
from watcher.containment import is_cancelled, sentence

log = structlog.get_logger()


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
        """Whatever a client raises while it is open ends that client alone; who needs it next opens another."""
        connection = cast("BaseConnection", self._connections[name])  # the vocabulary holds no others
        opened = False
        try:
            async with connection.open() as client:
                opened = True
                task_status.started(client)
                await anyio.sleep_forever()
        except BaseException as error:
            if is_cancelled() and isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            self._open.pop(name, None)
            if opened:
                log.exception("connection.failed", connection=name, error=sentence(error))
            elif isinstance(error, Exception):
                raise
            else:
                raise SourceUnavailable(f"connection {name} cannot be opened: {sentence(error)}") from error
