"""The default store backend: asset and task state in the metadata database, with writers, history and compare-and-set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetScope, BaseStoreBackend, NeverExpire, Scope, TaskScope, Writer
from store.catalog.assets import ref_of
from store.database import Database
from store.errors import NotFound
from store.keys import AssetRef
from store.state.attributed import AttributedEntries
from store.state.entries import EntryChange, TaskEntry
from store.values import check_expiry

if TYPE_CHECKING:  # sessions need SQLAlchemy's ORM, which nothing else uses
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session


class MetastoreStoreBackend(BaseStoreBackend):
    """Keeps everything in the metadata database. With a session it works inside that transaction and commits nothing.

    In addition to the contract, `aset_asset_store` takes the writer, and the version that the entry must have. The
    daemon itself works through `entries`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries = AttributedEntries(database.dialect)
        self.loop = database.loop

    def entries(self, database: Database) -> AttributedEntries:  # noqa: ARG002  it has its own
        return self._entries

    async def aget(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> str | None:
        async with self._connection(session, reading=True) as connection:
            if isinstance(scope, AssetScope):
                asset = await _ref_of(connection, scope)
                return await self._entries.get(connection, asset, key)
            try:
                return (await self._entries.task_entry(connection, scope, key)).value
            except NotFound:
                return None

    async def aset(
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        session: AsyncSession | None = None,
    ) -> None:
        check_expiry(scope, expires_at)
        if isinstance(scope, AssetScope):
            await self.aset_asset_store(scope, key, value, session=session)
            return
        async with self._connection(session) as connection:
            await self._entries.set_task(connection, scope, TaskEntry(key=key, value=value), expires_at)

    async def adelete(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> None:
        async with self._connection(session) as connection:
            if isinstance(scope, TaskScope):
                await self._entries.delete_task(connection, scope, key)
            else:
                asset = await _ref_of(connection, scope)
                await self._entries.apply(connection, EntryChange(asset=asset, key=key, value=None, writer=None))

    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: AsyncSession | None = None) -> None:
        async with self._connection(session) as connection:
            if isinstance(scope, TaskScope):
                await self._entries.clear_task(connection, scope, all_map_indices=all_map_indices)
            else:
                await self._entries.clear(connection, await _ref_of(connection, scope), writer=None)

    async def aset_asset_store(
        self,
        scope: AssetScope,
        key: str,
        value: str,
        *,
        writer: Writer | None = None,
        is_ref: bool = False,
        if_version: int | None = None,
        session: AsyncSession | None = None,
    ) -> int:
        """Write an asset's entry in the name of `writer`, with its history row; return the new version.

        Without a writer, the recorded kind and ids of an existing entry stay. Raises `NotFound` for an unknown asset,
        `VersionConflict` if the entry's version is not `if_version` (0: it must not exist), and `InvalidValue`.
        """
        async with self._connection(session) as connection:
            asset = await _ref_of(connection, scope)
            change = EntryChange(
                asset=asset, key=key, value=value, writer=writer, is_ref=is_ref, expected_version=if_version
            )
            return await self._entries.apply(connection, change)

    def set_asset_store(
        self,
        scope: AssetScope,
        key: str,
        value: str,
        *,
        writer: Writer | None = None,
        is_ref: bool = False,
        if_version: int | None = None,
        session: Session | None = None,
    ) -> int:
        """Call `aset_asset_store` from a thread without an event loop."""
        return self._await(
            session, self.aset_asset_store, scope, key, value, writer=writer, is_ref=is_ref, if_version=if_version
        )

    @asynccontextmanager
    async def _connection(
        self, session: AsyncSession | None, *, reading: bool = False
    ) -> AsyncIterator[AsyncConnection]:
        if session is not None:
            yield await session.connection()
            return
        async with self._database.reading() if reading else self._database.transaction() as connection:
            yield connection


async def _ref_of(connection: AsyncConnection, scope: AssetScope) -> AssetRef:
    return await ref_of(connection, scope.asset_id, name=scope.name, uri=scope.uri)
