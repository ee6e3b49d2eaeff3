"""Changes of an asset's store by people, each with its entry of the audit in the same statement (PostgreSQL)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Select, Text, bindparam, insert, null, select, true
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.database.schema import asset, database_now
from store.database.schema import audit as audit_table
from store.keys import AssetRef
from store.processes import audit
from store.scopes import Writer
from store.state import statements
from store.state.entries import KeyLock
from store.values import check_json, check_key


@dataclass(frozen=True, kw_only=True)
class StoreToChange:
    """An asset whose store is about to be changed, with the lock on one of its keys if that was requested."""

    asset: AssetRef
    lock: KeyLock | None


async def store_to_change(
    connection: AsyncConnection,
    asset_id: int,
    actor: str,
    action: str,
    write_id: str,
    *,
    key: str | None,
    active: bool,
) -> StoreToChange:
    """Read the asset, lock the key, and add an entry that names the asset: on PostgreSQL in one round trip.

    Raises `NotFound`, and `Conflict` if the asset must be `active` and is no longer configured: the caller commits
    nothing.
    """
    act = audit.entry(actor, f"asset_store.{action}", "", {} if key is None else {"key": key}, write_id)
    which = {"b_asset_id": asset_id, "b_key": key}
    on_postgresql = connection.dialect.name == "postgresql"
    statement = _locking_and_recording(with_key=key is not None) if on_postgresql else assets.REFERENCE
    row = (await connection.execute(statement, {**act, **which} if on_postgresql else which)).one_or_none()
    changed = assets.referred(row, asset_id, active=active)
    if not on_postgresql:
        await audit.record_all(connection, [{**act, "target": changed.name}])
    return StoreToChange(asset=changed, lock=None if key is None else KeyLock(asset_id=changed.id, key=key))


async def set_entry(
    connection: AsyncConnection, asset_id: int, key: str, value: str, writer: Writer, *, expected_version: int | None
) -> AssetRef | None:
    """Set an entry of an active asset, with history and audit, in one round trip (PostgreSQL).

    Return None if nothing was written: the asset or the version is not what it must be, or somebody deleted the entry
    just then; `store_to_change`, and what follows it, finds out. Raises `InvalidValue`.
    """
    content = {"b_asset_id": asset_id, "b_key": check_key(key), "b_value": check_json(value), "b_is_ref": False}
    act = audit.entry(writer.actor or "", "asset_store.set", "", {"key": key}, writer.write_id)
    given = {**act, **content, "b_expected": expected_version, **statements.attribution(writer)}
    try:
        row = (await connection.execute(_setting(), given)).one_or_none()
    except IntegrityError:
        return None
    return None if row is None else AssetRef(id=row.id, name=row.name, uri=row.uri)


@cache
def _setting() -> Select[Any]:
    lock = statements.key_lock(asset.c.id, bindparam("b_key", type_=Text())).label("key_lock")
    changed = assets.REFERENCE.where(asset.c.active).add_columns(lock).cte("changed")
    written = statements.write_locking(changed).cte("history")
    values = {**audit.GIVEN, "target": changed.c.name, "at": database_now()}
    of_write = changed.join(written, true())
    recorded = insert(audit_table).from_select(list(values), select(*values.values()).select_from(of_write))
    return select(changed.c.id, changed.c.name, changed.c.uri).select_from(of_write).add_cte(recorded.cte("recorded"))


@cache
def _locking_and_recording(*, with_key: bool) -> Select[Any]:
    changed = assets.REFERENCE.cte("changed")
    values = {**audit.GIVEN, "target": changed.c.name, "at": database_now()}
    recorded = insert(audit_table).from_select(list(values), select(*values.values()).select_from(changed))
    lock = statements.key_lock(changed.c.id, bindparam("b_key", type_=Text())) if with_key else null()
    return select(changed, lock.label("key_lock")).add_cte(recorded.cte("recorded"))
