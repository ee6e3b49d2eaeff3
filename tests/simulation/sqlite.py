"""SQLite in line: aiosqlite's connections without threads, in virtual time, with the database's clock for `now`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final, Protocol, cast
from zlib import crc32

import aiosqlite
from aiosqlite import core
from sqlalchemy.dialects.sqlite.aiosqlite import (
    AsyncAdapt_aiosqlite_connection,
    AsyncAdapt_aiosqlite_cursor,
    SQLiteDialect_aiosqlite,
)
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.util import EMPTY_DICT, LRUCache
from sqlalchemy.util.concurrency import await_

from store.database import drivers
from tests.simulation.virtual import PROCESS, VirtualLoop, current, put, world_time

AGAIN: Final = 0.02
"""Seconds after which a statement that found the file locked is tried again."""
PATIENCE: Final = 30.0
"""Seconds after which it is no longer."""
TAKE_TIME: Final = frozenset({"execute", "executemany", "commit", "connector"})
"""What takes its time. The rest is done at once."""


class Attached(Protocol):
    """A simulated process, as its connections know it."""

    name: str
    connections: list[InLine]
    commits: int
    """The commits that it has made."""

    def before_commit(self, touched: Collection[str]) -> None: ...
    def after_commit(self, touched: Collection[str]) -> float:
        """Return how many seconds more the answer takes."""

    def is_without_database(self) -> bool: ...


@dataclass(eq=False)
class InLine:
    """Stands for the queue before a connection's thread, and for the thread."""

    waiting: deque[tuple[asyncio.Future[Any] | None, Callable[[], Any]]] = field(default_factory=deque)
    is_busy: bool = False
    raw: sqlite3.Connection | None = None
    writes: bool = False
    """A writing transaction is open."""
    touched: set[str] = field(default_factory=set)
    """The tables that it has written to."""

    def __post_init__(self) -> None:
        self.process = cast("Attached | None", PROCESS.get())
        if self.process is not None:
            self.process.connections.append(self)

    def put_nowait(self, task: tuple[asyncio.Future[Any] | None, Callable[[], Any]]) -> None:
        self.waiting.append(task)
        if not self.is_busy:
            self._next()

    def _next(self) -> None:
        """Do what waits: at once, up to the next that takes its time."""
        while self.waiting:
            loop = current()
            future, function = self.waiting.popleft()
            name = _name(function)
            if name in TAKE_TIME:
                self.is_busy = True
                loop.call_later(loop.delay() / 4, self._do, future, function, name, loop.time())
                return
            self._do(future, function, name, loop.time())
        self.is_busy = False

    def _do(self, future: asyncio.Future[Any] | None, function: Callable[[], Any], name: str, since: float) -> None:
        loop, later = current(), 0.0
        takes_time = name in TAKE_TIME
        if name == "commit" and self.writes and self.process is not None:
            self.process.before_commit(self.touched)  # it may be its end
        try:
            is_away = takes_time and self.process is not None and self.process.is_without_database()
            result = (_fail if is_away else _in_memory(function, name))()
            later = self._note(loop, function, name)
            if name == "connector":
                self.raw = result
                _with_clock(result)
        except Exception as error:  # noqa: BLE001  who waits for it raises it
            is_locked = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if is_locked and loop.time() < since + PATIENCE:
                self.is_busy = True
                loop.call_later(AGAIN * (1 + loop.random.random()), self._do, future, function, name, since)
                return
            result = error
        if future is not None:
            answer = core.set_exception if isinstance(result, Exception) else core.set_result
            if later:
                loop.call_later(later, answer, future, result)
            else:
                answer(future, result)
        if takes_time:
            self._next()

    def _note(self, loop: VirtualLoop, function: Callable[[], Any], name: str) -> float:
        """Follow the transaction. Return how many seconds more the answer takes."""
        process = self.process
        who = "world" if process is None else process.name
        if name == "execute":
            text = str(function.args[0])  # type: ignore[attr-defined]
            loop.note("sql", f"{who} {crc32(text.encode())}")
            if text.startswith("BEGIN"):
                self.writes = text == "BEGIN IMMEDIATE"
            elif self.writes and text.startswith(("INSERT INTO ", "UPDATE ", "DELETE FROM ")):
                self.touched.add(text.replace("INTO ", "").replace("FROM ", "").split(maxsplit=2)[1])
        elif name in ("commit", "rollback") and self.writes:
            self.writes, touched = False, {*self.touched}
            self.touched.clear()
            loop.note(name, who)
            if name == "commit" and process is not None:
                process.commits += 1
                return process.after_commit(touched)
        return 0.0

    def cut(self) -> None:
        """End the connection as the end of its process does: what is not committed is undone."""
        self.waiting.clear()
        if self.raw is not None:
            with suppress(sqlite3.Error):
                self.raw.close()


class _Cursor(AsyncAdapt_aiosqlite_cursor):
    """A cursor that waits where something takes its time, and not where the driver would only ask its thread."""

    __slots__ = ()

    def __init__(self, adapted: Any) -> None:
        connection = adapted._connection
        if not _asks_at_once(connection):
            super().__init__(adapted)
            return
        self._adapt_connection, self._connection = adapted, connection
        self._cursor = cast("Any", aiosqlite.Cursor(connection, connection._connection.cursor()))
        self._soft_closed_memoized = EMPTY_DICT
        self._rows = deque()

    @property
    def _raw(self) -> sqlite3.Cursor:
        return cast("Any", self._cursor)._cursor

    def execute(self, operation: Any, parameters: Any = None) -> Any:
        connection, raw = cast("Any", self._connection), self._raw
        if not _asks_at_once(connection) or self._adapt_connection._execute_mutex.locked():
            return super().execute(operation, parameters)
        future = current().create_future()
        connection._tx.put_nowait((future, partial(raw.execute, operation, parameters or ())))
        try:
            await_(future)
            if raw.description:
                self._rows = deque(raw.fetchall())
        except Exception as error:  # noqa: BLE001  as SQLAlchemy's own
            self._adapt_connection._handle_exception(error)
        return self._cursor

    async def _async_soft_close(self) -> None:
        if not _asks_at_once(self._connection):
            await super()._async_soft_close()
            return
        raw = self._raw
        self._soft_closed_memoized = EMPTY_DICT.union({"description": raw.description})
        raw.close()

    def close(self) -> None:
        if self._soft_closed_memoized or not _asks_at_once(self._connection):
            super().close()
            return
        self._rows.clear()
        self._raw.close()


def _asks_at_once(connection: Any) -> bool:
    """Whether a connection is open, and its thread would have nothing else to do."""
    queue = connection._tx
    return connection._running and connection._connection is not None and not queue.is_busy and not queue.waiting


class _NoThread:
    daemon = True

    def __init__(self, **_: Any) -> None: ...

    def start(self) -> None: ...


_PRAGMAS: Final = {"busy_timeout": "busy_timeout=0", "synchronous": "synchronous=OFF"}
"""What connections ask of a disk and of threads, and what is asked in its place."""


def _in_memory(function: Callable[[], Any], name: str) -> Callable[[], Any]:
    """Return what is done in place of a function of a connection."""
    arguments = getattr(function, "args", ())
    if name == "execute" and arguments and str(arguments[0]).startswith("PRAGMA "):
        word = str(arguments[0]).removeprefix("PRAGMA ").partition("=")[0]
        if word in _PRAGMAS:
            return partial(function.func, f"PRAGMA {_PRAGMAS[word]}", *arguments[1:])  # type: ignore[attr-defined]
    return function


def _name(function: Callable[[], Any]) -> str:
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", ""))


def _fail() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    raise error


def _with_clock(raw: sqlite3.Connection) -> None:
    """Let the connection's `now` be the world's, and let nothing wait in real time."""
    raw.create_function("strftime", -1, _strftime)
    raw.execute("PRAGMA synchronous=OFF")


def _strftime(format_: str, moment: str, *modifiers: str) -> str:
    assert (format_, moment) == ("%Y-%m-%d %H:%M:%f", "now"), (format_, moment, modifiers)
    now = world_time()
    for modifier in modifiers:
        number, word = modifier.split()
        assert word == "seconds"
        now += timedelta(seconds=float(number))
    return now.replace(tzinfo=None).isoformat(" ", "milliseconds")


def install() -> None:
    """Let connections have no thread, wait in virtual time, and no sync: the folder lies in memory."""
    put(core, SimpleQueue=InLine)
    put(core, Thread=_NoThread)
    put(AsyncAdapt_aiosqlite_connection, _cursor_cls=_Cursor)
    real = sqlite3.connect

    def connect(database: Any, *arguments: Any, **options: Any) -> sqlite3.Connection:
        options["timeout"] = 0
        options["cached_statements"] = 1000
        options["check_same_thread"] = False
        return real(database, *arguments, **options)

    put(sqlite3, connect=connect)
    assert aiosqlite.Connection is core.Connection
    _share_statements()


def _share_statements() -> None:
    """Let all engines of this process, and of those forked from it, share their compiled statements."""
    shared: LRUCache[Any, Any] = LRUCache(5_000)
    put(SQLiteDialect_aiosqlite, __eq__=lambda one, other: type(one) is type(other))
    put(SQLiteDialect_aiosqlite, __hash__=lambda one: hash(type(one)))

    def create(url: Any, **options: Any) -> AsyncEngine:
        engine = create_async_engine(url, **options)
        engine.sync_engine._compiled_cache = shared
        return engine

    put(drivers, create_async_engine=create)
