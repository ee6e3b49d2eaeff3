"""Entries in a user's own backend: values only. Watermark entries stay in the metadata database."""

# ruff: noqa: ARG002  a user's own backend keeps no writers, and copies of watermarks are made again

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Final, ParamSpec, Protocol, TypeVar

import anyio
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.watcher_assets import watermark_keys
from store.database.paging import PageRequest, ResultPage
from store.errors import BackendFailed, Conflict, InvalidValue, NotFound, StoreError
from store.keys import AssetRef
from store.scopes import AssetScope, NeverExpire, Scope, TaskScope, Writer
from store.state.attributed import AttributedEntries
from store.state.entries import Entry, EntryChange, TaskEntry
from store.state.transactions import EntryTransaction, TransactionOutcome

if TYPE_CHECKING:  # sessions need SQLAlchemy's ORM, which nothing else uses
    from sqlalchemy.ext.asyncio import AsyncSession

P = ParamSpec("P")
T = TypeVar("T")
PATIENCE: Final = 5.0
"""Seconds that a backend has for one call, because a transaction waits for it."""


class PlainBackend(Protocol):
    """The four methods of `store.base.BaseStoreBackend` that an author writes; their obligations stand there."""

    async def aget(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> str | None: ...

    async def aset(
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        session: AsyncSession | None = None,
    ) -> None: ...

    async def adelete(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> None: ...

    async def aclear(
        self, scope: Scope, *, all_map_indices: bool = False, session: AsyncSession | None = None
    ) -> None: ...


class PlainEntries(AttributedEntries):
    """The entries of a user's own backend.

    Watermarks stay attributed: in the metadata database they are part of their watcher's transaction, in the backend
    they are copies. Raises `BackendFailed`, and `Conflict` or `InvalidValue` for what the backend cannot do.
    """

    keeps_history: ClassVar[bool] = False

    def __init__(self, backend: PlainBackend, dialect: str) -> None:
        super().__init__(dialect)
        self._backend = backend
        self._name = type(backend).__name__

    @property
    def set_in_one_statement(self) -> bool:
        return False

    async def get(self, connection: AsyncConnection, asset: AssetRef, key: str) -> str | None:
        return await self._ask(self._backend.aget, _scope(asset), key, session=_session(connection))

    async def entry(self, connection: AsyncConnection, asset: AssetRef, key: str) -> Entry:
        if key in await watermark_keys(connection, asset.id):
            return await super().entry(connection, asset, key)
        value = await self.get(connection, asset, key)
        if value is None:
            raise NotFound(f"the asset's store has no key {key!r}")
        return Entry(key=key, value=value)

    async def page(
        self, connection: AsyncConnection, asset: AssetRef, window: PageRequest, only: Collection[str] | None = None
    ) -> ResultPage[Entry]:
        """Return a part of the watermarks only, because a backend cannot be listed."""
        return await super().page(connection, asset, window, only or await watermark_keys(connection, asset.id))

    async def keys(self, connection: AsyncConnection, asset: AssetRef) -> Sequence[str]:
        raise self._unlisted()

    async def apply(self, connection: AsyncConnection, change: EntryChange) -> int:
        if change.expected_version is not None:
            raise InvalidValue(f"the store backend {self._name} keeps no versions; omit if_version")
        if change.is_ref:
            raise self._no_references()
        scope, session = _scope(change.asset), _session(connection)
        if change.value is None:
            await self._ask(self._backend.adelete, scope, change.key, session=session)
        else:
            await self._ask(self._backend.aset, scope, change.key, change.value, session=session)
        return 0

    async def clear(
        self,
        connection: AsyncConnection,
        asset: AssetRef,
        *,
        writer: Writer | None,
        protected: frozenset[str] = frozenset(),
        limit: int | None = None,
    ) -> int:
        await self._ask(self._backend.aclear, _scope(asset), session=_session(connection))
        return 0

    async def copy(self, asset: AssetRef, key: str, value: str) -> None:
        await self._ask(self._backend.aset, _scope(asset), key, value)

    async def transact(
        self,
        connection: AsyncConnection,
        asset: AssetRef,
        transaction: EntryTransaction,
        *,
        task_instance_id: str,
        writer: Writer,
    ) -> TransactionOutcome:
        raise InvalidValue(f"the store backend {self._name} has no transactions; set and delete its keys one by one")

    async def task_entry(self, connection: AsyncConnection, task: TaskScope, key: str) -> TaskEntry:
        value = await self._ask(self._backend.aget, task, key, session=_session(connection))
        if value is None:
            raise NotFound(f"the task store has no key {key!r}")
        return TaskEntry(key=key, value=value)

    async def task_page(
        self, connection: AsyncConnection, task: TaskScope, window: PageRequest
    ) -> ResultPage[TaskEntry]:
        return ResultPage(rows=[], total=0)

    async def task_keys(self, connection: AsyncConnection, task: TaskScope) -> Sequence[str]:
        raise self._unlisted()

    async def set_task(
        self, connection: AsyncConnection, task: TaskScope, entry: TaskEntry, expires_at: datetime | NeverExpire | None
    ) -> None:
        if entry.is_ref:
            raise self._no_references()
        session = _session(connection)
        await self._ask(self._backend.aset, task, entry.key, entry.value, expires_at=expires_at, session=session)

    async def change_task(self, connection: AsyncConnection, task: TaskScope, key: str, value: str) -> bool:
        raise Conflict(f"the store backend {self._name} does not report an expiry that could be kept; use PUT")

    async def delete_task(self, connection: AsyncConnection, task: TaskScope, key: str) -> None:
        await self._ask(self._backend.adelete, task, key, session=_session(connection))

    async def clear_task(self, connection: AsyncConnection, task: TaskScope, *, all_map_indices: bool = False) -> None:
        session = _session(connection)
        await self._ask(self._backend.aclear, task, all_map_indices=all_map_indices, session=session)

    async def _ask(self, method: Callable[P, Awaitable[T]], *arguments: P.args, **options: P.kwargs) -> T:
        """Call the backend with a deadline: it may raise anything and wait for ever. Raises `BackendFailed`."""
        try:
            with anyio.fail_after(PATIENCE):
                return await method(*arguments, **options)
        except StoreError:
            raise
        except Exception as error:
            raise BackendFailed(
                f"the store backend {self._name} failed: {str(error) or type(error).__name__}; "
                "whether a write took effect is unknown: read it again before you repeat it"
            ) from error

    def _unlisted(self) -> Conflict:
        return Conflict("the configured store backend cannot list its keys; request the keys you know")

    def _no_references(self) -> InvalidValue:
        return InvalidValue(f"the store backend {self._name} cannot mark references; store the value itself")


def _scope(asset: AssetRef) -> AssetScope:
    return AssetScope(asset_id=asset.id, name=asset.name, uri=asset.uri)


def _session(connection: AsyncConnection) -> AsyncSession:
    """Return the session that backends get: its COMMIT does not end the caller's transaction."""
    from sqlalchemy.ext.asyncio import AsyncSession  # noqa: PLC0415  only a user's own backend needs it

    return AsyncSession(connection, join_transaction_mode="rollback_only")
