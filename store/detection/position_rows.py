"""The large sets and the chunks beside positions, changed row by row with the position of their watcher."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import BigInteger, Executable, any_, bindparam, delete, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import Upsert, chunks, rows_of, upsert
from store.database.schema import watcher_position_row
from store.detection import position_chunks
from store.detection.position_chunks import ChunkDifferences


@dataclass(frozen=True, kw_only=True)
class RowDifferences(ChunkDifferences):
    """How a watcher's large set changes; see `triggers.base.RowChanges`."""

    delete_below: int | None = None
    delete: Collection[int] = ()
    insert: Mapping[int, int] = field(default_factory=dict)


UNCHANGED: Final = RowDifferences()


async def change_rows(connection: AsyncConnection, watcher: str, rows: RowDifferences, dialect: str) -> None:
    """Apply differences to the watcher's large set and chunks, after `advance` in the same transaction."""
    if rows == UNCHANGED:
        return
    if dialect == "postgresql":
        await change_all_rows(connection, {watcher: rows})
        return
    r = watcher_position_row.c
    mine = r.watcher == watcher
    if rows.clear:
        await connection.execute(delete(watcher_position_row).where(mine))
    if rows.delete_below is not None:
        await connection.execute(delete(watcher_position_row).where(mine, r.value < rows.delete_below))
    for some in chunks(list(rows.delete)):
        await connection.execute(delete(watcher_position_row).where(mine, r.member.in_(some)))
    if rows.insert:
        members = [{"watcher": watcher, "member": member, "value": value} for member, value in rows.insert.items()]
        await connection.execute(_replacing(upsert(watcher_position_row, dialect)), members)
    await position_chunks.change(connection, {watcher: rows})


def _replacing(new: Upsert) -> Executable:
    return new.on_conflict_do_update(index_elements=["watcher", "member"], set_={"value": new.excluded.value})


async def change_all_rows(connection: AsyncConnection, changes: Mapping[str, RowDifferences]) -> None:
    """Apply the differences of many watchers (PostgreSQL): one statement for each kind of difference that there is."""
    changed = [(watcher, rows) for watcher, rows in changes.items() if rows != UNCHANGED]
    given: Mapping[_Kind, list[tuple[Any, ...]]] = {
        "clear": [(watcher,) for watcher, rows in changed if rows.clear],
        "delete_below": [(watcher, rows.delete_below) for watcher, rows in changed if rows.delete_below is not None],
        "delete": [(watcher, member) for watcher, rows in changed for member in rows.delete],
        "insert": [(watcher, *pair) for watcher, rows in changed for pair in rows.insert.items()],
    }
    for kind, values in given.items():
        if values:
            arrays = zip(_CHANGED_BY[kind], zip(*values, strict=True), strict=True)
            await connection.execute(_change(kind), {f"row_{name}": list(array) for name, array in arrays})
    await position_chunks.change(connection, changes)


_Kind: TypeAlias = Literal["clear", "delete_below", "delete", "insert"]
_CHANGED_BY: Final[Mapping[_Kind, Sequence[str]]] = {
    "clear": ("watcher",),
    "delete_below": ("watcher", "value"),
    "delete": ("watcher", "member"),
    "insert": ("watcher", "member", "value"),
}
"""The columns that each kind of difference takes."""


@cache
def _change(kind: _Kind) -> Executable:
    r = watcher_position_row.c
    given = rows_of("row", {name: r[name].type for name in _CHANGED_BY[kind]})
    by = {name: given.c[name] for name in _CHANGED_BY[kind]}
    if kind == "insert":
        return _replacing(upsert(watcher_position_row, "postgresql").from_select(list(by), select(*by.values())))
    same = (r[name] < value if name == "value" else r[name] == value for name, value in by.items())
    return delete(watcher_position_row).where(*same)


async def stored_rows(connection: AsyncConnection, watchers: Collection[str]) -> Mapping[str, Mapping[int, int]]:
    """Return the large sets of these watchers, of those that have one."""
    if not watchers:
        return {}
    r = watcher_position_row.c
    sets: dict[str, dict[int, int]] = {}
    for row in await connection.execute(select(r.watcher, r.member, r.value).where(r.watcher.in_(watchers))):
        sets.setdefault(row.watcher, {})[row.member] = row.value
    return sets


async def members_of(connection: AsyncConnection, watcher: str, members: Collection[int]) -> Mapping[int, int]:
    """Return those of these members that are in a watcher's large set, with their values."""
    if not members:
        return {}
    given = {"b_watcher": watcher, "b_members": [*members]}
    rows = await connection.execute(_MEMBERS[connection.dialect.name], given)
    return {row.member: row.value for row in rows}


_r = watcher_position_row.c
_MINE: Final = select(_r.member, _r.value).where(_r.watcher == bindparam("b_watcher"))
_MEMBERS: Final[Mapping[str, Executable]] = {
    "postgresql": _MINE.where(_r.member == any_(bindparam("b_members", type_=ARRAY(BigInteger)))),
    "sqlite": _MINE.where(_r.member.in_(bindparam("b_members", expanding=True))),
}
