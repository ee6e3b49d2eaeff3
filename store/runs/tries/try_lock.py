"""Lock a task instance's row, and read in the same statement everything that decides whether its try may write.

The row of the try is locked as well: a row that is only joined would be shown as it was before the wait for the lock
(https://www.postgresql.org/docs/current/transaction-iso.html#XACT-READ-COMMITTED). The other rows that the statement
reads, the asset and the job's edges, are as they were when it began.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Row, Select, Text, and_, bindparam, func, null, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.database.schema import asset, task_instance, task_try
from store.errors import TryFenced, no_asset, no_task_instance
from store.keys import AssetRef, TaskInstanceKey, TryKey, TryRef
from store.runs.tries import answers
from store.runs.tries.answers import IdempotencyKey
from store.state.entries import KeyLock
from store.state.statements import key_lock

UNFINISHED: Final = ("queued", "running")

_t, _y = task_instance.c, task_try.c


@dataclass(frozen=True, kw_only=True)
class AssetSelector:
    """An asset as a job names it; with `either`, an asset's name comes before another's uri."""

    by: Literal["name", "uri", "either"]
    text: str


@dataclass(frozen=True, kw_only=True)
class LockedTry:
    """A task instance and one of its tries, locked until the transaction ends. `try_number` is the current try's.

    The columns of the try are null for another system's task instance, which has no tries of ours.
    """

    key: TryKey
    try_number: int
    state: str
    nonce: str | None
    finish_state: str | None
    is_over: bool
    """It was cancelled, or its process is known to be gone."""

    @property
    def fenced(self) -> TryKey:
        """The key, if the try may still change something. Raises `TryFenced`."""
        number = self.key.try_number
        if self.try_number != number:
            raise TryFenced(
                f"try {number} is superseded by try {self.try_number} and may change nothing; end this process"
            )
        if self.state not in UNFINISHED or self.finish_state is not None or self.is_over:
            raise TryFenced(f"try {number} is over and may change nothing; end this process")
        return self.key


@dataclass(frozen=True, kw_only=True)
class LockedAsset:
    """A fenced try and the asset it named, with the lock on one of its keys if that was requested."""

    key: TryKey
    asset: AssetRef
    is_declared: bool
    """Whether the asset is active and an inlet or outlet of the try's job, by itself or through an alias."""
    lock: KeyLock | None


async def lock_try(connection: AsyncConnection, ref: TryRef, *, request: IdempotencyKey | None = None) -> LockedTry:
    """Lock a task instance and one of its tries.

    Raises `NotFound` for the task instance, and `ReplayedResponse` for a request that took effect before.
    """
    return _locked(await _lock(connection, ref, request, None, None), ref)


async def lock_asset(
    connection: AsyncConnection,
    ref: TryRef,
    selector: AssetSelector,
    *,
    key: str | None = None,
    request: IdempotencyKey | None = None,
    granted: Collection[int] | None = None,
) -> LockedAsset:
    """Fence the try, read the asset, and lock one key of its store. Raises as `lock_try`, and `TryFenced`.

    `granted`: the ids of the assets that another scheduler's task may write, which no job of ours declares.
    """
    row = await _lock(connection, ref, request, selector, key)
    fenced = _locked(row, ref).fenced  # a fenced try learns nothing else
    if row.asset_id is None:
        raise no_asset(selector.text)
    asset_ref = AssetRef(id=row.asset_id, name=row.asset_name, uri=row.asset_uri)
    lock = None if key is None else KeyLock(asset_id=row.asset_id, key=key)
    is_declared = bool(row.asset_declared) if granted is None else row.asset_active and row.asset_id in granted
    return LockedAsset(key=fenced, asset=asset_ref, is_declared=is_declared, lock=lock)


def _locked(row: Row[Any], ref: TryRef) -> LockedTry:
    key = TryKey(instance=TaskInstanceKey.of(row), task_instance_id=row.task_instance_id, try_number=ref.try_number)
    return LockedTry(
        key=key,
        try_number=row.try_number,
        state=row.state,
        nonce=row.nonce,
        finish_state=row.finish_state,
        is_over=row.cancelled_at is not None or row.ended_at is not None,
    )


async def _lock(
    connection: AsyncConnection,
    ref: TryRef,
    request: IdempotencyKey | None,
    selector: AssetSelector | None,
    key: str | None,
) -> Row[Any]:
    dialect = connection.dialect.name
    parameters: dict[str, Any] = {"task_instance_id": ref.task_instance_id, "try_number": ref.try_number}
    answer = {} if request is None else {**parameters, **request.parameters}
    asset_named = {} if selector is None else {"asset": selector.text, "key": key}
    by = selector and selector.by
    for own in (True, False):
        statement = _statement(dialect, by, own=own, with_key=key is not None, with_answer=request is not None)
        row: Row[Any] | None
        row = (await connection.execute(statement, {**parameters, **answer, **asset_named})).one_or_none()
        if row is None:
            continue
        if request is not None:
            reserved = row.reserved
            if reserved is None:
                reserved = len((await connection.execute(answers.reservation(dialect, own=own), answer)).all())
            if not reserved:
                await answers.replay(connection, ref.task_instance_id, request)
        return row
    raise no_task_instance()


@cache
def _statement(dialect: str, by: str | None, *, own: bool, with_key: bool, with_answer: bool) -> Select[Any]:
    """Return the locking query with what has to wait until the rows are locked.

    That is the lock on the entry, and the response to be kept.
    """
    locked = _rows(by, own=own).subquery("locked")
    lock: ColumnElement[Any] = null()
    reserved: ColumnElement[Any] = null()
    if dialect == "postgresql" and with_key:
        lock = key_lock(locked.c.asset_id, bindparam("key", type_=Text()))
    if dialect == "postgresql" and with_answer:
        new = answers.reservation(dialect, own=own).cte("reservation")
        reserved = select(func.count()).select_from(new).scalar_subquery()
    return select(locked, lock.label("key_lock"), reserved.label("reserved"))


def _rows(by: str | None, *, own: bool) -> Select[Any]:
    columns: list[Any] = [_t.id.label("task_instance_id"), _t.dag_id, _t.run_id, _t.task_id, _t.map_index]
    columns += [_t.try_number, _t.state]
    of_try = (_y.nonce, _y.finish_state, _y.cancelled_at, _y.ended_at)
    source: Any = task_instance
    if own:
        source = task_instance.join(
            task_try, and_(_y.task_instance_id == _t.id, _y.try_number == bindparam("try_number"))
        )
    columns += of_try if own else (null().label(column.name) for column in of_try)
    if by is not None:
        columns += (asset.c[name].label(f"asset_{name}") for name in ("id", "name", "uri", "active"))
        columns.append(assets.declared(_t.dag_id, ("inlet", "outlet")).label("asset_declared"))
        source = source.outerjoin(asset, _named(by))
    locked = [task_instance, task_try] if own else [task_instance]
    rows = select(*columns).select_from(source).where(_t.id == bindparam("task_instance_id"))
    return rows.with_for_update(key_share=True, of=locked)


def _named(by: str) -> ColumnElement[bool]:
    a, text = asset.c, bindparam("asset", type_=asset.c.name.type)
    if by != "either":
        return a[by] == text
    other = asset.alias("other").c
    return (
        a.id
        == select(other.id)
        .where(or_(other.name == text, other.uri == text))
        .order_by((other.name == text).desc())
        .limit(1)
        .scalar_subquery()
    )
