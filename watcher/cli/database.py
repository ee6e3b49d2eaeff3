"""The metadata database for commands that need no API. Whoever may open it may do everything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from config.models.settings import Settings
from store.database import Database, migrations
from store.processes.file_locks import is_held
from watcher import assembly
from watcher.host.database_address import connections_to_database, database_url
from watcher.host.home import lock_path, make_home
from watcher.installed import installed

OPEN_DEADLINE: Final = 8.0
"""Seconds for the database's first answer to a command."""


@asynccontextmanager
async def opened_database(settings: Settings, *, upgrade: bool = False) -> AsyncIterator[Database]:
    """Open the metadata database with this program's schema and its features'. Migrates an embedded one that no daemon uses."""
    url, features = database_url(settings), assembly.feature_tables(installed(settings.features))
    embedded = url.get_backend_name() == "sqlite"
    if embedded and settings.database.url is None:
        make_home(settings.home)
    async with connections_to_database(settings) as database:
        if upgrade or (embedded and not is_held(lock_path(settings.home))):
            await migrations.upgrade(database, features)
        await migrations.check(database, OPEN_DEADLINE, features=features)
        yield database
