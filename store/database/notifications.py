"""PostgreSQL's LISTEN and NOTIFY: short texts between the processes of one database, on sessions of their own.

A notification is a hint: one that is lost while a session reconnects costs time and nothing else.
https://www.postgresql.org/docs/current/sql-notify.html
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from asyncpg import InterfaceError, PostgresError
from sqlalchemy import Text, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY

from store.database.engine import Database
from store.errors import ConnectionLost

LONGEST: Final = 7_900
"""The most bytes of a text: PostgreSQL takes less than 8,000."""
PROBE_EVERY: Final = 20.0
"""Seconds between two probes, because a network that is gone reports nothing by itself."""
PROBE_TIMEOUT: Final = 10.0

_LEFT: Final = "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool"

_TEXTS: Final = func.unnest(bindparam("b_texts", type_=ARRAY(Text()))).column_valued("texts")
_NOTIFY: Final = select(func.pg_notify(bindparam("b_channel", type_=Text()), _TEXTS))


async def notify(database: Database, channel: str, texts: Sequence[str]) -> None:
    """Send texts to all listeners; never in the transaction that gave the reason.

    There it would hold one lock of the whole cluster while COMMIT reaches the disk.
    """
    async with database.statements() as connection:
        await connection.execute(_NOTIFY, {"b_channel": channel, "b_texts": list(texts)})


@asynccontextmanager
async def listening(
    database: Database, channel: str, receive: Callable[[str], None]
) -> AsyncIterator[NotificationListener]:
    """Open a session that listens until the block ends, outside the pool. Raises `ConnectionLost`."""
    async with database.session_of_its_own() as driver:
        listener = NotificationListener(driver)
        try:
            await driver.add_listener(channel, lambda *arguments: receive(arguments[-1]))
        except (InterfaceError, PostgresError) as error:
            raise ConnectionLost(f"the session that was to listen is gone: {error}") from error
        yield listener


class NotificationListener:
    """A session that listens, on asyncpg's connection."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._lost = anyio.Event()
        driver.add_termination_listener(lambda _: self._lost.set())

    async def wait_until_lost(self) -> None:
        """Return when the session is lost, or its server has become read-only: nobody notifies there any more.

        A query now and then finds out both.
        """
        while not self._lost.is_set():
            with anyio.move_on_after(PROBE_EVERY):
                await self._lost.wait()
            try:
                with anyio.fail_after(PROBE_TIMEOUT):
                    if await self._driver.fetchval(_LEFT):
                        return
            except (OSError, InterfaceError, PostgresError):
                return
