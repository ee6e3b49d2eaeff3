"""What a try may do to an asset's store: the fence and the asset's reach, asked together inside the writing transaction.

Two statements, made once: jobs write often. The task instance is locked by the first, so what the second tells of the
try is as fresh as the lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import RowMapping, Select, and_, bindparam, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from store import tries
from store.errors import NotFound
from store.schema import (
    asset,
    asset_alias_asset,
    job_inlet,
    job_inlet_alias,
    job_outlet,
    job_outlet_alias,
    task_try,
    watcher,
)
from store.statements import Statements, arun
from store.tries import FencedTry
from store.values import WATERMARK_SUFFIX


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The fenced try and the asset it named: `id`, `name`, `uri`, `active`."""

    held: FencedTry
    asset: RowMapping
    declared: bool
    """Whether the asset is active and an inlet or outlet of the try's job, by itself or through an alias."""
    is_watermark: bool
    """Whether the key is that of an entry which only a configured watcher writes."""


async def reach(
    session: AsyncSession, task_instance_id: str, try_number: int, *, name: str | None, uri: str | None, key: str | None
) -> Reach:
    """Lock the try's task instance and look at one asset. Raises `TryFenced`, `NotFound`."""
    return await arun(session, _reach(task_instance_id, try_number, name, uri, key))


def _reach(
    task_instance_id: str, try_number: int, name: str | None, uri: str | None, key: str | None
) -> Statements[Reach]:
    row = tries.found((yield tries.locked(task_instance_id)))
    given = {"name": name, "uri": uri, "key": key or "", "dag_id": row["dag_id"]}
    of_try = {"task_instance_id": task_instance_id, "try_number": try_number}
    column = "name" if uri is None else "uri"
    said = (yield _look(column), {**given, **of_try}).mappings().one_or_none()
    known = tries.Known() if said is None else tries.Known(**{field: said[field] for field in tries.SAID})
    held = tries.unfinished(row, known, try_number)  # a fenced try learns of nothing else
    if said is None:
        shown = name if uri is None else uri
        raise NotFound(f"no asset {shown!r}; `watcher assets list` shows the ones there are")
    return Reach(
        held=held,
        asset=said,
        declared=bool(said["declared"]) and bool(said["active"]),
        is_watermark=bool(said["is_watermark"]),
    )


@cache
def _look(column: str) -> Select[Any]:
    """By the asset's name, or by its uri."""
    a, t = asset.c, task_try.c
    r = asset_alias_asset.c
    edges = [exists().where(e.c.dag_id == bindparam("dag_id"), e.c.asset_id == a.id) for e in (job_inlet, job_outlet)]
    edges += [
        exists().where(e.c.dag_id == bindparam("dag_id"), e.c.alias_id == r.alias_id, r.asset_id == a.id)
        for e in (job_inlet_alias, job_outlet_alias)
    ]
    own = exists().where(
        watcher.c.active,
        watcher.c.asset_id == a.id,
        watcher.c.name.concat(WATERMARK_SUFFIX) == bindparam("key"),
    )
    this = and_(t.task_instance_id == bindparam("task_instance_id"), t.try_number == bindparam("try_number"))
    said = (t[field] for field in tries.SAID)
    looked = select(a.id, a.name, a.uri, a.active, or_(*edges).label("declared"), own.label("is_watermark"), *said)
    return looked.select_from(asset.outerjoin(task_try, this)).where(a[column] == bindparam(column))
