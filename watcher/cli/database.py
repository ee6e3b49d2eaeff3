"""The metadata database, for commands that need no API: whoever may open it may do everything."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from config.settings import Settings
from store.database import Database, migrations
from store.processes.file_locks import is_held
from watcher.host.home import lock_path, make_home
from watcher.host.metadata import database_url

OPEN_DEADLINE: Final = 8.0
"""Seconds for the database's first answer to a command."""


def account() -> str:
    """Who acts when the database itself is all the permission needed; stands in the audit."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's account needs no entry in /etc/passwd
        return f"cli:{os.getuid()}"


@asynccontextmanager
async def opened_database(settings: Settings, *, upgrade: bool = False) -> AsyncIterator[Database]:
    """The metadata database with this program's schema; an embedded one that no daemon uses is migrated by itself."""
    url = database_url(settings)
    embedded = url.get_backend_name() == "sqlite"
    if embedded and settings.database.url is None:
        make_home(settings.home)
    async with Database.open(url) as database:
        if upgrade or (embedded and not is_held(lock_path(settings.home))):
            await migrations.upgrade(database)
        await migrations.check(database, OPEN_DEADLINE)
        yield database
