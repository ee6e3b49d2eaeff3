"""Opens the places of metadata: the database, the store's backend, and the log files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import structlog
from anyio.abc import TaskStatus
from sqlalchemy import URL, make_url

from config.models.settings import DatabaseSettings, Settings
from store.backends import check_backend, load_backend
from store.base import BaseStoreBackend
from store.database import Database, migrations, sqlite_url
from store.database.drivers import Connect
from store.errors import BackendUnusable, DatabaseUnavailable, DatabaseUnusable
from store.metastore import MetastoreStoreBackend
from store.processes.file_locks import exclusive_database
from triggers.errors import ConfigurationError, SourceUnavailable
from watcher.host import logs, machine
from watcher.host.home import refusing_os_errors
from watcher.host.loops import insist, keep_going

if TYPE_CHECKING:
    from triggers.postgres.server.passwords import PasswordSupply

START_PATIENCE: Final = 30.0
"""Seconds for which a starting daemon waits for its database."""
END_EVERY: Final = 1.0
"""Seconds between two attempts to end frozen sessions."""
T = TypeVar("T")

log = structlog.get_logger()


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Return what `attempt` returns. It is retried for `START_PATIENCE` seconds while the database is unavailable."""
    return await insist("database.awaited", attempt, seconds=START_PATIENCE)


@asynccontextmanager
async def open_database(settings: Settings, *, upgrade: bool) -> AsyncIterator[Database]:
    """Open the metadata database with this program's schema. An embedded one is locked and migrated here."""
    async with AsyncExitStack() as stack:
        url = database_url(settings)
        if url.get_backend_name() == "sqlite":
            with refusing_os_errors(f"the database {url.database} cannot be opened"):
                stack.enter_context(exclusive_database(Path(str(url.database))))
        idle_limit = settings.triggerer.lease.total_seconds() * 2 / 3
        connections = connections_to_database(settings, idle_in_transaction_timeout=idle_limit)
        database = await stack.enter_async_context(connections)
        await patiently(database.end_frozen_sessions)
        if upgrade or database.dialect == "sqlite":
            await patiently(lambda: migrations.upgrade(database))
        await patiently(lambda: migrations.check(database))
        yield database


async def keep_unfrozen(database: Database, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
    """End frozen sessions until cancelled, so that a stopped process does not keep others waiting for its locks."""
    task_status.started()
    while database.dialect == "postgresql":
        async with keep_going("database.frozen_sessions_failed"):
            if ended := await database.end_frozen_sessions():
                log.warning("database.frozen_sessions_ended", sessions=ended)
        await anyio.sleep(END_EVERY)
    await anyio.sleep_forever()


def check_store(settings: Settings) -> None:
    """Check that the configured store backend can be made. Raises `BackendUnusable`."""
    backend = check_backend(settings.store.backend, settings.store.options)
    if settings.workers.state_store_backend is not None and not issubclass(backend, MetastoreStoreBackend):
        raise BackendUnusable(
            f"the store backend {settings.store.backend} cannot mark the references of a worker-side backend; "
            "leave settings.workers.state_store_backend out, or settings.store.backend"
        )


def open_backend(settings: Settings, database: Database) -> BaseStoreBackend:
    """Return the configured store backend. Raises `BackendUnusable`."""
    return load_backend(settings.store.backend, settings.store.options, database)


def database_url(settings: Settings) -> URL:
    """Return the address of the metadata database: the configured one, or the home's embedded one."""
    database = settings.database
    if database.url is None:
        return sqlite_url(settings.home / "watcher.db")
    url = make_url(database.url.get_secret_value())
    mode = database.sslmode
    if database.iam and mode is None and not {"ssl", "sslmode"} & url.query.keys():
        mode = "require"
    files = {"sslrootcert": database.sslrootcert, "sslcert": database.sslcert, "sslkey": database.sslkey}
    tls = {name: str(value) for name, value in {"sslmode": mode, **files}.items() if value is not None}
    return url.difference_update_query(["ssl"] if mode else []).update_query_dict(tls)


def connections_to_database(
    settings: Settings, *, idle_in_transaction_timeout: float = 10.0
) -> AbstractAsyncContextManager[Database]:
    """Open connections to the metadata database, whatever its schema."""
    url = database_url(settings)
    connect = None if url.get_backend_name() == "sqlite" else sessions_with(_passwords(settings.database, url))
    return Database.open(url, idle_in_transaction_timeout=idle_in_transaction_timeout, connect=connect)


def _passwords(database: DatabaseSettings, url: URL) -> PasswordSupply | None:
    from triggers.postgres.server.passwords import password_supply, rds_tokens  # noqa: PLC0415  not needed for SQLite

    if database.iam:
        return rds_tokens(url.host or "", url.port, url.username or "")
    place = database.password
    return None if place is None else password_supply(place.file, place.command, place.ttl.total_seconds())


def sessions_with(passwords: PasswordSupply | None) -> Connect:
    """Return what opens the metadata database's sessions, as watchers of PostgreSQL open theirs."""
    from triggers.postgres.server.opener import SessionOpener  # noqa: PLC0415  not needed for SQLite

    opener = SessionOpener(passwords=passwords)

    async def connect(**address: Any) -> Any:
        try:
            return await opener.open(**address)
        except SourceUnavailable as error:
            raise DatabaseUnavailable(str(error)) from error
        except ConfigurationError as error:
            raise DatabaseUnusable(str(error)) from error

    return connect


@contextmanager
def open_logs(settings: Settings, owner: str) -> Iterator[None]:
    """Send the records of this process where the settings say. `owner` stands in names of files. Raises `StartRefused`."""
    directory = logs_directory(settings)
    with ExitStack() as stack:
        with refusing_os_errors(f"log files cannot be written to {directory}"):
            configured = logs.configure(
                directory,
                level=settings.logs.level,
                json=logs.writes_json(settings.logs),
                owner=owner,
                max_file_mb=settings.logs.max_file_mb,
                open_files=min(logs.OPEN_AT_MOST, machine.raise_descriptor_limit() // 4),
            )
            stack.enter_context(configured)
        yield


def logs_directory(settings: Settings) -> Path:
    """Return the folder of log files: the configured one, or the home's own."""
    return settings.logs.directory or settings.home / "logs"
