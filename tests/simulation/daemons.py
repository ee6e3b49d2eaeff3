"""Simulated daemons: the real composition of every room, each in a context of its own, on one loop and one database file."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import anyio
import structlog
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Message

import watcher.host.home
import watcher.host.metadata
from store.database import migrations
from tests.simulation.sqlite import InLine
from tests.simulation.virtual import PROCESS, VirtualLoop, current, put
from watcher import app
from watcher.configuration import file_watch
from watcher.configuration.foreign_classes import _NoProcesses, load_with_plugins
from watcher.host import machine, watchdog
from watcher.host.watchdog import Signals

PATIENCE: Final = 20.0
"""Seconds for which a client waits for an answer."""


class NoAnswer(Exception):
    """The daemon did not answer: it is gone, frozen or slow. What it did is not known."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text) if self.text else None


@dataclass(kw_only=True)
class Death:
    """The commit at which a process is killed: the next but so many, of those that write to a table ('': of all)."""

    table: str
    takes_effect: bool
    left: int

    def comes(self, touched: Collection[str]) -> bool:
        """Count a commit. Return whether it is the one."""
        self.left -= not self.table or self.table in touched
        return self.left < 0


@dataclass(eq=False)
class Daemon:
    """One life of a process of the simulated installation."""

    name: str
    configuration: Path
    offset: float = 0.0
    is_dead: bool = False
    held: list[asyncio.Handle] | None = None
    connections: list[InLine] = field(default_factory=list)
    commits: int = 0
    dies_at: Death | None = None
    slow_at: int | None = None
    """The commit whose answer comes too late."""
    outage_until: float = 0.0
    was_without_database: bool = False
    """Its database failed at a time: a start ends then, and whoever started it does so again."""
    api: ASGIApp | None = None
    is_ready: bool = False
    ended_by_itself: str = ""
    on_death: Callable[[Daemon], None] = lambda _daemon: None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _calls: list[asyncio.Future[Answer]] = field(default_factory=list)
    _life: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        return not self.is_dead and self.held is None and self.is_ready

    @property
    def address(self) -> str:
        return f"http://{self.name}:8795"

    def start(self) -> None:
        """Begin its life, from its home and the database as they are."""
        context = copy_context()
        context.run(PROCESS.set, self)
        self._life = current().create_task(self._live(), context=context)
        current().note("start", self.name)

    async def _live(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                configuration = load_with_plugins(self.configuration, processes=_NoProcesses())
                rooms = await app._build(stack, configuration, app.RunOptions(), _NoProcesses())
                await rooms.serve()
        except BaseException as error:  # noqa: BLE001  any end that nobody asked for is a finding
            self.ended_by_itself = self.ended_by_itself or f"{type(error).__name__}: {error}"
        else:
            if not self._stop.is_set():
                self.ended_by_itself = "it ended without a word"
        current().note("end", f"{self.name} {self.ended_by_itself}")
        self._end()

    def stop(self) -> None:
        """Ask it to stop, as SIGTERM does."""
        current().note("stop", self.name)
        self._stop.set()

    async def stopped(self) -> None:
        while not self.is_dead:
            await asyncio.sleep(0.1)

    def kill(self) -> None:
        """End it where it stands: nothing of it is resumed, nothing is closed, and what is not committed is undone."""
        if self.is_dead:
            return
        current().note("kill", self.name)
        self._end()
        for connection in self.connections:
            connection.cut()

    def _end(self) -> None:
        self.is_dead = True
        for call in self._calls:
            if not call.done():
                call.set_exception(NoAnswer("the process ended"))
        self.on_death(self)
        self.is_ready = False

    def freeze(self) -> None:
        if self.held is None:
            current().note("freeze", self.name)
            self.held = []

    def thaw(self) -> None:
        if self.held is not None and not self.is_dead:
            current().note("thaw", self.name)
            current().thaw(self)

    @property
    def writes(self) -> bool:
        """Whether it is inside of a writing transaction."""
        return any(connection.writes for connection in self.connections)

    def before_commit(self, touched: Collection[str]) -> None:
        if self.dies_at is not None and not self.dies_at.takes_effect and self.dies_at.comes(touched):
            self.kill()

    def after_commit(self, touched: Collection[str]) -> float:
        if self.dies_at is not None and self.dies_at.takes_effect and self.dies_at.comes(touched):
            self.kill()
        if self.slow_at is not None and self.commits >= self.slow_at:
            self.slow_at, self.was_without_database = None, True
            current().note("slow commit", self.name)
            return 31.0
        return 0.0

    def is_without_database(self) -> bool:
        is_without = current().time() < self.outage_until
        self.was_without_database |= is_without
        return is_without

    async def ask(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request over a network that loses some, and some answers. Raises `NoAnswer`."""
        loop = current()
        await asyncio.sleep(loop.delay())
        if self.is_dead or self.api is None:
            raise NoAnswer("nobody listens")
        future: asyncio.Future[Answer] = loop.create_future()
        context = copy_context()
        context.run(PROCESS.set, self)
        self._calls.append(future)
        loop.create_task(_called(self.api, method, path, body, dict(headers or {}), self.name, future), context=context)
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await asyncio.shield(future)
        except TimeoutError:
            raise NoAnswer("no answer in time") from None
        finally:
            self._calls.remove(future)
        await asyncio.sleep(loop.delay())
        return answer


async def _called(
    api: ASGIApp, method: str, path: str, body: Any, headers: dict[str, str], host: str, future: asyncio.Future[Answer]
) -> None:
    content = b"" if body is None else json.dumps(body).encode()
    headers = {
        "host": "127.0.0.1:8795",
        "content-length": str(len(content)),
        "content-type": "application/json",
        **headers,
    }
    route, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": route,
        "raw_path": route.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": (host, 8795),
    }
    received: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
    status, parts = 0, list[bytes]()

    async def receive() -> Message:
        return received.pop() if received else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    try:
        await api(scope, receive, send)
    except Exception as error:  # noqa: BLE001  a server would answer 500 and log it
        current().note("500", f"{method} {path} {type(error).__name__}: {error}")
        status, parts = 500, [repr(error).encode()]
    if not future.done():
        future.set_result(Answer(status=status, text=b"".join(parts).decode()))


class _NoSocket:
    def __init__(self, name: str) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name, 8795

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


def _daemon() -> Daemon:
    daemon = PROCESS.get()
    assert isinstance(daemon, Daemon)
    return daemon


async def _serve(api: ASGIApp, *_: object, task_status: TaskStatus[None]) -> None:
    _daemon().api = api
    task_status.started()
    await anyio.sleep_forever()


async def _show_link(*_: object) -> None:
    _daemon().is_ready = True  # it is the last that a start does


@contextmanager
def _watching(_watchdog: object) -> Iterator[Signals]:
    send, receive = anyio.create_memory_object_stream[Any](1)
    daemon = _daemon()

    async def hear() -> None:
        await daemon._stop.wait()
        daemon.is_ready = False
        await send.send("SIGTERM")

    task = current().create_task(hear(), context=copy_context())
    try:
        yield receive
    finally:
        task.cancel()


async def _hints(*_: object) -> AsyncGenerator[object, None]:
    """Stand for what the kernel tells of the configuration's files."""
    while True:
        await anyio.sleep(file_watch.CHECK_EVERY)
        yield None


async def _nothing(*_: object, **__: object) -> None: ...


def _record(_logger: object, _method: str, record: Mapping[str, Any]) -> str:
    loop = asyncio.events._get_running_loop()
    if isinstance(loop, VirtualLoop):
        daemon = PROCESS.get()
        name = getattr(daemon, "name", "world")
        error = record.get("error", "")
        loop.note("log", f"{name} {record.get('event')} {str(error)[:160] if error else ''}")
        if record.get("exc_info"):
            loop.note("traceback", f"{name} {record.get('event')} {error!r}")
    raise structlog.DropEvent


def install() -> None:
    """Leave out what only a process of its own has: locks, sockets, signals, log files, the collector's settings."""
    put(app, listen_as=lambda *_: _NoSocket(_daemon().name))
    put(app, serve=_serve)
    put(file_watch, _hints=_hints)
    put(app, show_link=_show_link)
    put(app, open_logs=lambda *_: nullcontext())
    put(machine, keep_what_is_there=lambda: None)
    put(watchdog.Watchdog, watching=_watching)
    put(watchdog.Watchdog, end_within_grace=lambda _self: None)
    put(watcher.host.home, exclusive=lambda _path: nullcontext())
    put(watcher.host.metadata, exclusive_database=lambda _path: nullcontext())
    put(migrations, upgrade=_nothing, check=_nothing)
    structlog.configure(processors=[_record], cache_logger_on_first_use=False)


def opened(path: Path) -> sqlite3.Connection:
    """Return a connection by which the judge reads the database, outside of time."""
    connection = sqlite3.connect(path, timeout=0)
    connection.row_factory = sqlite3.Row
    return connection
