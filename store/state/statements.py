"""The SQL of the stores: constants, made once for each database. Parameters begin with `b_`.

Taking a lock and reading because of that lock are two statements: on PostgreSQL the second sees what was committed
during the wait (https://www.postgresql.org/docs/current/transaction-iso.html#XACT-READ-COMMITTED).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    FromClause,
    Insert,
    Select,
    Text,
    bindparam,
    cast,
    delete,
    false,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql.dml import ReturningInsert

from store.database.dialects import upsert
from store.database.schema import asset_store, asset_store_history, database_now, task_store
from store.scopes import AssetStoreWriterKind, Writer

_e, _h = asset_store.c, asset_store_history.c
_ASSET: Final = bindparam("b_asset_id", type_=BigInteger())
_KEY: Final = bindparam("b_key", type_=_e.key.type)
_PREFIX: Final = "last_updated_by_"
_ATTRIBUTION: Final = {column.name.removeprefix(_PREFIX): column for column in _e if column.name.startswith(_PREFIX)}
"""The columns that say who wrote an entry, by the history's names for them."""
_BY: Final = [f"b_{field.name}" for field in fields(Writer)]


def attribution(writer: Writer | None) -> dict[str, Any]:
    """Return the parameters that say who writes."""
    if writer is None:
        return dict.fromkeys(_BY)
    return {**dict(zip(_BY, vars(writer).values(), strict=True)), "b_kind": writer.kind.value}


def key_lock(asset_id: ColumnElement[int], key: ColumnElement[str]) -> ColumnElement[None]:
    """Return PostgreSQL's lock on one key of an asset's store. Its holders are known by a `KeyLock`.

    The lock is on the key, not on its row: a new entry takes its version from the history, which a concurrent delete
    may be about to extend, and then there is no row to lock. Every writer takes it first, so that what follows reads
    without races. SQLite has one writer.
    """
    name = literal("asset_store/").concat(cast(asset_id, Text)).concat("/").concat(key)
    return func.pg_advisory_xact_lock(func.hashtextextended(name, 0))


def _lock_keys() -> Select[Any]:
    """Lock keys in the database's order, as a clear does, so that two transactions never wait in a circle."""
    key = func.unnest(bindparam("b_keys", type_=ARRAY(Text))).column_valued("key")
    in_order = select(key).order_by(key).subquery()
    return select(key_lock(_ASSET, in_order.c.key))


LOCK_KEYS: Final = _lock_keys()

ENTRY: Final = (
    select(_e.key, _e.value, _e.is_ref, _e.version, _e.updated_at, _h.try_number)
    .add_columns(*(column.label(name) for name, column in _ATTRIBUTION.items()))
    .select_from(asset_store)
    .outerjoin(asset_store_history, (_h.asset_id == _e.asset_id) & (_h.key == _e.key) & (_h.version == _e.version))
    .where(_e.asset_id == _ASSET)
)
"""An asset's entries with who wrote them."""
ENTRY_OF_KEY: Final = ENTRY.where(_e.key == _KEY)
VALUE: Final = select(_e.value).where(_e.asset_id == _ASSET, _e.key == _KEY)
VERSION: Final = select(_e.version).where(_e.asset_id == _ASSET, _e.key == _KEY)


@cache
def write(dialect: str, *, attributed: bool) -> ReturningInsert[Any]:
    """Insert or update one entry whose key is locked, if its version is as expected; return the new version.

    On PostgreSQL it writes the history row as well, in one round trip. SQLite needs no round trips and has `HISTORY`
    for that.
    """
    entry = _write_entry(dialect, attributed=attributed)
    if dialect != "postgresql":
        return entry
    written = entry.cte("written")
    return _write_history(written.c.version).returning(_h.version)


def write_locking(locked: FromClause) -> ReturningInsert[Any]:
    """Return PostgreSQL's `write` where `locked` is a row that takes the lock on the key, in the same round trip.

    The statement reads as of before it waited for the lock. It still sees an entry that was written meanwhile, because
    the new entry conflicts with it. If an entry was deleted meanwhile, the version that the new one would have is
    taken: the database refuses it (`IntegrityError`), and whoever asks again sees what there is now.
    """
    written = _write_entry("postgresql", attributed=True, of=locked).cte("written")
    return _write_history(written.c.version).returning(_h.version)


def _write_entry(dialect: str, *, attributed: bool, of: FromClause | None = None) -> ReturningInsert[Any]:
    """Return the statement that writes an entry without its history.

    Without a writer, the recorded kind and ids stay; only the link to the log lines of this write is unknown.
    """
    names = _ATTRIBUTION if attributed else ("write_id",)
    content = {name: bindparam(f"b_{name}", type_=_e[name].type) for name in ("value", "is_ref")}
    by = {_ATTRIBUTION[name].name: bindparam(f"b_{name}", type_=_ATTRIBUTION[name].type) for name in names}
    new = _new_entry({"asset_id": _ASSET, "key": _KEY, **content, **by})
    expected = bindparam("b_expected", type_=BigInteger())
    is_expected = or_(expected.is_(None), expected == func.coalesce(VERSION.scalar_subquery(), 0))
    source = select(*new.values()).where(is_expected)
    if of is not None:
        source = source.select_from(of)
    return _upsert(dialect, new, source, where=or_(expected.is_(None), expected == _e.version))


def _new_entry(values: Mapping[str, ColumnElement[Any]]) -> dict[str, ColumnElement[Any]]:
    """Return the columns with the version that an entry has if it is not there.

    It is 1 for a key that never was. Versions continue after a delete, so a clean-up leaves the newest row of every
    key.
    """
    newest = select(func.max(_h.version)).where(_h.asset_id == values["asset_id"], _h.key == values["key"])
    version = func.coalesce(newest.scalar_subquery(), 0) + 1
    return {**values, "version": version, "updated_at": database_now()}


def _upsert(
    dialect: str,
    new: Mapping[str, ColumnElement[Any]],
    source: Select[Any],
    where: ColumnElement[bool] | None = None,
) -> ReturningInsert[Any]:
    keys = [column.name for column in asset_store.primary_key]
    entry = upsert(asset_store, dialect).from_select(list(new), source)
    changed: dict[str, ColumnElement[Any]] = {name: entry.excluded[name] for name in new if name not in keys}
    changed["version"] = _e.version + 1
    entry = entry.on_conflict_do_update(index_elements=keys, set_=changed, where=where)
    return entry.returning(_e.version, _e.asset_id, _e.key)


WATERMARKS: Final = {name: _e[name].type for name in ("asset_id", "key", "value")} | {
    name: _ATTRIBUTION[name].type for name in ("watcher", "write_id")
}
"""The columns that are passed to `write_watermarks`."""


def write_watermarks(given: FromClause) -> Insert:
    """Return PostgreSQL's `write`, with history, for the entries of many watchers whose keys are locked."""
    by: dict[str, ColumnElement[Any]] = {c.name: cast(null(), c.type) for c in _ATTRIBUTION.values()}
    by |= {_ATTRIBUTION[name].name: given.c[name] for name in ("watcher", "write_id")}
    by[_ATTRIBUTION["kind"].name] = literal(AssetStoreWriterKind.WATCHER.value, _h.kind.type)
    new = _new_entry({**{name: given.c[name] for name in ("asset_id", "key", "value")}, "is_ref": false(), **by})
    entries = _upsert("postgresql", new, select(*new.values()).order_by(given.c.asset_id, given.c.key))
    written = entries.returning(_e.value, _e.updated_at, *_ATTRIBUTION.values()).cte("entry").c
    by_history = {name: written[column.name] for name, column in _ATTRIBUTION.items()}
    values = {name: written[name] for name in ("asset_id", "key", "version", "value")} | by_history
    values["written_at"] = written.updated_at
    return insert(asset_store_history).from_select(list(values), select(*values.values()))


def _write_history(version: ColumnElement[Any]) -> Insert:
    given = {column.name: bindparam(f"b_{column.name}", type_=column.type) for column in _h}
    values = {**given, "version": version, "deleted": false(), "written_at": database_now()}
    return insert(asset_store_history).from_select(list(values), select(*values.values()))


HISTORY: Final = _write_history(bindparam("b_version", type_=_h.version.type))


def _removed(keys: Any) -> tuple[Executable, Executable]:
    here = (_e.asset_id == _ASSET) & _e.key.in_(keys)
    by = {name: bindparam(f"b_{name}", type_=_h[name].type) for name in (*_ATTRIBUTION, "try_number")}
    columns = {"asset_id": _e.asset_id, "key": _e.key, "version": _e.version + 1, "deleted": true(), **by}
    gone = select(*columns.values(), database_now()).where(here)
    history = insert(asset_store_history).from_select([*columns, "written_at"], gone)
    return history, delete(asset_store).where(here).returning(_e.key)


REMOVE: Final = _removed(bindparam("b_keys", expanding=True, type_=_e.key.type))
"""Entries whose keys are locked: the history first, because it takes their versions from them."""


@cache
def write_task(dialect: str) -> Insert:
    """Insert or update one entry of a task instance; the parameters have the names of the columns."""
    given = {column.name: bindparam(column.name, type_=column.type) for column in task_store.c}
    values: dict[str, Any] = {**given, "updated_at": database_now()}
    keys = [column.name for column in task_store.primary_key]
    changed = {name: value for name, value in values.items() if name not in keys}
    return upsert(task_store, dialect).values(values).on_conflict_do_update(index_elements=keys, set_=changed)
