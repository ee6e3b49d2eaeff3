"""What a try may do to an asset's store: the fence and the asset's reach, asked together inside the writing transaction.

Two statements, made once: jobs write often. The task instance is locked by the first, so what the second tells of the
try is as fresh as the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import RowMapping, Select, and_, bindparam, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from store import aliases, tries
from store.errors import NotFound
from store.schema import asset, job_inlet, job_outlet, task_try, watcher
from store.tries import FencedTry
from store.values import WATERMARK_SUFFIX


_SAID: Final = (task_try.c.nonce, task_try.c.finish_state, task_try.c.cancelled_at, task_try.c.ended_at)


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
    row = await tries.lock_task_instance(session, task_instance_id)
    given = {"name": name, "uri": uri, "key": key or "", "dag_id": row["dag_id"]}
    of_try = {"task_instance_id": task_instance_id, "try_number": try_number}
    column = "name" if uri is None else "uri"
    found = (await session.execute(_look(column), {**given, **of_try})).mappings().one_or_none()
    if found is None:
        held = await tries.fence(session, task_instance_id, try_number)  # a fenced try learns of nothing else
        shown = name if uri is None else uri
        raise NotFound(f"no asset {shown!r} for {held.dag_id}; `watcher assets list` shows the ones there are")
    known = tries.Known(**{column.name: found[column.name] for column in _SAID})
    held = tries.unfinished(row, known, try_number)
    declared = bool(found["declared"]) or found["id"] in await _through_aliases(session, held.dag_id)
    return Reach(
        held=held,
        asset=found,
        declared=declared and bool(found["active"]),
        is_watermark=bool(found["is_watermark"]),
    )


async def _through_aliases(session: AsyncSession, dag_id: str) -> Sequence[int]:
    """Asked only for an asset that the job does not name itself."""
    named = await aliases.of_job(session, dag_id, ("inlet", "outlet"))
    return await aliases.assets_of(session, named.values())


@cache
def _look(column: str) -> Select[Any]:
    """By the asset's name, or by its uri."""
    a, t = asset.c, task_try.c
    edges = [exists().where(e.c.dag_id == bindparam("dag_id"), e.c.asset_id == a.id) for e in (job_inlet, job_outlet)]
    own = exists().where(
        watcher.c.active,
        watcher.c.asset_id == a.id,
        watcher.c.name.concat(WATERMARK_SUFFIX) == bindparam("key"),
    )
    this = and_(t.task_instance_id == bindparam("task_instance_id"), t.try_number == bindparam("try_number"))
    looked = select(a.id, a.name, a.uri, a.active, or_(*edges).label("declared"), own.label("is_watermark"), *_SAID)
    return looked.select_from(asset.outerjoin(task_try, this)).where(a[column] == bindparam(column))
