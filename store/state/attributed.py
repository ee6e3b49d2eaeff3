"""Entries in the metadata database: with writers, history, versions and references.

Everything works inside the caller's transaction and commits nothing, so that a fenced try or a missing asset is refused
before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import NEVER_EXPIRE, AssetStoreWriterKind, NeverExpire, TaskScope, Writer
from store.database.dialects import chunks
from store.database.paging import Page, Window, one_of, page
from store.database.schema import asset_store, database_now, task_store
from store.errors import NotFound, VersionConflict
from store.keys import AssetRef
from store.state import statements, transactions
from store.state.entries import Entry, EntryChange, KeyLock, References, TaskEntry
from store.state.statements import attribution
from store.state.transactions import Outcome, Transaction
from store.values import check_expiry, check_json, check_key

_e, _s = asset_store.c, task_store.c
_TASK_ENTRY: Final = (_s.key, _s.value, _s.is_ref, _s.updated_at, _s.expires_at)


class AttributedEntries:
    """The store's entries for all but a backend's author; one for each dialect (`sqlite`, `postgresql`).

    Raises `InvalidValue` for what cannot be stored.
    """

    keeps_history: ClassVar[bool] = True
    """Whether writers, history, versions, references, transactions and lists of keys are kept."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    @property
    def set_in_one_statement(self) -> bool:
        """Whether an entry can be set by a statement alone, which locks its key: `store.processes.audit.set_entry`."""
        return self.dialect == "postgresql"

    async def get(self, connection: AsyncConnection, asset: AssetRef, key: str) -> str | None:
        """The stored JSON text, or None."""
        row = await connection.execute(statements.VALUE, {"b_asset_id": asset.id, "b_key": check_key(key)})
        value: str | None = row.scalar_one_or_none()
        return value

    async def entry(self, connection: AsyncConnection, asset: AssetRef, key: str) -> Entry:
        """One entry. Raises `NotFound`."""
        place = {"b_asset_id": asset.id, "b_key": key}
        row = (await connection.execute(statements.ENTRY_OF_KEY, place)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"the asset's store has no key {key!r}")
        return _entry(**row)

    async def page(
        self, connection: AsyncConnection, asset: AssetRef, window: Window, only: Collection[str] | None = None
    ) -> Page[Entry]:
        """Entries by key; `only` these, None means all."""
        query = statements.ENTRY.params(b_asset_id=asset.id)
        if only is not None:
            query = query.where(_e.key.in_(only))
        return await page(connection, query, window, {"key": _e.key}, _entry)

    async def keys(self, connection: AsyncConnection, asset: AssetRef) -> Sequence[str]:
        """The keys of all entries, in order."""
        rows = await connection.execute(select(_e.key).where(_e.asset_id == asset.id).order_by(_e.key))
        return rows.scalars().all()

    async def apply(self, connection: AsyncConnection, change: EntryChange) -> int:
        """Make one change; returns the entry's version, 0 for none. Raises `VersionConflict`: then nothing is changed."""
        key = check_key(change.key)
        if change.lock is None:
            await self.lock(connection, change.asset.id, [key])
        if change.value is None:
            return await self._delete(connection, change)
        content: dict[str, Any] = {"b_asset_id": change.asset.id, "b_key": key, "b_value": check_json(change.value)}
        content |= {"b_is_ref": change.is_ref, "b_expected": change.expected_version}
        return await self.write(connection, content, change.writer)

    async def write(self, connection: AsyncConnection, content: dict[str, Any], writer: Writer | None) -> int:
        """Write the entry whose key is locked; `content` are the parameters of `statements.write`."""
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
        """Delete entries whose keys are locked, each leaving a history row; returns how many there were."""
        parameters = {"b_asset_id": asset_id, "b_keys": keys, **attribution(writer)}
        history, entries = statements.REMOVE
        await connection.execute(history, parameters)
        return len((await connection.execute(entries, parameters)).all())

    async def lock(self, connection: AsyncConnection, asset_id: int, keys: Sequence[str]) -> KeyLock | None:
        """Nobody else writes these keys before the transaction ends; returns the lock of a single one."""
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
        """Remove all entries but the `protected` ones, or the first `limit`; returns how many.

        A key written meanwhile is removed with the version it has then.
        """
        removable = select(_e.key).where(_e.asset_id == asset.id, _e.key.not_in(protected))
        keys = (await connection.execute(removable.order_by(_e.key).limit(limit))).scalars().all()
        await self.lock(connection, asset.id, keys)
        removed = 0
        for some in chunks(keys):
            removed += await self.remove(connection, asset.id, some, writer)
        return removed

    async def copy(self, asset: AssetRef, key: str, value: str) -> None:
        """Copy a watermark, outside of any transaction, to where else values are kept; here is the truth itself."""

    async def transact(
        self,
        connection: AsyncConnection,
        asset: AssetRef,
        transaction: Transaction,
        *,
        task_instance_id: str,
        writer: Writer,
    ) -> Outcome:
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
        return Outcome(versions={**versions, **dict.fromkeys(transaction.deletes, 0)}, values=present.values)

    async def task_entry(self, connection: AsyncConnection, task: TaskScope, key: str) -> TaskEntry:
        """One entry of a task instance. Raises `NotFound`, also when it is past its retention."""
        query = select(*_TASK_ENTRY).where(_of(task), _s.key == check_key(key), _alive())
        return await one_of(connection, query, TaskEntry, NotFound(f"the task store has no key {key!r}"))

    async def task_page(self, connection: AsyncConnection, task: TaskScope, window: Window) -> Page[TaskEntry]:
        """A task instance's entries by key, without those past their retention."""
        query = select(*_TASK_ENTRY).where(_of(task), _alive())
        return await page(connection, query, window, {"key": _s.key}, TaskEntry)

    async def task_keys(self, connection: AsyncConnection, task: TaskScope) -> Sequence[str]:
        """The keys of these, in order."""
        return (await connection.execute(select(_s.key).where(_of(task), _alive()).order_by(_s.key))).scalars().all()

    async def set_task(
        self, connection: AsyncConnection, task: TaskScope, entry: TaskEntry, expires_at: datetime | NeverExpire | None
    ) -> None:
        """Write an entry; every write decides anew how long it is kept, None leaves that to the clean-up."""
        check_expiry(task, expires_at)
        parameters = {
            **task.columns,
            "key": check_key(entry.key),
            "value": check_json(entry.value),
            "is_ref": entry.is_ref,
            "expires_at": expires_at if isinstance(expires_at, datetime) else None,
            "never_expire": expires_at is NEVER_EXPIRE,
        }
        await connection.execute(statements.write_task(self.dialect), parameters)

    async def change_task(self, connection: AsyncConnection, task: TaskScope, key: str, value: str) -> bool:
        """Give an entry another value and leave its expiry; False when there is none that has not expired."""
        changed = update(task_store).where(_of(task), _s.key == check_key(key), _alive()).returning(_s.key)
        values = changed.values(value=check_json(value), is_ref=False, updated_at=database_now())
        return (await connection.execute(values)).one_or_none() is not None

    async def delete_task(self, connection: AsyncConnection, task: TaskScope, key: str) -> None:
        await connection.execute(delete(task_store).where(_of(task), _s.key == check_key(key)))

    async def clear_task(self, connection: AsyncConnection, task: TaskScope, *, all_map_indices: bool = False) -> None:
        """Remove all entries, also those of mapped siblings if asked."""
        await connection.execute(delete(task_store).where(_of(task, all_map_indices=all_map_indices)))

    async def _conflict(
        self, connection: AsyncConnection, asset_id: int, key: str, expected: int | None
    ) -> VersionConflict:
        place = {"b_asset_id": asset_id, "b_key": key}
        present = (await connection.execute(statements.VERSION, place)).scalar_one_or_none()
        return transactions.version_conflict(key, present or 0, expected)


async def references(connection: AsyncConnection, asset_id: int) -> References:
    """Keys and stored references of an asset's entries whose values are elsewhere."""
    referring = select(_e.key, _e.value).where(_e.asset_id == asset_id, _e.is_ref).order_by(_e.key)
    return {row.key: row.value for row in await connection.execute(referring)}


async def task_references(connection: AsyncConnection, task: TaskScope) -> References:
    """Likewise of a task instance's, also of those past their retention."""
    referring = select(_s.key, _s.value).where(_of(task), _s.is_ref).order_by(_s.key)
    return {row.key: row.value for row in await connection.execute(referring)}


def _of(task: TaskScope, *, all_map_indices: bool = False) -> ColumnElement[bool]:
    mapped = and_(_s.dag_id == task.dag_id, _s.run_id == task.run_id, _s.task_id == task.task_id)
    return mapped if all_map_indices else and_(mapped, _s.map_index == task.map_index)


def _alive() -> ColumnElement[bool]:
    """Not past its retention; what has none of its own falls to the clean-up alone."""
    return or_(_s.expires_at.is_(None), _s.expires_at > database_now())


def _entry(*, key: str, value: str, is_ref: bool, version: int, updated_at: datetime, **by: Any) -> Entry:
    return Entry(
        key=key, value=value, is_ref=is_ref, version=version, updated_at=updated_at, last_updated_by=recorded(**by)
    )


def recorded(*, kind: str | None, **fields: Any) -> Writer | None:
    """Who wrote an entry, as its columns tell."""
    return None if kind is None else Writer(kind=AssetStoreWriterKind(kind), **fields)
