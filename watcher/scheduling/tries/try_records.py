"""What the metadata database knows of tries, for submitters whose drivers live elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from store.database import Database
from store.runs.tries import forgetting, renewals


@dataclass(frozen=True, kw_only=True)
class StoredTries:
    """Implements `watcher.submit.workspace.TryRecords` for one home."""

    database: Database
    home_id: str

    async def silence(self, tag: str) -> float:
        async with self.database.reading() as connection:
            return await renewals.silence(connection, tag)

    async def was_renewed(self, tag: str) -> bool:
        async with self.database.reading() as connection:
            return await renewals.was_renewed(connection, tag)

    async def may_start(self, tag: str) -> bool:
        async with self.database.reading() as connection:
            return await renewals.may_start(connection, tag, self.home_id)

    async def kept(self) -> Collection[str]:
        async with self.database.reading() as connection:
            return await forgetting.kept(connection)
