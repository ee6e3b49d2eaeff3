"""Hold a task instance's row, and learn by the same statement all that decides whether its try may write.

The row of the try is locked along with it: what is only joined would be shown as it was before the wait for the lock
(https://www.postgresql.org/docs/current/transaction-iso.html#XACT-READ-COMMITTED). What else the statement finds, the
asset and the job's edges, is as it was when it began.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    Text,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import (
    asset,
    asset_alias_asset,
    job_inlet,
    job_inlet_alias,
    job_outlet,
    job_outlet_alias,
    task_instance,
    task_try,
)
from store.errors import NotFound, TryFenced
from store.runs import answers
from store.runs.answers import Asked
from store.state.statements import Statements, arun, key_lock

HELD: Final = ("task_instance_id", "dag_id", "run_id", "task_id", "map_index", "try_number", "origin")


SAID: Final = ("nonce", "finish_state", "cancelled_at", "ended_at")
"""The columns of a try that tell whether it may still change something."""


UNFINISHED: Final = ("queued", "running")


@dataclass(frozen=True, kw_only=True)
class FencedTry:
    """The try that a transaction holds locked."""

    task_instance_id: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    origin: str


def unfinished(row: RowMapping, try_number: int) -> FencedTry:
    """What `hold` gave, if the try may still change something. Raises `TryFenced`."""
    if row["try_number"] != try_number:
        raise TryFenced(
            f"try {try_number} is superseded by try {row['try_number']} and may change nothing; end this process"
        )
    if row["state"] not in UNFINISHED or any(row.get(over) for over in ("finish_state", "cancelled_at", "ended_at")):
        raise TryFenced(f"try {try_number} is over and may change nothing; end this process")
    return FencedTry(**{name: row[name] for name in HELD})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An asset as a job names it; of `either` an asset's name comes before another's uri."""

    by: Literal["name", "uri", "either"]
    text: str


async def hold(
    connection: AsyncConnection,
    task_instance_id: str,
    try_number: int,
    *,
    wanted: Wanted | None = None,
    locking: str | None = None,
    asked: Asked | None = None,
) -> RowMapping:
    """`HELD` and `state` of the task instance, and `SAID` of the try, unless that is another system's.

    Of a wanted asset `asset_id` (null: there is none), `asset_name`, `asset_uri`, `asset_active`, `asset_declared`.
    Of its entries the one to write, `locking`, is locked too where writers need that, on PostgreSQL.
    Raises `NotFound` for the task instance, and `Answered` for a request that took effect before.
    """
    dialect = connection.dialect.name
    return await arun(connection, _hold(task_instance_id, try_number, wanted, locking, asked, dialect))


def _hold(
    task_instance_id: str,
    try_number: int,
    wanted: Wanted | None,
    locking: str | None,
    asked: Asked | None,
    dialect: str,
) -> Statements[RowMapping]:
    given: dict[str, Any] = {"task_instance_id": task_instance_id, "try_number": try_number}
    told = {} if asked is None else {**given, **answers.parameters(asked)}
    named = {} if wanted is None else {"asset": wanted.text, "key": locking}
    by, with_key, with_answer = wanted and wanted.by, locking is not None, asked is not None
    for own in (True, False):
        statement = _statement(dialect, by, own=own, with_key=with_key, with_answer=with_answer)
        row = (yield statement, {**given, **told, **named}).mappings().one_or_none()
        if row is None:
            continue
        if asked is not None:
            reserved = row.get("reserved")
            if reserved is None:
                reserved = len((yield answers.reservation(dialect, own=own), told).all())
            if not reserved:
                yield from answers.repeat(task_instance_id, asked)
        return row
    raise NotFound("this task instance does not exist any more; end this process")


@cache
def _statement(dialect: str, by: str | None, *, own: bool, with_key: bool, with_answer: bool) -> Select[Any]:
    """Around the rows it locks, what has to wait until they are: the lock on the entry, and the answer to be kept."""
    held = _held(by, own=own).subquery("held")
    more: dict[str, ColumnElement[Any]] = {}
    if dialect == "postgresql" and with_key:
        more["key_lock"] = key_lock(held.c.asset_id, bindparam("key", type_=Text()))
    if dialect == "postgresql" and with_answer:
        new = answers.reservation(dialect, own=own).cte("reservation")
        more["reserved"] = select(func.count()).select_from(new).scalar_subquery()
    return select(held, *(column.label(name) for name, column in more.items()))


def _held(by: str | None, *, own: bool) -> Select[Any]:
    t, y = task_instance.c, task_try.c
    columns: list[Any] = [t.id.label("task_instance_id"), *(t[name] for name in HELD[1:]), t.state]
    found: Any = task_instance
    if own:
        columns += (y[name] for name in SAID)
        found = task_instance.join(task_try, and_(y.task_instance_id == t.id, y.try_number == bindparam("try_number")))
    if by is not None:
        columns += (asset.c[name].label(f"asset_{name}") for name in ("id", "name", "uri", "active"))
        columns.append(_declared().label("asset_declared"))
        found = found.outerjoin(asset, _named(by))
    locked = [task_instance, task_try] if own else [task_instance]
    held = select(*columns).select_from(found).where(t.id == bindparam("task_instance_id"))
    return held.with_for_update(key_share=True, of=locked)


def _named(by: str) -> ColumnElement[bool]:
    a, text = asset.c, bindparam("asset", type_=asset.c.name.type)
    if by != "either":
        return a[by] == text
    one = asset.alias("one").c
    return (
        a.id
        == select(one.id)
        .where(or_(one.name == text, one.uri == text))
        .order_by((one.name == text).desc())
        .limit(1)
        .scalar_subquery()
    )


def _declared() -> ColumnElement[bool]:
    """Whether the asset is an inlet or outlet of the task instance's job, by itself or through an alias."""
    dag_id, a, r = task_instance.c.dag_id, asset.c, asset_alias_asset.c
    edges = [exists().where(e.c.dag_id == dag_id, e.c.asset_id == a.id) for e in (job_inlet, job_outlet)]
    edges += [
        exists().where(e.c.dag_id == dag_id, e.c.alias_id == r.alias_id, r.asset_id == a.id)
        for e in (job_inlet_alias, job_outlet_alias)
    ]
    return or_(*edges)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The fenced try and the asset it named."""

    held: FencedTry
    asset_id: int
    name: str
    uri: str
    declared: bool
    """Whether the asset is active and an inlet or outlet of the try's job, by itself or through an alias."""


async def reach(
    connection: AsyncConnection,
    task_instance_id: str,
    try_number: int,
    wanted: Wanted,
    *,
    locking: str | None = None,
    asked: Asked | None = None,
) -> Reach:
    """Lock the try's task instance, and the entry to write if there is one, and look at the asset.

    Raises `TryFenced`, `NotFound`, `Answered`.
    """
    row = await hold(connection, task_instance_id, try_number, wanted=wanted, locking=locking, asked=asked)
    held = unfinished(row, try_number)  # a fenced try learns of nothing else
    if row["asset_id"] is None:
        raise NotFound(f"no asset {wanted.text!r}; `watcher assets list` shows the ones there are")
    return Reach(
        held=held,
        asset_id=row["asset_id"],
        name=row["asset_name"],
        uri=row["asset_uri"],
        declared=bool(row["asset_declared"]) and bool(row["asset_active"]),
    )
