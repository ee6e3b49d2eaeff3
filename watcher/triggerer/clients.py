"""The triggers of watchers, here or in child processes, and the clients of their sources: one per connection, shared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from pydantic import BaseModel

from store.errors import InvalidValue
from store.fates import Fate
from triggers.base import (
    BaseConnection,
    BaseEventTrigger,
    IncrementalTrigger,
    JsonValue,
    Position,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
)
from triggers.errors import SourceUnavailable
from watcher.host.containment import is_cancelled, sentence
from watcher.host.plugins import plugin_class
from watcher.triggerer.isolation.batch_frames import BatchLimits
from watcher.triggerer.isolation.child_handle import ChildSettings
from watcher.triggerer.isolation.children import Children
from watcher.triggerer.isolation.classes import scope
from watcher.triggerer.isolation.fork_server import ForkServer
from watcher.triggerer.isolation.inquiries import ForeignConnection
from watcher.triggerer.isolation.trigger import ForeignTrigger, IsolatedTrigger

log = structlog.get_logger()


@asynccontextmanager
async def open_clients(
    connections: Mapping[str, BaseModel],
    settings: ChildSettings | None = None,
    hidden: frozenset[str] = frozenset(),
) -> AsyncIterator[Clients]:
    """Open clients until the block ends. Child processes get these settings and do not see the `hidden` environment.

    An error of the block is raised unchanged, not in a group.
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

    `children` are for triggers in processes of their own, which open their own clients.
    """

    def __init__(
        self, connections: Mapping[str, BaseModel], tasks: TaskGroup, children: Children, installation: str = ""
    ) -> None:
        self.children = children
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
    return _imported(connection).open()


def _imported(connection: BaseModel) -> BaseConnection:
    """Return the connection, with its class imported: a trigger of `isolation: none` uses it in this process."""
    if not isinstance(connection, ForeignConnection):
        return cast("BaseConnection", connection)  # the vocabulary holds no others
    model: type[BaseConnection] = plugin_class(connection.type, BaseConnection)
    return model.model_validate(connection.given, context=scope(connection.folder))


NO_ASSETS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class Hosted:
    """A watcher as the triggerer hosts it: validated options, and the class they belong to or a child process for it."""

    name: str
    asset: str
    asset_id: int
    trigger: type[BaseEventTrigger[Any, Any]] | ForeignTrigger
    options: BaseModel
    connection: str | None
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

    @property
    def starts_now(self) -> bool:
        """True if items before the first position are not seen."""
        shown: Mapping[str, Any] = getattr(self.options, "shown", {})  # a child's options
        return getattr(self.options, "start", shown.get("start")) == "now"

    @property
    def cleaned_after(self) -> timedelta | None:
        """How long files stay after all jobs have loaded them. None: for ever."""
        clean_source = getattr(self.options, "clean_source", None)
        return None if clean_source is None else clean_source.after

    @property
    def fate_of_cleaned(self) -> Fate:
        """What becomes of a file that is cleaned away, by the options of now."""
        moves = getattr(getattr(self.options, "clean_source", None), "move_to", None) is not None
        return Fate.MOVED if moves else Fate.CLEANED


@asynccontextmanager
async def open_trigger(
    hosted: Hosted, clients: Clients, poll_timeout: timedelta, *, has_position: bool, dry_run: bool = False
) -> AsyncIterator[BaseEventTrigger[Any, Any]]:
    """Open a new trigger for the block, on the shared client or in a child process. Raises what its constructor raises."""
    context = TriggerContext(
        watcher=hosted.name,
        poll_timeout=poll_timeout,
        dry_run=dry_run,
        has_position=has_position,
        max_batch_bytes=hosted.limits.max_bytes,
        installation=clients.installation,
        manifests=hosted.manifests,
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
    """Return the position at which a trigger continues after a rewind. Raises what `BaseEventTrigger.rewound` raises."""
    if isinstance(trigger, IsolatedTrigger):
        return await trigger.ask_rewound(position, to)
    return trigger.rewound(position, to)


async def recognizes(trigger: BaseEventTrigger[Any, Any], stored: JsonValue) -> bool:
    """Return whether a checked trigger recognizes its source in the stored identity of a position."""
    if isinstance(trigger, IsolatedTrigger):
        return await trigger.ask_recognizes(stored)
    return trigger.recognizes(stored)


async def reselects(trigger: BaseEventTrigger[Any, Any], stored: JsonValue) -> bool:
    """Return whether the stored identity of a position means a trigger's source with another selection of its items."""
    if isinstance(trigger, IsolatedTrigger):
        return await trigger.ask_reselects(stored)
    return trigger.reselects(stored)


def one_poll(
    trigger: BaseEventTrigger[Any, Any], position: StoredPosition | None
) -> AsyncGenerator[TriggerBatch, None]:
    """Yield what the next poll finds. Raises `InvalidValue` for a trigger that does not poll."""
    if not isinstance(trigger, IncrementalTrigger | IsolatedTrigger):
        raise InvalidValue("only a polling trigger can be asked what it would find; this one waits for its source")
    return trigger.poll(position)
