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
    """Open the metadata database with this program's schema. Migrates an embedded one that no daemon uses."""
    url = database_url(settings)
    embedded = url.get_backend_name() == "sqlite"
    if embedded and settings.database.url is None:
        make_home(settings.home)
    async with connections_to_database(settings) as database:
        if upgrade or (embedded and not is_held(lock_path(settings.home))):
            await migrations.upgrade(database)
            if upgrades := assembly.upgrades(installed(settings.features).features):
                from store.database import feature_schemas  # noqa: PLC0415  it knows all tables

                await feature_schemas.upgrade(database, upgrades)
        await migrations.check(database, OPEN_DEADLINE)
        yield database
