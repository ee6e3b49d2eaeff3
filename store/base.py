"""The store's contract: scopes, writers, and the backend that keeps asset and task state.

Values are JSON texts (any JSON value but null). A backend keeps what it is given and nothing else: writers, history and
compare-and-set belong to `MetastoreStoreBackend` alone, so that other backends (Redis, object storage) stay simple.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from store.errors import InvalidValue
from store.scopes import NEVER_EXPIRE, AssetScope, AssetStoreWriterKind, NeverExpire, Scope, TaskScope, Writer
from store.state.attributed import AttributedEntries
from store.state.plain import PlainEntries

if TYPE_CHECKING:  # sessions need SQLAlchemy's ORM, which nothing else uses
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

    from store.database import Database

P = ParamSpec("P")
T = TypeVar("T")
__all__ = [
    "NEVER_EXPIRE",
    "AssetScope",
    "AssetStoreWriterKind",
    "BaseStoreBackend",
    "NeverExpire",
    "Scope",
    "TaskScope",
    "Writer",
]


class BaseStoreBackend(ABC):
    """Keeps the state of assets and task instances. An author writes the four methods that begin with `a`.

    Every backend owes what `tests/contract/` checks and `docs/writing-a-store-backend.md` explains: a value comes back
    as the text that was given; `clear` and `delete` do nothing when there is nothing to remove; what `store.values`
    refuses is refused with `InvalidValue` and changes nothing. `session` is the caller's transaction on the metadata
    database: a backend that lives there works inside it and commits nothing; other backends ignore it. `expires_at` is
    an absolute time or `NEVER_EXPIRE`, for task scopes only; None means the configured default. The daemon passes asset
    scopes complete, with id, name and uri. A backend does not promise an order between writers, a history, or who
    wrote.

    `get`, `set`, `delete` and `clear` are for threads without an event loop: they run the asynchronous methods on
    `loop`, wait, and take no `session`. A backend that works better with eight methods of its own writes all of them.
    """

    loop: AbstractEventLoop | None = None
    """The daemon's event loop, once the backend is loaded."""

    @abstractmethod
    async def aget(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> str | None:
        """Return the stored JSON text, or None."""

    @abstractmethod
    async def aset(
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        session: AsyncSession | None = None,
    ) -> None:
        """Store a JSON text; the writer recorded for an existing asset entry stays as it is."""

    @abstractmethod
    async def adelete(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> None:
        """Remove one key."""

    @abstractmethod
    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: AsyncSession | None = None) -> None:
        """Remove all keys of the scope; `all_map_indices` includes the siblings of a mapped task instance."""

    def get(self, scope: Scope, key: str, *, session: Session | None = None) -> str | None:
        """Call `aget` from a thread without an event loop. Raises `InvalidValue` where it cannot wait."""
        return self._await(session, self.aget, scope, key)

    def set(
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        session: Session | None = None,
    ) -> None:
        """Call `aset` from a thread without an event loop. Raises `InvalidValue` where it cannot wait."""
        self._await(session, self.aset, scope, key, value, expires_at=expires_at)

    def delete(self, scope: Scope, key: str, *, session: Session | None = None) -> None:
        """Call `adelete` from a thread without an event loop. Raises `InvalidValue` where it cannot wait."""
        self._await(session, self.adelete, scope, key)

    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Session | None = None) -> None:
        """Call `aclear` from a thread without an event loop. Raises `InvalidValue` where it cannot wait."""
        self._await(session, self.aclear, scope, all_map_indices=all_map_indices)

    def cleanup(self) -> None:  # noqa: B027  a no-op is the right default
        """Remove what has expired. Backends that expire entries by themselves need not override it."""

    def entries(self, database: Database) -> AttributedEntries:
        """Return the object through which the daemon reads and writes this backend. Authors do not override it."""
        return PlainEntries(self, database.dialect)

    def _await(
        self,
        session: Session | None,
        method: Callable[P, Coroutine[Any, Any, T]],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        name = getattr(method, "__name__", "the other method")
        if session is not None:
            raise InvalidValue(f"a synchronous session cannot be waited on by an event loop; await {name} instead")
        if self.loop is None or _on_loop(self.loop):
            raise InvalidValue(f"this thread has no other event loop to wait on; await {name} instead")
        return asyncio.run_coroutine_threadsafe(method(*arguments, **options), self.loop).result()


def _on_loop(loop: AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
