"""Rejected items: rows and files that cannot be reported, kept until they can be, or are gone.

Only the watcher's owner writes and removes them, in the transaction of a detection, behind the fence of its position. A
person who wants a retry marks them and moves the position one version on: the owner starts anew and finds the marks,
and an earlier commit that is in flight loses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, bindparam, delete, exists, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import chunks, upsert
from store.database.paging import PageRequest, ResultPage, all_of, page
from store.database.schema import database_now, rejected_item, watcher_position

MOST_CHARACTERS: Final = 200
"""The most characters of a reason."""


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """A rejected item. `key` is JSON text, as in the event's `rejected`; `version` distinguishes contents of one key.

    `column_name` is the column that fails; `code` is PostgreSQL's SQLSTATE.
    """

    key: str
    version: str = ""
    column_name: str | None = None
    code: str = ""
    reason: str = ""
    is_retried: bool = False
    """Somebody asked for a retry."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.key}\n{self.version}".encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class RejectedRow:
    """A rejected item as people see it; `retry_at` is when somebody asked for a retry that has not happened since."""

    key: str
    version: str
    column_name: str | None
    code: str
    reason: str
    rejected_at: datetime
    retry_at: datetime | None


_CONTENT: Final = (
    rejected_item.c.key,
    rejected_item.c.version,
    rejected_item.c.column_name,
    rejected_item.c.code,
    rejected_item.c.reason,
)
_NAMES: Final = [column.name for column in _CONTENT]


async def change(
    connection: AsyncConnection, watcher: str, kept: Sequence[Rejection], settled: Sequence[Rejection]
) -> None:
    """Add and remove a watcher's rejected items, after its position was advanced in the same transaction."""
    for some in chunks([each.digest for each in settled]):
        r = rejected_item.c
        await connection.execute(delete(rejected_item).where(r.watcher == watcher, r.digest.in_(some)))
    if kept:
        new = upsert(rejected_item, connection.dialect.name).values(rejected_at=database_now())
        again = {
            "retry_at": None,
            **{name: new.excluded[name] for name in ("column_name", "code", "reason", "rejected_at")},
        }
        rows = [_row(watcher, each) for each in {each.digest: each for each in kept}.values()]
        await connection.execute(
            new.on_conflict_do_update(index_elements=["watcher", "digest"], set_=again).values(
                {name: bindparam(f"b_{name}") for name in ("watcher", "digest", *_NAMES)}
            ),
            rows,
        )


def _row(watcher: str, rejection: Rejection) -> dict[str, Any]:
    content = {name: vars(rejection)[name] for name in _NAMES} | {"reason": rejection.reason[:MOST_CHARACTERS]}
    return {f"b_{name}": value for name, value in {"watcher": watcher, "digest": rejection.digest, **content}.items()}


async def of_watchers(connection: AsyncConnection, watchers: Collection[str]) -> Mapping[str, Sequence[Rejection]]:
    """Return all rejected items of those watchers that have some, oldest first."""
    if not watchers:
        return {}
    r = rejected_item.c
    columns = (r.watcher, *_CONTENT, r.retry_at.is_not(None).label("is_retried"))
    query = select(*columns).where(r.watcher.in_(watchers)).order_by(r.rejected_at, r.digest)
    by_watcher: dict[str, list[Rejection]] = {}
    for row in await connection.execute(query):
        rejection = Rejection(
            key=row.key,
            version=row.version,
            column_name=row.column_name,
            code=row.code,
            reason=row.reason,
            is_retried=row.is_retried,
        )
        by_watcher.setdefault(row.watcher, []).append(rejection)
    return by_watcher


async def listed(connection: AsyncConnection, watcher: str, window: PageRequest) -> ResultPage[RejectedRow]:
    """Return a part of a watcher's rejected items, oldest first."""
    r = rejected_item.c
    order: Mapping[str, ColumnElement[Any]] = {"digest": r.digest}
    return await page(connection, _rows(watcher), window, order, RejectedRow)


async def oldest(connection: AsyncConnection, watcher: str, *, limit: int) -> Sequence[RejectedRow]:
    """Return the first of a watcher's rejected items, uncounted."""
    return await all_of(connection, _rows(watcher).order_by(rejected_item.c.digest).limit(limit), RejectedRow)


def _rows(watcher: str) -> Select[Any]:
    r = rejected_item.c
    return select(*_CONTENT, r.rejected_at, r.retry_at).where(r.watcher == watcher).order_by(r.rejected_at)


async def retry(connection: AsyncConnection, watcher: str) -> int:
    """Have the owner retry a watcher's rejected items; return how many there are."""
    p, r = watcher_position.c, rejected_item.c
    some = exists().where(r.watcher == watcher)
    moved = update(watcher_position).where(p.watcher == watcher, p.state.is_not(None), some)
    moved = moved.values(version=p.version + 1, updated_at=database_now())
    if (await connection.execute(moved.returning(p.version))).scalar_one_or_none() is None:
        return 0
    marked = update(rejected_item).where(r.watcher == watcher).values(retry_at=database_now())
    return len((await connection.execute(marked.returning(r.digest))).all())
