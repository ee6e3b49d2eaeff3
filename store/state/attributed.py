"""Entries in the metadata database, with writers, history, versions and references.

Everything works inside the caller's transaction and commits nothing, so a fenced try or a missing asset is refused
before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks
from store.database.paging import PageRequest, ResultPage, page, shaped
from store.database.schema import asset_store
from store.errors import NotFound, VersionConflict
from store.keys import AssetRef
from store.scopes import AssetStoreWriterKind, Writer
from store.state import statements, transactions
from store.state.entries import Entry, EntryChange, KeyLock, References
from store.state.statements import attribution
from store.state.task_entries import TaskEntries
from store.state.transactions import EntryTransaction, TransactionOutcome
from store.values import check_json, check_key

_e = asset_store.c


class AttributedEntries(TaskEntries):
    """The store's entries for everyone but the author of a backend; one object per dialect (`sqlite`, `postgresql`).

    Raises `InvalidValue` for what cannot be stored.
    """

    keeps_history: ClassVar[bool] = True
    """Whether writers, history, versions, references, transactions and lists of keys are kept."""

    @property
    def set_in_one_statement(self) -> bool:
        """Whether one statement alone can set an entry and lock its key, as `store.processes.audited_store.set_entry` does."""
        return self.dialect == "postgresql"

    async def get(self, connection: AsyncConnection, asset: AssetRef, key: str) -> str | None:
        """Return the stored JSON text, or None."""
        row = await connection.execute(statements.VALUE, {"b_asset_id": asset.id, "b_key": check_key(key)})
        value: str | None = row.scalar_one_or_none()
        return value

    async def entry(self, connection: AsyncConnection, asset: AssetRef, key: str) -> Entry:
        """Return one entry. Raises `NotFound`."""
        place = {"b_asset_id": asset.id, "b_key": key}
        row = (await connection.execute(statements.ENTRY_OF_KEY, place)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"the asset's store has no key {key!r}")
        return shaped(row, _entry)

    async def page(
        self, connection: AsyncConnection, asset: AssetRef, window: PageRequest, only: Collection[str] | None = None
    ) -> ResultPage[Entry]:
        """Return a part of the entries in order of key. `only` limits it to these keys; None means all."""
        query = statements.ENTRY.params(b_asset_id=asset.id)
        if only is not None:
            query = query.where(_e.key.in_(only))
        return await page(connection, query, window, {"key": _e.key}, _entry)

    async def keys(self, connection: AsyncConnection, asset: AssetRef) -> Sequence[str]:
        """Return the keys of all entries, in order."""
        rows = await connection.execute(select(_e.key).where(_e.asset_id == asset.id).order_by(_e.key))
        return rows.scalars().all()

    async def apply(self, connection: AsyncConnection, change: EntryChange) -> int:
        """Make one change; return the entry's version, 0 for none.

        Raises `VersionConflict`, and then nothing is changed.
        """
        key = check_key(change.key)
        if change.lock is None:
            await self.lock(connection, change.asset.id, [key])
        if change.value is None:
            return await self._delete(connection, change)
        content: dict[str, Any] = {"b_asset_id": change.asset.id, "b_key": key, "b_value": check_json(change.value)}
        content |= {"b_is_ref": change.is_ref, "b_expected": change.expected_version}
        return await self.write(connection, content, change.writer)

    async def write(self, connection: AsyncConnection, content: dict[str, Any], writer: Writer | None) -> int:
        """Write an entry whose key is locked; `content` holds the parameters of `statements.write`."""
        parameters = {**content, **attribution(writer)}
        statement = statements.write(self.dialect, attributed=writer is not None)
        version: int | None = (await connection.execute(statement, parameters)).scalar_one_or_none()
        if version is None:
            raise await self._conflict(connection, content["b_asset_id"], content["b_key"], content["b_expected"])
        if self.dialect != "postgresql":
            await connection.execute(statements.HISTORY, {**parameters, "b_version": version})
        return version

    async def _delete(self, connection: AsyncConnection, change: EntryChange) -> int:
        place = {"b_asset_id": change.asset.id, "b_key": change.key}
        if change.expected_version is not None:
            present = (await connection.execute(statements.VERSION, place)).scalar_one_or_none()
            if (present or 0) != change.expected_version:
                raise await self._conflict(connection, change.asset.id, change.key, change.expected_version)
        await self.remove(connection, change.asset.id, [change.key], change.writer)
        return 0

    async def remove(
        self, connection: AsyncConnection, asset_id: int, keys: Sequence[str], writer: Writer | None
    ) -> int:
        """Delete entries whose keys are locked, leaving a history row each; return how many there were."""
        parameters = {"b_asset_id": asset_id, "b_keys": keys, **attribution(writer)}
        history, entries = statements.REMOVE
        await connection.execute(history, parameters)
        return len((await connection.execute(entries, parameters)).all())

    async def lock(self, connection: AsyncConnection, asset_id: int, keys: Sequence[str]) -> KeyLock | None:
        """Keep others from writing these keys until the transaction ends; return the lock if it is a single key."""
        if keys and self.dialect == "postgresql":
            await connection.execute(statements.LOCK_KEYS, {"b_asset_id": asset_id, "b_keys": list(keys)})
        return KeyLock(asset_id=asset_id, key=keys[0]) if len(keys) == 1 else None

    async def clear(
        self,
        connection: AsyncConnection,
        asset: AssetRef,
        *,
        writer: Writer | None,
        protected: frozenset[str] = frozenset(),
        limit: int | None = None,
    ) -> int:
        """Remove all entries except the `protected` ones, or the first `limit` of them; return how many.

        A key that is written meanwhile is removed with the version that it has then.
        """
        removable = select(_e.key).where(_e.asset_id == asset.id, _e.key.not_in(protected))
        keys = (await connection.execute(removable.order_by(_e.key).limit(limit))).scalars().all()
        await self.lock(connection, asset.id, keys)
        removed = 0
        for some in chunks(keys):
            removed += await self.remove(connection, asset.id, some, writer)
        return removed

    async def copy(self, asset: AssetRef, key: str, value: str) -> None:
        """Copy a watermark to a backend outside, without a transaction.

        Here it does nothing, because this is the original.
        """

    async def transact(
        self,
        connection: AsyncConnection,
        asset: AssetRef,
        transaction: EntryTransaction,
        *,
        task_instance_id: str,
        writer: Writer,
    ) -> TransactionOutcome:
        """Change several entries together, for a fenced try. Raises `VersionConflict`."""
        await self.lock(connection, asset.id, sorted(transaction.keys))
        present = await transactions.present(connection, asset.id, transaction, task_instance_id, self.dialect)
        versions = dict(present.versions)
        for key, text in sorted(present.writes.items()):
            content = {"b_asset_id": asset.id, "b_key": key, "b_value": text, "b_expected": None}
            is_ref = key in transaction.references
            versions[key] = await self.write(connection, {**content, "b_is_ref": is_ref}, writer)
        if transaction.deletes:
            await self.remove(connection, asset.id, sorted(transaction.deletes), writer)
        return TransactionOutcome(versions={**versions, **dict.fromkeys(transaction.deletes, 0)}, values=present.values)

    async def _conflict(
        self, connection: AsyncConnection, asset_id: int, key: str, expected: int | None
    ) -> VersionConflict:
        place = {"b_asset_id": asset_id, "b_key": key}
        present = (await connection.execute(statements.VERSION, place)).scalar_one_or_none()
        return transactions.version_conflict(key, present or 0, expected)


async def references(connection: AsyncConnection, asset_id: int) -> References:
    """Return keys and stored references of an asset's entries whose values are elsewhere."""
    referring = select(_e.key, _e.value).where(_e.asset_id == asset_id, _e.is_ref).order_by(_e.key)
    return {row.key: row.value for row in await connection.execute(referring)}


def _entry(
    *,
    key: str,
    value: str,
    is_ref: bool,
    version: int,
    updated_at: datetime,
    kind: str | None,
    dag_id: str | None,
    run_id: str | None,
    task_id: str | None,
    map_index: int | None,
    try_number: int | None,
    watcher: str | None,
    actor: str | None,
    write_id: str | None,
) -> Entry:
    """Make the entry of a row of `statements.ENTRY`."""
    writer = recorded(
        kind,
        write_id,
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        try_number=try_number,
        watcher=watcher,
        actor=actor,
    )
    return Entry(key=key, value=value, is_ref=is_ref, version=version, updated_at=updated_at, last_updated_by=writer)


def recorded(
    kind: str | None,
    write_id: str | None,
    *,
    dag_id: str | None,
    run_id: str | None,
    task_id: str | None,
    map_index: int | None,
    try_number: int | None,
    watcher: str | None,
    actor: str | None,
) -> Writer | None:
    """Return the writer that the columns of an entry or of its history name; None if nobody was recorded."""
    if kind is None:
        return None
    return Writer(
        kind=AssetStoreWriterKind(kind),
        write_id=write_id,
        dag_id=dag_id,
        run_id=run_id,
        task_id=task_id,
        map_index=map_index,
        try_number=try_number,
        watcher=watcher,
        actor=actor,
    )
