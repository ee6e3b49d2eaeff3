"""The default store backend: asset and task state in the metadata database, with writers, history and compare-and-set."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from store.base import AssetScope, BaseStoreBackend, NeverExpire, Scope, TaskScope, Writer
from store.database import Database
from store.errors import InvalidValue
from store.state import statements
from store.state.statements import Statements, T, arun, run
from store.state.transactions import Outcome, Transaction, transact
from store.values import check_expiry, check_json, check_key


class MetastoreStoreBackend(BaseStoreBackend):
    """Keeps everything in the metadata database. Given a session it works inside that transaction and commits nothing.

    Beyond the contract it knows who writes (`set_asset_store`, `aset_asset_store`, `writer=` of `adelete` and `aclear`),
    keeps the history, and compares versions.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- the contract, for callers without an event loop

    def get(self, scope: Scope, key: str, *, session: Session | None = None) -> str | None:
        if session is not None:
            return run(session, _get(scope, key))
        with self._database.sync_reading() as own:
            return run(own, _get(scope, key))

    def set(
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        session: Session | None = None,
    ) -> None:
        self._run(session, self._set(scope, key, value, expires_at))

    def delete(self, scope: Scope, key: str, *, session: Session | None = None) -> None:
        self._run(session, self._delete(scope, key))

    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Session | None = None) -> None:
        self._run(session, self._clear(scope, all_map_indices=all_map_indices))

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
        """`aset_asset_store`, for callers without an event loop."""
        return self._run(session, self._set_asset(scope, key, value, writer, is_ref=is_ref, if_version=if_version))

    # --- the contract, for async callers

    async def aget(
        self, scope: Scope, key: str, *, session: AsyncSession | AsyncConnection | None = None
    ) -> str | None:
        if session is not None:
            return await arun(session, _get(scope, key))
        async with self._database.reading() as own:
            return await arun(own, _get(scope, key))

    async def aset(
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        session: AsyncSession | AsyncConnection | None = None,
    ) -> None:
        await self._arun(session, self._set(scope, key, value, expires_at))

    async def adelete(
        self,
        scope: Scope,
        key: str,
        *,
        session: AsyncSession | AsyncConnection | None = None,
        writer: Writer | None = None,
        if_version: int | None = None,
        holds_key: bool = False,
    ) -> None:
        await self._arun(session, self._delete(scope, key, writer, if_version, holds_key=holds_key))

    async def aclear(
        self,
        scope: Scope,
        *,
        all_map_indices: bool = False,
        session: AsyncSession | AsyncConnection | None = None,
        writer: Writer | None = None,
        protected: frozenset[str] = frozenset(),
    ) -> None:
        """Remove all keys; of an asset all but the `protected` ones (the watermark entries of configured watchers)."""
        await self._arun(session, self._clear(scope, writer, protected, all_map_indices=all_map_indices))

    async def aset_asset_store(
        self,
        scope: AssetScope,
        key: str,
        value: str,
        *,
        writer: Writer | None = None,
        is_ref: bool = False,
        if_version: int | None = None,
        holds_key: bool = False,
        session: AsyncSession | AsyncConnection | None = None,
    ) -> int:
        """Write an asset's entry in the name of `writer`, with its history row; returns the new version.

        Without a writer the recorded kind and ids of an existing entry stay. `holds_key`: the session's transaction has
        the key's lock and the scope the asset's id, as `store.runs.try_lock` sees to. Raises `NotFound` for an unknown asset,
        `VersionConflict` when the entry's version is not `if_version` (0: it must not exist), `InvalidValue`.
        """
        operation = self._set_asset(
            scope, key, value, writer, is_ref=is_ref, if_version=if_version, holds_key=holds_key
        )
        return await self._arun(session, operation)

    async def atransact(
        self,
        scope: AssetScope,
        transaction: Transaction,
        *,
        task_instance_id: str,
        writer: Writer,
        session: AsyncSession | AsyncConnection | None = None,
    ) -> Outcome:
        """Change several entries of an asset together; the scope has its id. Raises `VersionConflict`, `InvalidValue`."""
        if scope.asset_id is None:
            raise InvalidValue("a transaction needs the asset's id; give it in the scope")
        operation = transact(
            scope.asset_id,
            transaction,
            task_instance_id=task_instance_id,
            writer=writer,
            dialect=self._database.dialect,
        )
        return await self._arun(session, operation)

    async def aset_task_store(
        self,
        scope: TaskScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        is_ref: bool = False,
        session: AsyncSession | AsyncConnection | None = None,
    ) -> None:
        """`aset` of a task instance's entry that may be a reference a worker-side backend made."""
        await self._arun(session, self._set(scope, key, value, expires_at, is_ref=is_ref))

    async def achange_task_store(
        self, scope: TaskScope, key: str, value: str, *, session: AsyncSession | AsyncConnection | None = None
    ) -> bool:
        """Give a task instance's entry another value, with the expiry it has; False when there is none."""
        return await self._arun(session, statements.change_task_value(scope, check_key(key), check_json(value)))

    # --- how an operation meets a session

    def _run(self, session: Session | None, operation: Statements[T]) -> T:
        if session is not None:
            return run(session, operation)
        with self._database.sync_transaction() as own:
            return run(own, operation)

    async def _arun(self, session: AsyncSession | AsyncConnection | None, operation: Statements[T]) -> T:
        if session is not None:
            return await arun(session, operation)
        async with self._database.transaction() as own:
            return await arun(own, operation)

    def _set(
        self, scope: Scope, key: str, value: str, expires_at: datetime | NeverExpire | None, *, is_ref: bool = False
    ) -> Statements[int | None]:
        check_expiry(scope, expires_at)
        if isinstance(scope, AssetScope):
            return (yield from self._set_asset(scope, key, value, None))
        yield from statements.set_task_value(
            scope,
            check_key(key),
            check_json(value),
            dialect=self._database.dialect,
            expires_at=expires_at,
            is_ref=is_ref,
        )
        return None

    def _set_asset(
        self,
        scope: AssetScope,
        key: str,
        value: str,
        writer: Writer | None,
        *,
        is_ref: bool = False,
        if_version: int | None = None,
        holds_key: bool = False,
    ) -> Statements[int]:
        return statements.set_asset_value(
            scope,
            check_key(key),
            check_json(value),
            dialect=self._database.dialect,
            writer=writer,
            is_ref=is_ref,
            if_version=if_version,
            holds_key=holds_key,
        )

    def _delete(
        self,
        scope: Scope,
        key: str,
        writer: Writer | None = None,
        if_version: int | None = None,
        *,
        holds_key: bool = False,
    ) -> Statements[None]:
        if isinstance(scope, TaskScope):
            yield from statements.delete_task_value(scope, check_key(key))
        else:
            yield from statements.delete_asset_value(
                scope,
                check_key(key),
                dialect=self._database.dialect,
                writer=writer,
                if_version=if_version,
                holds_key=holds_key,
            )

    def _clear(
        self,
        scope: Scope,
        writer: Writer | None = None,
        protected: frozenset[str] = frozenset(),
        *,
        all_map_indices: bool = False,
    ) -> Statements[None]:
        if isinstance(scope, TaskScope):
            yield from statements.clear_task_values(scope, all_map_indices=all_map_indices)
        else:
            yield from statements.clear_asset_values(
                scope, dialect=self._database.dialect, writer=writer, protected=protected
            )


def _get(scope: Scope, key: str) -> Statements[str | None]:
    if isinstance(scope, TaskScope):
        return statements.get_task_value(scope, check_key(key))
    return statements.get_asset_value(scope, check_key(key))
