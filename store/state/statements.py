"""The SQL of the asset store and the task store, each statement once for sync and async callers.

Every operation is a generator that yields statements and is sent their results; `run` and `arun` drive it on a `Session`
or an `AsyncConnection`. So the order of statements, which is what makes a write correct, exists once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Executable,
    Result,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    false,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from store.base import NEVER_EXPIRE, AssetScope, NeverExpire, TaskScope, Writer
from store.database.dialects import chunks, upsert
from store.database.schema import asset, asset_store, asset_store_history, database_now, task_store
from store.errors import NotFound, VersionConflict

T = TypeVar("T")
PreparedStep: TypeAlias = tuple[Executable, Mapping[str, Any]]
Step: TypeAlias = Executable | PreparedStep
"""A statement, or one that was made beforehand and the values of its parameters."""
Statements: TypeAlias = Generator[Step, Result[Any], T]

WRITER_FIELDS: Final = ("kind", "dag_id", "run_id", "task_id", "map_index", "watcher", "actor", "write_id")


def run(connection: Session | Connection, operation: Statements[T]) -> T:
    """Drive an operation on a synchronous connection."""
    try:
        step = next(operation)
        while True:
            step = operation.send(connection.execute(*_executed(step)))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration carries the generator's T


async def arun(connection: AsyncConnection | AsyncSession, operation: Statements[T]) -> T:
    """Drive an operation on an asynchronous connection."""
    return await connection.run_sync(run, operation)  # one switch to SQLAlchemy's side for all of it


def _executed(step: Step) -> PreparedStep:
    return step if isinstance(step, tuple) else (step, {})


# --- assets ---------------------------------------------------------------------------------------------------------


def find_asset_id(scope: AssetScope, lock_key: str | None = None) -> Statements[int]:
    """The asset's id by every name the scope gives, with the lock on one of its keys if asked. Raises `NotFound`."""
    names = {"id": scope.asset_id, "name": scope.name, "uri": scope.uri}
    given = {f"b_{name}": value for name, value in names.items() if value is not None}
    locked = {} if lock_key is None else {"b_key": lock_key}
    found = (yield _asset_by(tuple(given), locking=lock_key is not None), {**given, **locked}).one_or_none()
    if found is None:
        shown = scope.name or scope.uri or scope.asset_id
        raise NotFound(f"no asset {shown!r}; `watcher assets list` shows the ones there are")
    return int(found.id)


@cache
def _asset_by(given: tuple[str, ...], *, locking: bool) -> Executable:
    lock = [key_lock(asset.c.id, bindparam("b_key", type_=Text()))] if locking else []
    matches = [asset.c[name.removeprefix("b_")] == bindparam(name) for name in given]
    return select(asset.c.id, *lock).where(*matches)


def get_asset_value(scope: AssetScope, key: str) -> Statements[str | None]:
    asset_id = yield from find_asset_id(scope)
    return (yield select(asset_store.c.value).where(_entry(asset_id, key))).scalar_one_or_none()


def set_asset_value(
    scope: AssetScope,
    key: str,
    value: str,
    *,
    dialect: str,
    writer: Writer | None = None,
    is_ref: bool = False,
    if_version: int | None = None,
    holds_key: bool = False,
) -> Statements[int]:
    """Write one entry and its history row; returns the new version. `if_version` 0: the entry must not exist."""
    asset_id = yield from _lock_key(scope, key, dialect, holds_key=holds_key)
    yield from _check_version(asset_id, key, if_version)
    return (yield from write_entry(asset_id, key, value, dialect=dialect, writer=writer, is_ref=is_ref))


def write_entry(
    asset_id: int, key: str, value: str, *, dialect: str, writer: Writer | None, is_ref: bool = False
) -> Statements[int]:
    """`set_asset_value` of a key whose lock the transaction holds."""
    content = {"b_asset_id": asset_id, "b_key": key, "b_value": value, "b_is_ref": is_ref}
    said = {f"b_{name}": None if writer is None else _field(writer, name) for name in (*WRITER_FIELDS, "try_number")}
    written = _entry_write(dialect, attributed=writer is not None)
    if dialect == "postgresql":
        return int((yield _with_history(written), {**content, **said}).scalar_one())
    version = int((yield written, {**content, **said}).scalar_one())
    yield _HISTORY_ROW, {**content, **said, "b_version": version}
    return version


def delete_asset_value(
    scope: AssetScope,
    key: str,
    *,
    dialect: str,
    writer: Writer | None = None,
    if_version: int | None = None,
    holds_key: bool = False,
) -> Statements[bool]:
    """Remove one entry, leaving a history row; returns whether there was one."""
    asset_id = yield from _lock_key(scope, key, dialect, holds_key=holds_key)
    yield from _check_version(asset_id, key, if_version)
    return (yield from remove_entries(asset_id, [key], writer)) > 0


def clear_asset_values(
    scope: AssetScope,
    *,
    dialect: str,
    writer: Writer | None = None,
    protected: frozenset[str] = frozenset(),
    limit: int | None = None,
) -> Statements[int]:
    """Remove all entries but the protected ones, or the first `limit`, each leaving a history row; returns how many."""
    asset_id = yield from find_asset_id(scope)
    e = asset_store.c
    wanted = select(e.key).where(e.asset_id == asset_id, e.key.not_in(protected)).order_by(e.key).limit(limit)
    if dialect == "postgresql":  # one after the other in the order of keys, so that two clears never wait in a circle
        in_order = wanted.subquery()
        keys = (yield select(in_order.c.key, key_lock(literal(asset_id), in_order.c.key))).scalars().all()
    else:
        keys = (yield wanted).scalars().all()
    removed = 0
    for some in chunks(keys):
        removed += yield from remove_entries(asset_id, some, writer)
    return removed


def _lock_key(scope: AssetScope, key: str, dialect: str, *, holds_key: bool) -> Statements[int]:
    """The asset's id. Until the transaction ends nobody else writes this key; `holds_key`: it saw to that before.

    The lock is on the key, not on its row: a new entry takes its version from the history, which a concurrent delete
    may be about to extend, and then there is no row to lock. Every writer takes it first, so that what follows reads
    without races. SQLite has one writer.
    """
    if holds_key and scope.asset_id is not None:
        return scope.asset_id
    return (yield from find_asset_id(scope, key if dialect == "postgresql" else None))


def key_lock(asset_id: ColumnElement[int], key: ColumnElement[str]) -> ColumnElement[None]:
    """PostgreSQL's lock on one key of an asset's store; whoever holds it says so by `holds_key`."""
    name = literal("asset_store/").concat(cast(asset_id, Text)).concat("/").concat(key)
    return func.pg_advisory_xact_lock(func.hashtextextended(name, 0))


def _check_version(asset_id: int, key: str, expected: int | None) -> Statements[None]:
    if expected is None:
        return
    found = (yield select(asset_store.c.version).where(_entry(asset_id, key))).scalar_one_or_none()
    if (found or 0) != expected:
        has = "does not exist" if found is None else f"has version {found}"
        raise VersionConflict(f"the entry {key!r} {has}, expected was {expected}; read it again and decide anew")


def remove_entries(asset_id: int, keys: Sequence[str], writer: Writer | None) -> Statements[int]:
    """Delete entries whose keys are locked; the history first, because it takes their versions from them."""
    e, h = asset_store.c, asset_store_history.c
    here = and_(e.asset_id == asset_id, e.key.in_(keys))
    said = {name: literal(value, h[name].type) for name, value in _history(writer).items()}
    columns = {"asset_id": e.asset_id, "key": e.key, "version": e.version + 1, "deleted": true(), **said}
    gone = select(*columns.values(), database_now()).where(here)
    yield insert(asset_store_history).from_select([*columns, "written_at"], gone)
    return len((yield delete(asset_store).where(here).returning(e.key)).all())


@cache
def _entry_write(dialect: str, *, attributed: bool) -> ReturningInsert[tuple[int]]:
    """Insert or update one entry, whose key is locked; parameters begin with `b_`. Returns all that a history row tells.

    Without a writer the recorded kind and ids stay; only the link to the log lines of this write is unknown.
    """
    content = {name: bindparam(f"b_{name}", type_=asset_store.c[name].type) for name in ("value", "is_ref")}
    fields = WRITER_FIELDS if attributed else ("write_id",)
    columns = {name: f"last_updated_by_{name}" for name in fields}
    said = {column: bindparam(f"b_{name}", type_=asset_store.c[column].type) for name, column in columns.items()}
    entry = {**content, **said, "updated_at": database_now()}
    asset_id, key = bindparam("b_asset_id", type_=BigInteger()), bindparam("b_key", type_=asset_store.c.key.type)
    new = upsert(asset_store, dialect).values(
        asset_id=asset_id, key=key, version=_last_version(asset_id, key) + 1, **entry
    )
    changed = {**entry, "version": asset_store.c.version + 1}
    return new.on_conflict_do_update(index_elements=list(asset_store.primary_key), set_=changed).returning(
        asset_store.c.version
    )


def _history_values(version: ColumnElement[Any]) -> dict[str, ColumnElement[Any]]:
    h = asset_store_history.c
    given = ("asset_id", "key", "value", "is_ref", *WRITER_FIELDS, "try_number")
    bound = {name: bindparam(f"b_{name}", type_=h[name].type) for name in given}
    return {**bound, "version": version, "deleted": false(), "written_at": database_now()}


_HISTORY_ROW: Final = insert(asset_store_history).values(
    _history_values(bindparam("b_version", type_=asset_store_history.c.version.type))
)


@cache
def _with_history(written: ReturningInsert[tuple[int]]) -> Executable:
    """Entry and history row in one round trip; SQLite, which needs none, has no such statement."""
    new = written.cte("written")
    values = _history_values(new.c.version)
    row = insert(asset_store_history).from_select(list(values), select(*values.values()).select_from(new))
    return row.returning(asset_store_history.c.version)


def _entry(asset_id: int, key: str) -> ColumnElement[bool]:
    return and_(asset_store.c.asset_id == asset_id, asset_store.c.key == key)


def _last_version(asset_id: BindParameter[int], key: BindParameter[str]) -> ColumnElement[int]:
    """0 for a key that never was. Versions go on after a delete, so a clean-up leaves the newest row of every key."""
    h = asset_store_history.c
    newest = select(func.max(h.version)).where(h.asset_id == asset_id, h.key == key).scalar_subquery()
    return func.coalesce(newest, 0)


def _history(writer: Writer | None) -> dict[str, Any]:
    return {} if writer is None else {name: _field(writer, name) for name in (*WRITER_FIELDS, "try_number")}


def _field(writer: Writer, name: str) -> Any:
    value = getattr(writer, name)
    return value.value if name == "kind" else value


# --- task instances --------------------------------------------------------------------------------------------------


def get_task_value(scope: TaskScope, key: str) -> Statements[str | None]:
    """The value, or None when it is absent or past its retention."""
    result = yield select(task_store.c.value).where(_task_key(scope, key), alive())
    return result.scalar_one_or_none()


def set_task_value(
    scope: TaskScope,
    key: str,
    value: str,
    *,
    dialect: str,
    expires_at: datetime | NeverExpire | None = None,
    is_ref: bool = False,
) -> Statements[None]:
    values = {
        "value": value,
        "is_ref": is_ref,
        "updated_at": database_now(),
        "expires_at": expires_at if isinstance(expires_at, datetime) else None,
        "never_expire": expires_at is NEVER_EXPIRE,
    }
    entry = upsert(task_store, dialect).values(
        dag_id=scope.dag_id, run_id=scope.run_id, task_id=scope.task_id, map_index=scope.map_index, key=key, **values
    )
    yield entry.on_conflict_do_update(index_elements=list(task_store.primary_key), set_=values)


def change_task_value(scope: TaskScope, key: str, value: str) -> Statements[bool]:
    """Another value with the same expiry; returns whether there is an entry that has not expired."""
    change = update(task_store).where(_task_key(scope, key), alive())
    changed = change.values(value=value, is_ref=False, updated_at=database_now()).returning(task_store.c.key)
    return (yield changed).one_or_none() is not None


def delete_task_value(scope: TaskScope, key: str) -> Statements[None]:
    yield delete(task_store).where(_task_key(scope, key))


def clear_task_values(scope: TaskScope, *, all_map_indices: bool = False) -> Statements[None]:
    yield delete(task_store).where(of_task(scope, all_map_indices=all_map_indices))


def of_task(scope: TaskScope, *, all_map_indices: bool = False) -> ColumnElement[bool]:
    """The entries of a task instance."""
    t = task_store.c
    mapped = and_(t.dag_id == scope.dag_id, t.run_id == scope.run_id, t.task_id == scope.task_id)
    return mapped if all_map_indices else and_(mapped, t.map_index == scope.map_index)


def _task_key(scope: TaskScope, key: str) -> ColumnElement[bool]:
    return and_(of_task(scope), task_store.c.key == key)


def alive() -> ColumnElement[bool]:
    """Not past its retention; what has none of its own falls to the clean-up alone."""
    return or_(task_store.c.expires_at.is_(None), task_store.c.expires_at > database_now())
