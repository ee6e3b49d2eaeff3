"""Opens the places of metadata: the database, the store's backend, and the log files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import anyio
import structlog
from anyio.abc import TaskStatus

from config.models.settings import Settings
from store.backends import check_backend, load_backend
from store.base import BaseStoreBackend
from store.database import Database, feature_tables, migrations
from store.database.feature_tables import FeatureTables
from store.errors import BackendUnusable
from store.metastore import MetastoreStoreBackend
from store.processes.file_locks import exclusive_database
from watcher.host import logs, machine
from watcher.host.database_address import connections_to_database, database_url
from watcher.host.home import refusing_os_errors
from watcher.host.logs.outages import RECOVERED
from watcher.host.loops import insist, keep_going

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
async def open_database(
    settings: Settings, features: Sequence[FeatureTables], *, upgrade: bool
) -> AsyncIterator[Database]:
    """Open the metadata database with this program's schema. An embedded one is locked and migrated here.

    `features` from elsewhere make tables of their own.
    """
    async with AsyncExitStack() as stack:
        url = database_url(settings)
        if url.get_backend_name() == "sqlite":
            with refusing_os_errors(f"the database {url.database} cannot be opened"):
                stack.enter_context(exclusive_database(Path(str(url.database))))
        idle_limit = settings.triggerer.lease.total_seconds() * 2 / 3
        connections = connections_to_database(settings, idle_in_transaction_timeout=idle_limit)
        database = await stack.enter_async_context(connections)
        database.on_recovery = lambda: log.info(RECOVERED)
        await patiently(database.end_frozen_sessions)
        if upgrade or database.dialect == "sqlite":
            await patiently(lambda: migrations.upgrade(database, features))
        await patiently(lambda: migrations.check(database, features=features))
        if left := await patiently(lambda: _left_alone(database, features)):
            log.info("database.features_left_alone", features=sorted(left))
        yield database


async def _left_alone(database: Database, features: Sequence[FeatureTables]) -> Mapping[str, int]:
    async with database.reading() as connection:
        return await feature_tables.left_alone(connection, {each.feature for each in features})


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
