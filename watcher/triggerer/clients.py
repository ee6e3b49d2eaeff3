"""The triggers of watchers, here or in processes of their own, and the clients of their sources: one per connection, shared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Protocol, TypeAlias, cast

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from pydantic import BaseModel

from config.facts import WatcherFacts
from triggers.base import BaseConnection, BaseEventTrigger, Facts, TriggerContext
from triggers.errors import ConfigurationError, SourceUnavailable
from watcher.host.containment import is_cancelled, sentence
from watcher.host.plugins import NO_ISOLATION
from watcher.triggerer.limits import BatchLimits
from watcher.triggerer.open_triggers import OpenTrigger, TriggerHere

log = structlog.get_logger()


@asynccontextmanager
async def open_clients(
    connections: Mapping[str, BaseModel], isolation: Isolation | None = None
) -> AsyncIterator[Clients]:
    """Open clients until the block ends. An error of the block is raised unchanged, not in a group."""
    async with tasks_of_block() as tasks:
        yield Clients(connections, tasks, isolation)


@asynccontextmanager
async def tasks_of_block() -> AsyncIterator[TaskGroup]:
    """Open a task group that the end of the block cancels. An error of the block is raised unchanged, not in a group."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001  raised again below
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


_Owner: TypeAlias = "str | type[BaseEventTrigger[Any, Any]]"
"""A connection's name, or a trigger class without connections."""
_Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass(eq=False)
class _Open:
    """An open client and the number of its users. A `retired` one is closed when its last user releases it."""

    client: Any
    users: int = 0
    retired: bool = False
    over: anyio.Event = field(default_factory=anyio.Event)

    def release(self) -> None:
        self.users -= 1
        self.close_if_unused()

    def close_if_unused(self) -> None:
        if self.retired and not self.users:
            self.over.set()


def _release_nothing() -> None: ...


class Clients:
    """Opens each connection once, on first use. A task of its own enters and leaves each client.

    `isolation` runs triggers in processes of their own, which open their own clients; None: there is none.
    """

    def __init__(
        self,
        connections: Mapping[str, BaseModel],
        tasks: TaskGroup,
        isolation: Isolation | None = None,
        installation: str = "",
    ) -> None:
        self.isolation = isolation
        self.installation = installation
        """The id of the metadata database; '' where a command does not know it."""
        self._connections = connections
        self._tasks = tasks
        self._open: dict[_Owner, _Open] = {}
        self._opening: defaultdict[_Owner, anyio.Lock] = defaultdict(anyio.Lock)

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Any]:
        """Use the client of this connection in the block. Raises what opening it raises."""
        opened = await self._opened(name)
        try:
            yield opened.client
        finally:
            opened.release()

    def hold(self, name: str | None, client: Any) -> Callable[[], None] | None:
        """Keep a client open past the end of its block. Return what releases it; None: it is being replaced.

        `name` None: the trigger has no connection, and there is nothing to keep.
        """
        if name is None:
            return _release_nothing
        opened = self._open.get(name)
        if opened is None or opened.client is not client:
            return None
        opened.users += 1
        return opened.release

    def replace(self, connections: Mapping[str, BaseModel], changed: Collection[str]) -> None:
        """Use these connections from now on. A user of a client of a `changed` one keeps it until it releases it."""
        self._connections = connections
        for name in changed:
            if (opened := self._open.pop(name, None)) is not None:
                opened.retired = True
                opened.close_if_unused()

    def start_soon(self, task: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Start a task that lasts as long as the clients at most. It must not raise."""
        self._tasks.start_soon(task, name=name)

    async def shared_by(self, trigger: type[BaseEventTrigger[Any, Any]]) -> Any:
        """Return what triggers of this class share here without a connection. Raises what opening it raises."""
        async with self._opening[trigger]:
            if trigger not in self._open:
                self._open[trigger] = await self._tasks.start(self._keep, trigger, trigger.open_shared)
            return self._open[trigger].client

    async def _opened(self, name: str) -> _Open:
        """Return the open client, with the caller among its users."""
        async with self._opening[name]:
            if name not in self._open:
                if (connection := self._connections.get(name)) is None:
                    raise SourceUnavailable(f"the connection {name} is not configured any more")
                opened: _Open = await self._tasks.start(self._keep, name, partial(_open, connection))
                if self._connections.get(name) == connection:
                    self._open[name] = opened
                else:  # it was replaced while it opened: only for this caller, which is about to stop
                    opened.retired = True
                opened.users += 1
                return opened
            self._open[name].users += 1
            return self._open[name]

    async def _keep(self, name: _Owner, open_: _Opener, *, task_status: TaskStatus[_Open]) -> None:
        """Keep a client open. Whatever it raises meanwhile ends that client only; its next user opens another."""
        opened: _Open | None = None
        try:
            async with open_() as client:
                opened = _Open(client)
                task_status.started(opened)
                await opened.over.wait()
                log.info("connection.closed", connection=str(name))
        except BaseException as error:
            if is_cancelled() and isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            if opened is not None:
                if self._open.get(name) is opened:
                    del self._open[name]
                log.exception("connection.failed", connection=str(name), error=sentence(error))
            elif isinstance(error, Exception):
                raise
            else:
                raise SourceUnavailable(f"connection {name} cannot be opened: {sentence(error)}") from error


def _open(connection: BaseModel) -> AbstractAsyncContextManager[Any]:
    return cast("BaseConnection", connection).open()  # the vocabulary holds no others


class TriggerHost(Protocol):
    """What makes the triggers of one watcher, one for each start."""

    @property
    def format(self) -> int:
        """The format of the states that they yield."""

    @property
    def is_here(self) -> bool:
        """Whether they run in this process. Others start a process each, and have time limits of their own there."""

    def open(
        self, hosted: Hosted, clients: Clients, context: TriggerContext
    ) -> AbstractAsyncContextManager[OpenTrigger]:
        """Make a trigger for the block. Raises what its constructor raises."""


@dataclass(frozen=True, slots=True)
class ImportedTrigger:
    """The host of a trigger's class that this process has imported. Its triggers run here, on the shared client."""

    trigger: type[BaseEventTrigger[Any, Any]]
    is_here: ClassVar[bool] = True

    @property
    def format(self) -> int:
        return self.trigger.format

    @asynccontextmanager
    async def open(self, hosted: Hosted, clients: Clients, context: TriggerContext) -> AsyncIterator[OpenTrigger]:
        if hosted.connection is None:
            yield TriggerHere(self.trigger(hosted.options, await clients.shared_by(self.trigger), context))
            return
        async with clients.use(hosted.connection) as client:
            yield TriggerHere(self.trigger(hosted.options, client, context))


@dataclass(frozen=True, kw_only=True)
class ForeignTrigger:
    """The host of a trigger in a process of its own: everything that process needs. This one imports nothing of the trigger's."""

    path: str
    """The dotted path of its class."""
    options: Mapping[str, Any]
    """The options in the YAML, with the defaults that the asset's URI implies."""
    connection: Mapping[str, Any] | None
    """`class`, the dotted path, and `options`, as in the YAML, with secrets in clear."""
    folder: Path
    """The folder where relative paths start."""
    format: int = 1
    """The format of the states that its class yields."""
    is_here: ClassVar[bool] = False

    @asynccontextmanager
    async def open(self, hosted: Hosted, clients: Clients, context: TriggerContext) -> AsyncIterator[OpenTrigger]:
        if clients.isolation is None:
            raise ConfigurationError(f"{hosted.name} needs a process of its own; {NO_ISOLATION}")
        async with clients.isolation.open(self, context) as trigger:
            yield trigger


class Isolation(Protocol):
    """Runs triggers in processes of their own. The composition root and the commands pass in the one there is."""

    def open(self, trigger: ForeignTrigger, context: TriggerContext) -> AbstractAsyncContextManager[OpenTrigger]:
        """Make a trigger in a process of its own, which ends with the block. Raises what its constructor raised there."""


NO_ASSETS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosted:
    """A watcher as the triggerer hosts it: validated options, and what makes triggers with them."""

    name: str
    asset: str
    asset_id: int
    trigger: TriggerHost
    options: BaseModel
    connection: str | None
    facts: WatcherFacts = field(default_factory=Facts)
    """What the options say of the watcher."""
    limits: BatchLimits = field(default_factory=BatchLimits)
    divides: bool = True
    """True for a shipped trigger, which divides its batches itself. Other batches are checked against the limits."""
    definition: str | None = None
    """The hash by which processes compare their definitions of the watcher."""
    pause_after: int | None = None
    """The number of failed polls in a row that pause the watcher. None: never."""
    manifests: Sequence[str] = ()
    """Globs of the files whose content jobs wait for."""
    further_assets: Mapping[str, int] = field(default_factory=lambda: NO_ASSETS)
    """The ids of the assets besides its own that its events may be of, by name, as configured."""


@asynccontextmanager
async def open_trigger(
    hosted: Hosted, clients: Clients, poll_timeout: timedelta, *, has_position: bool, dry_run: bool = False
) -> AsyncIterator[OpenTrigger]:
    """Open a new trigger for the block, wherever it runs. Raises what its constructor raises."""
    context = TriggerContext(
        watcher=hosted.name,
        poll_timeout=poll_timeout,
        dry_run=dry_run,
        has_position=has_position,
        max_batch_bytes=hosted.limits.max_bytes,
        installation=clients.installation,
        manifests=hosted.manifests,
    )
    async with hosted.trigger.open(hosted, clients, context) as trigger:
        yield trigger
