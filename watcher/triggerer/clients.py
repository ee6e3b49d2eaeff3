"""The triggers of watchers, here or in children, and the clients of their sources: one per connection, shared, opened on first use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias, cast

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from pydantic import BaseModel

from store.errors import InvalidValue
from triggers.base import (
    BaseConnection,
    BaseEventTrigger,
    IncrementalTrigger,
    Position,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
)
from triggers.errors import SourceUnavailable
from watcher.host.containment import is_cancelled, sentence
from watcher.host.plugins import plugin_class
from watcher.triggerer.isolation.child_handle import ChildSettings
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.classes import scope
from watcher.triggerer.isolation.fork_server import ForkServer
from watcher.triggerer.isolation.inquiries import ForeignConnection
from watcher.triggerer.isolation.trigger import ForeignTrigger, IsolatedTrigger
from watcher.triggerer.isolation.wire import BatchLimits

log = structlog.get_logger()


@asynccontextmanager
async def open_clients(
    connections: Mapping[str, BaseModel],
    settings: ChildSettings | None = None,
    hidden: frozenset[str] = frozenset(),
) -> AsyncIterator[Clients]:
    """Clients until the block ends, and children with these settings, which do not see the `hidden` environment.

    What the block raises comes out as it is, in no group.
    """
    failure: Exception | None = None
    with ForkServer(hidden) as server:
        async with anyio.create_task_group() as tasks:
            try:
                yield Clients(connections, tasks, Children(server, tasks, settings or ChildSettings()))
            except Exception as error:  # noqa: BLE001  raised again below
                failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


_Owner: TypeAlias = "str | type[BaseEventTrigger[Any, Any]]"
"""A connection's name, or the class whose triggers have none."""
_Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass(eq=False)
class _Open:
    """A client that is open, and how many use it. One that is `retired` is closed when nobody does any more."""

    client: Any
    users: int = 0
    retired: bool = False
    over: anyio.Event = field(default_factory=anyio.Event)

    def let_go(self) -> None:
        self.users -= 1
        self.close_if_unused()

    def close_if_unused(self) -> None:
        if self.retired and not self.users:
            self.over.set()


def _nothing() -> None: ...


class Clients:
    """Opens each connection once. Every client lives in a task of its own, so that one task enters and leaves it.

    `children` are for triggers in processes of their own, which open clients of their own.
    """

    def __init__(self, connections: Mapping[str, BaseModel], tasks: TaskGroup, children: Children) -> None:
        self.children = children
        self._connections = connections
        self._tasks = tasks
        self._open: dict[_Owner, _Open] = {}
        self._opening: defaultdict[_Owner, anyio.Lock] = defaultdict(anyio.Lock)

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Any]:
        """The client of this connection, for the block. Raises what opening it raises."""
        opened = await self._opened(name)
        try:
            yield opened.client
        finally:
            opened.let_go()

    def hold(self, name: str | None, client: Any) -> Callable[[], None] | None:
        """Lets go of a client, which its block's end then does not; None: it is being replaced. `name` None: no connection."""
        if name is None:
            return _nothing
        opened = self._open.get(name)
        if opened is None or opened.client is not client:
            return None
        opened.users += 1
        return opened.let_go

    def replace(self, connections: Mapping[str, BaseModel], changed: Collection[str]) -> None:
        """From now on these are the connections. Who uses a client of a `changed` one goes on with it until he lets go."""
        self._connections = connections
        for name in changed:
            if (opened := self._open.pop(name, None)) is not None:
                opened.retired = True
                opened.close_if_unused()

    async def shared_by(self, trigger: type[BaseEventTrigger[Any, Any]]) -> Any:
        """What triggers of this class have in common here, without a connection. Raises what opening it raises."""
        async with self._opening[trigger]:
            if trigger not in self._open:
                self._open[trigger] = await self._tasks.start(self._keep, trigger, trigger.open_shared)
            return self._open[trigger].client

    async def _opened(self, name: str) -> _Open:
        """With the caller among its users."""
        async with self._opening[name]:
            if name not in self._open:
                if (connection := self._connections.get(name)) is None:
                    raise SourceUnavailable(f"the connection {name} is not configured any more")
                opened: _Open = await self._tasks.start(self._keep, name, partial(_open, connection))
                if self._connections.get(name) == connection:
                    self._open[name] = opened
                else:  # replaced while it was being opened: for this caller only, who is about to be stopped
                    opened.retired = True
                opened.users += 1
                return opened
            self._open[name].users += 1
            return self._open[name]

    async def _keep(self, name: _Owner, open_: _Opener, *, task_status: TaskStatus[_Open]) -> None:
        """Whatever a client raises while it is open ends that client alone; who needs it next opens another."""
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
    return _imported(connection).open()


def _imported(connection: BaseModel) -> BaseConnection:
    """A trigger of `isolation: none` uses it: now this process needs its class too."""
    if not isinstance(connection, ForeignConnection):
        return cast("BaseConnection", connection)  # the vocabulary holds no others
    model: type[BaseConnection] = plugin_class(connection.type, BaseConnection)
    return model.model_validate(connection.given, context=scope(connection.folder))


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosted:
    """A watcher as the triggerer hosts it: validated options and the class they belong to, or what a child makes of them."""

    name: str
    asset: str
    asset_id: int
    trigger: type[BaseEventTrigger[Any, Any]] | ForeignTrigger
    options: BaseModel
    connection: str | None
    limits: BatchLimits = field(default_factory=BatchLimits)
    divides: bool = True
    """A shipped trigger, which divides what it finds: it knows the limits, and nobody holds its batches to them."""
    definition: str | None = None
    """The hash by which processes tell whether they mean the same."""
    pause_after: int | None = None
    """So many failed polls in a row pause it."""

    @property
    def starts_now(self) -> bool:
        """What comes before its first position is not seen."""
        shown: Mapping[str, Any] = getattr(self.options, "shown", {})  # a child's options
        return getattr(self.options, "start", shown.get("start")) == "now"


@asynccontextmanager
async def open_trigger(
    hosted: Hosted, clients: Clients, poll_timeout: timedelta, *, dry_run: bool = False
) -> AsyncIterator[BaseEventTrigger[Any, Any]]:
    """A new trigger for the block, on the connection's shared client or in a child. Raises whatever its constructor raises."""
    context = TriggerContext(
        watcher=hosted.name,
        poll_timeout=poll_timeout,
        dry_run=dry_run,
        max_batch_bytes=hosted.limits.max_bytes,
    )
    if isinstance(hosted.trigger, ForeignTrigger):
        async with hosted.trigger.open(clients.children, context) as isolated:
            yield isolated
    else:
        if hosted.connection is None:
            yield hosted.trigger(hosted.options, await clients.shared_by(hosted.trigger), context)
            return
        async with clients.use(hosted.connection) as client:
            yield hosted.trigger(hosted.options, client, context)


async def rewound(trigger: BaseEventTrigger[Any, Any], position: StoredPosition | None, to: str) -> Position:
    """Where a trigger goes on after a rewind. Raises what `BaseEventTrigger.rewound` raises."""
    if isinstance(trigger, IsolatedTrigger):
        return await trigger.ask_rewound(position, to)
    return trigger.rewound(position, to)


def one_poll(
    trigger: BaseEventTrigger[Any, Any], position: StoredPosition | None
) -> AsyncGenerator[TriggerBatch, None]:
    """What the next poll finds. Raises `InvalidValue` of a trigger that does not poll."""
    if not isinstance(trigger, IncrementalTrigger | IsolatedTrigger):
        raise InvalidValue("only a polling trigger can be asked what it would find; this one waits for its source")
    return trigger.poll(position)
