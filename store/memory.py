"""The smallest complete store backend: dictionaries in memory, as an example for authors.

It forgets everything at exit.
"""

# ruff: noqa: ARG002  a session means nothing to a backend outside the metadata database

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncSession

from store.base import BaseStoreBackend, NeverExpire, Scope, TaskScope
from store.errors import InvalidValue
from store.values import check_expiry, check_json, check_key


@dataclass(frozen=True, kw_only=True)
class _Entry:
    value: str
    expires_at: datetime | None


class MemoryStoreBackend(BaseStoreBackend):
    """Keeps an asset's state under its id, which stays when name and uri change."""

    def __init__(self, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._entries: dict[TaskScope | int, dict[str, _Entry]] = {}

    async def aget(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> str | None:
        entry = self._entries.get(_place(scope), {}).get(check_key(key))
        return entry.value if entry is not None and self._lives(entry) else None

    async def aset(
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        session: AsyncSession | None = None,
    ) -> None:
        check_expiry(scope, expires_at)
        until = expires_at if isinstance(expires_at, datetime) else None
        entry = _Entry(value=check_json(value), expires_at=until)
        self._entries.setdefault(_place(scope), {})[check_key(key)] = entry

    async def adelete(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> None:
        self._entries.get(_place(scope), {}).pop(check_key(key), None)

    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: AsyncSession | None = None) -> None:
        cleared = _place(scope)
        for place in list(self._entries):
            if place == cleared or (all_map_indices and _same_task(place, cleared)):
                del self._entries[place]

    def cleanup(self) -> None:
        for place, entries in list(self._entries.items()):
            self._entries[place] = {key: entry for key, entry in entries.items() if self._lives(entry)}

    def _lives(self, entry: _Entry) -> bool:
        return entry.expires_at is None or self._clock() < entry.expires_at


def _place(scope: Scope) -> TaskScope | int:
    if isinstance(scope, TaskScope):
        return scope
    if scope.asset_id is None:
        raise InvalidValue("this backend knows an asset by its id only; give the scope an asset_id")
    return scope.asset_id


def _same_task(one: TaskScope | int, other: TaskScope | int) -> bool:
    return (
        isinstance(one, TaskScope) and isinstance(other, TaskScope) and one == replace(other, map_index=one.map_index)
    )
