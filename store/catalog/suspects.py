"""The watchers that may have a problem: few rows, however many watchers there are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Select, bindparam, or_
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog.watchers import WatcherRow, selected
from store.database.paging import all_of
from store.database.schema import watcher

FINE: Final = ("running", "starting", "stopped")
"""The states in which a watcher without error and findings has no problem."""


async def suspects(connection: AsyncConnection, names: Collection[str] = ()) -> Sequence[WatcherRow]:
    """Return the configured watchers of which something may be wrong by their rows, and those with these names; by name."""
    return await all_of(connection, _suspects(), WatcherRow, {"names": sorted(names)})


@cache
def _suspects() -> Select[Any]:
    w = watcher.c
    something = or_(w.error.is_not(None), w.error_count > 0, w.findings.is_not(None), w.state.not_in(FINE))
    return selected().where(or_(something, w.name.in_(bindparam("names", expanding=True))))
