"""The session of one watcher of changes: a large transaction is read through a cursor, and nobody waits for that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any, Final

import asyncpg

from triggers.postgres.server.session import Session, StatementLimits
from triggers.shared.postgres.failures import driver_errors

SLACK: Final = timedelta(seconds=5)
"""How much later than the server's own limit an answer counts as lost."""


class SlotSession(Session):
    async def parts(
        self, statement: str, *arguments: object, size: int, limit: timedelta
    ) -> AsyncGenerator[Sequence[Any], None]:
        """Run one statement for at most `limit`, and yield its rows in parts of `size`. Close the generator.

        Raises ConfigurationError or SourceUnavailable.
        """
        limits = StatementLimits(statement=limit, lock=limit)
        await self.fetch("SELECT", limits=limits)
        seconds = (limit + SLACK).total_seconds()
        with driver_errors():
            async with self._turn:
                connection = await self._connected()
                try:
                    async with connection.transaction():
                        cursor = await connection.cursor(statement, *arguments, timeout=seconds)
                        while rows := await cursor.fetch(size, timeout=seconds):
                            yield rows
                except (asyncpg.PostgresError, GeneratorExit):
                    raise
                except BaseException:  # cancelled, or lost, in the middle of a result
                    await self.close()
                    raise
