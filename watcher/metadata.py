"""Where the metadata is: the database, opened and waited for, the store's backend, and the log files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

import anyio
import structlog
from sqlalchemy import URL, make_url

from config.settings import Settings
from store.backends import check_backend, load_backend
from store.base import BaseStoreBackend
from store.database import Database, migrations, sqlite_url
from store.errors import BackendUnusable, CommitUnknown, DatabaseUnavailable
from store.metastore import MetastoreStoreBackend
from store.processes.file_locks import exclusive_database
from watcher.home import refusing_os_errors

START_PATIENCE: Final = 30.0
"""Seconds for which a starting daemon waits for its database."""
T = TypeVar("T")

log = structlog.get_logger()


async def patiently(attempt: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
    """What it returns, tried again while the database is unavailable, for so many seconds (None: `START_PATIENCE`).

    An attempt may have taken effect before the next one. Raises what the last one raised.
    """
    give_up_at = anyio.current_time() + (START_PATIENCE if seconds is None else seconds)
    for attempts in count(1):
        try:
            return await attempt()
        except (DatabaseUnavailable, CommitUnknown) as error:
            if anyio.current_time() >= give_up_at:
                raise
            log.warning("database.awaited", error=str(error), attempts=attempts)
        await anyio.sleep(min(0.2 * attempts, 2))
    raise AssertionError


@asynccontextmanager
async def open_database(settings: Settings, *, upgrade: bool) -> AsyncIterator[Database]:
    """The metadata database with this program's schema; an embedded one is locked and migrated by itself."""
    async with AsyncExitStack() as stack:
        url = database_url(settings)
        if url.get_backend_name() == "sqlite":
            with refusing_os_errors(f"the database {url.database} cannot be opened"):
                stack.enter_context(exclusive_database(Path(str(url.database))))
        idle_limit = settings.triggerer.lease.total_seconds() * 2 / 3
        database = await stack.enter_async_context(Database.open(url, idle_in_transaction_timeout=idle_limit))
        if upgrade or database.dialect == "sqlite":
            await patiently(lambda: migrations.upgrade(database))
        await patiently(lambda: migrations.check(database))
        yield database


def check_store(settings: Settings) -> None:
    """Whether the configured store backend can be made. Raises `BackendUnusable`."""
    backend = check_backend(settings.store.backend, settings.store.options)
    if settings.workers.state_store_backend is not None and not issubclass(backend, MetastoreStoreBackend):
        raise BackendUnusable(
            f"the store backend {settings.store.backend} cannot mark the references of a worker-side backend; "
            "leave settings.workers.state_store_backend out, or settings.store.backend"
        )


def open_backend(settings: Settings, database: Database) -> BaseStoreBackend:
    """The configured store backend. Raises `BackendUnusable`."""
    return load_backend(settings.store.backend, settings.store.options, database)


def database_url(settings: Settings) -> URL:
    """Where the metadata database is: as configured, or the home's embedded one."""
    url = settings.database.url
    return sqlite_url(settings.home / "watcher.db") if url is None else make_url(url.get_secret_value())


def logs_directory(settings: Settings) -> Path:
    """Where the log files are: the configured folder, or the home's own."""
    return settings.logs.directory or settings.home / "logs"
