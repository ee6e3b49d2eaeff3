"""Links with which a browser signs in once, within five minutes. They are shown on a terminal and stand in no log."""

from __future__ import annotations

import sys

from config.models.settings import Settings
from store.database import Database
from store.processes import audit, tokens
from watcher.host.machine import account
from watcher.host.page_paths import path


async def new_link(
    database: Database, url: str, subject: str, role: str = tokens.ROLES[-1], following: str | None = None
) -> str:
    """Make a link to the page at `following` in the name of an account, and record it in the audit."""
    async with database.transaction() as connection:
        secret = await tokens.create_link(connection, subject, role)
        await audit.record(connection, subject, "link.create", subject, {"role": role})
    return f"{url.rstrip('/')}/{path('sign-in', link=secret, next=following)}"


async def show_link(database: Database, settings: Settings, url: str) -> None:
    """Write a link to the terminal that the daemon was started on, if there is one."""
    if settings.api.auth == "tokens" and sys.stdout.isatty():
        link = await new_link(database, settings.api.base_url or url, account())
        sys.stdout.write(f"\nSign in, once and within five minutes: {link}\n\n")
        sys.stdout.flush()
