"""Writes and reads through whichever backend is configured.

The metastore's abilities (writers, history, versions, marks of references) are asked for and used where they are; any
other backend gets a plain `set`. The callers' transaction on the metadata database goes around the call either way, so
that a fenced try or a missing asset is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, TypeGuard

import anyio
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from store.base import AssetScope, BaseStoreBackend, NeverExpire, Scope, TaskScope, Writer
from store.errors import BackendFailed, Conflict, InvalidValue, StoreError
from store.metastore import MetastoreStoreBackend
from store.state.transactions import Outcome, Transaction

PATIENCE: Final = 5.0
"""Seconds that a backend outside the metadata database gets for one call, while a transaction of ours waits for it."""


def knows_writers(backend: BaseStoreBackend) -> TypeGuard[MetastoreStoreBackend]:
    """Whether the backend keeps writers, history, versions, and the mark of a reference."""
    return isinstance(backend, MetastoreStoreBackend)


async def get(
    backend: BaseStoreBackend, scope: Scope, key: str, *, connection: AsyncConnection | None = None
) -> str | None:
    """`aget`. Raises `BackendFailed`."""
    with _answering(backend):
        return await backend.aget(scope, key, session=session_on(connection))


async def set_asset(
    backend: BaseStoreBackend,
    scope: AssetScope,
    key: str,
    value: str,
    *,
    writer: Writer | None = None,
    is_ref: bool = False,
    if_version: int | None = None,
    holds_key: bool = False,
    connection: AsyncConnection | None = None,
) -> None:
    """Write an asset's entry, in the name of `writer` where names are kept. Raises `BackendFailed`, `InvalidValue`."""
    if knows_writers(backend):
        await backend.aset_asset_store(
            scope,
            key,
            value,
            writer=writer,
            is_ref=is_ref,
            if_version=if_version,
            holds_key=holds_key,
            session=connection,
        )
        return
    _refuse(backend, is_ref=is_ref, if_version=if_version)
    with _answering(backend):
        await backend.aset(scope, key, value, session=session_on(connection))


async def delete_asset(
    backend: BaseStoreBackend,
    scope: AssetScope,
    key: str,
    *,
    writer: Writer | None = None,
    if_version: int | None = None,
    holds_key: bool = False,
    connection: AsyncConnection | None = None,
) -> None:
    """Remove an asset's entry. Raises `BackendFailed`, `InvalidValue`."""
    if knows_writers(backend):
        await backend.adelete(scope, key, writer=writer, if_version=if_version, holds_key=holds_key, session=connection)
        return
    _refuse(backend, if_version=if_version)
    with _answering(backend):
        await backend.adelete(scope, key, session=session_on(connection))


async def clear_asset(
    backend: BaseStoreBackend,
    scope: AssetScope,
    *,
    writer: Writer | None = None,
    protected: frozenset[str] = frozenset(),
    connection: AsyncConnection | None = None,
) -> None:
    """Remove all of an asset's entries but the protected ones; elsewhere these are copies, to be made again by the caller."""
    if knows_writers(backend):
        await backend.aclear(scope, writer=writer, protected=protected, session=connection)
        return
    with _answering(backend):
        await backend.aclear(scope, session=session_on(connection))


async def transact(
    backend: BaseStoreBackend,
    scope: AssetScope,
    transaction: Transaction,
    *,
    task_instance_id: str,
    writer: Writer,
    connection: AsyncConnection,
) -> Outcome:
    """Change several of an asset's entries together. Raises `InvalidValue`, `VersionConflict`."""
    if not knows_writers(backend):
        raise InvalidValue(
            f"the store backend {type(backend).__name__} has no transactions; set and delete its keys one by one"
        )
    return await backend.atransact(
        scope, transaction, task_instance_id=task_instance_id, writer=writer, session=connection
    )


async def set_task(
    backend: BaseStoreBackend,
    scope: TaskScope,
    key: str,
    value: str,
    *,
    expires_at: datetime | NeverExpire | None,
    is_ref: bool = False,
    connection: AsyncConnection | None = None,
) -> None:
    """Write a task instance's entry. Raises `BackendFailed`, `InvalidValue`."""
    if knows_writers(backend):
        await backend.aset_task_store(scope, key, value, expires_at=expires_at, is_ref=is_ref, session=connection)
        return
    _refuse(backend, is_ref=is_ref)
    with _answering(backend):
        await backend.aset(scope, key, value, expires_at=expires_at, session=session_on(connection))


async def change_task(
    backend: BaseStoreBackend, scope: TaskScope, key: str, value: str, *, connection: AsyncConnection
) -> bool:
    """Give an entry another value and leave its expiry; False when there is none. Raises `Conflict`."""
    if not knows_writers(backend):
        raise Conflict(f"the store backend {type(backend).__name__} tells no expiry that could be kept; use PUT")
    return await backend.achange_task_store(scope, key, value, session=connection)


async def delete_task(
    backend: BaseStoreBackend, scope: TaskScope, key: str, *, connection: AsyncConnection | None = None
) -> None:
    """`adelete`. Raises `BackendFailed`."""
    with _answering(backend):
        await backend.adelete(scope, key, session=session_on(connection))


async def clear_task(
    backend: BaseStoreBackend,
    scope: TaskScope,
    *,
    all_map_indices: bool = False,
    connection: AsyncConnection | None = None,
) -> None:
    """`aclear`. Raises `BackendFailed`."""
    with _answering(backend):
        await backend.aclear(scope, all_map_indices=all_map_indices, session=session_on(connection))


def session_on(connection: AsyncConnection | None) -> AsyncSession | None:
    """What backends of users are given: their COMMIT does not end the caller's transaction."""
    return None if connection is None else AsyncSession(connection, join_transaction_mode="rollback_only")


def _refuse(backend: BaseStoreBackend, *, is_ref: bool = False, if_version: int | None = None) -> None:
    name = type(backend).__name__
    if if_version is not None:
        raise InvalidValue(f"the store backend {name} keeps no versions; leave if_version out")
    if is_ref:
        raise InvalidValue(f"the store backend {name} cannot mark references; store the value itself")


@contextmanager
def _answering(backend: BaseStoreBackend) -> Iterator[None]:
    """A backend of a user's own may raise anything and wait for ever; ours lets the database speak for itself."""
    if knows_writers(backend):
        yield
        return
    try:
        with anyio.fail_after(PATIENCE):
            yield
    except StoreError:
        raise
    except Exception as error:
        raise BackendFailed(
            f"the store backend {type(backend).__name__} failed: {str(error) or type(error).__name__}; "
            "whether a write took effect is unknown: read it again before you repeat it"
        ) from error
