"""The chunks beside positions: bytes that a watcher keeps for a while, numbered in ascending order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import watcher_position_chunk


@dataclass(frozen=True, kw_only=True)
class ChunkDifferences:
    """How a watcher's chunks change; see `triggers.base.RowChanges`."""

    clear: bool = False
    delete_chunks_below: int | None = None
    chunks: Mapping[int, bytes] = field(default_factory=dict)


_MINE: Final = watcher_position_chunk.c.watcher == bindparam("b_watcher")
_DROP_ALL: Final = delete(watcher_position_chunk).where(_MINE)
_DROP: Final = _DROP_ALL.where(watcher_position_chunk.c.number < bindparam("b_below"))
_ADD: Final = insert(watcher_position_chunk)


async def change(connection: AsyncConnection, changes: Mapping[str, ChunkDifferences]) -> None:
    """Apply the differences of many watchers: one statement for each kind of difference that there is."""
    cleared = [{"b_watcher": watcher} for watcher, each in changes.items() if each.clear]
    dropped = [
        {"b_watcher": watcher, "b_below": each.delete_chunks_below}
        for watcher, each in changes.items()
        if each.delete_chunks_below is not None
    ]
    new = [
        {"watcher": watcher, "number": number, "data": data}
        for watcher, each in changes.items()
        for number, data in each.chunks.items()
    ]
    for statement, parameters in ((_DROP_ALL, cleared), (_DROP, dropped), (_ADD, new)):
        if parameters:
            await connection.execute(statement, parameters)


async def stored_chunks(connection: AsyncConnection, watchers: Collection[str]) -> Mapping[str, Mapping[int, bytes]]:
    """Return the chunks of these watchers, of those that have any, in ascending order."""
    if not watchers:
        return {}
    c = watcher_position_chunk.c
    query = select(c.watcher, c.number, c.data).where(c.watcher.in_(watchers)).order_by(c.watcher, c.number)
    chunks: dict[str, dict[int, bytes]] = {}
    for row in await connection.execute(query):
        chunks.setdefault(row.watcher, {})[row.number] = row.data
    return chunks
