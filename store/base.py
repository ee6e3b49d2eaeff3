"""The store's contract: scopes, writers, and the backend that keeps asset and task state.

Values are JSON texts (any JSON value but null). A backend keeps what it is given and nothing else: writers, history and
compare-and-set belong to `MetastoreStoreBackend` alone, so that other backends (Redis, object storage) stay simple.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from store.errors import InvalidValue
from store.keys import TaskInstanceKey

if TYPE_CHECKING:
    from store.database import Database
    from store.state.attributed import AttributedEntries

T = TypeVar("T")


class NeverExpire(Enum):
    """The type of `NEVER_EXPIRE`: an entry that no retention ever removes."""

    NEVER_EXPIRE = "never_expire"


NEVER_EXPIRE: Final = NeverExpire.NEVER_EXPIRE


TaskScope: TypeAlias = TaskInstanceKey
"""The state of one task instance: `dag_id`, `run_id`, `task_id`, and `map_index`, -1 for an unmapped task."""


@dataclass(frozen=True, kw_only=True)
class AssetScope:
    """The state of one asset, named by at least one of its id, name or uri."""

    asset_id: int | None = None
    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        if self.asset_id is None and self.name is None and self.uri is None:
            raise InvalidValue("an asset scope needs an asset_id, a name or a uri")


Scope: TypeAlias = TaskScope | AssetScope


class AssetStoreWriterKind(StrEnum):
    """Who wrote an asset's entry: a job's task, a watcher of ours, or a person or tool through the API."""

    TASK = "task"
    WATCHER = "watcher"
    API = "api"

    def validate_writer_fields(self, **given: str | int | None) -> None:
        """Raise `InvalidValue` unless of dag_id, run_id, task_id, map_index, watcher, actor exactly this kind's are set."""
        needed = _FIELDS_OF_KIND[self]
        fields = {**given, **{name: given.get(name) for name in sorted(needed)}}
        wrong = [name for name, value in fields.items() if (value is not None) != (name in needed)]
        if wrong:
            raise InvalidValue(
                f"a {self.value} writer sets exactly {', '.join(sorted(needed))}; wrong: {', '.join(wrong)}"
            )


_FIELDS_OF_KIND: Final = {
    AssetStoreWriterKind.TASK: frozenset({"dag_id", "run_id", "task_id", "map_index"}),
    AssetStoreWriterKind.WATCHER: frozenset({"watcher"}),
    AssetStoreWriterKind.API: frozenset({"actor"}),
}
_NAMING: Final = frozenset().union(*_FIELDS_OF_KIND.values())


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Who writes, and the `write_id` that leads from the stored value to the log lines of this write.

    `write_id` is None of an entry that was overwritten without a writer since. `try_number` is kept in the history only.
    Raises `InvalidValue` when kind and fields disagree.
    """

    kind: AssetStoreWriterKind
    write_id: str | None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    try_number: int | None = None
    watcher: str | None = None
    actor: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, AssetStoreWriterKind):
            raise InvalidValue(f"unknown writer kind {self.kind!r}; use AssetStoreWriterKind: task, watcher or api")
        given = vars(self)
        if {name for name in _NAMING if given[name] is not None} != _FIELDS_OF_KIND[self.kind]:
            self.kind.validate_writer_fields(**{name: given[name] for name in _NAMING})


class BaseStoreBackend(ABC):
    """Keeps the state of assets and task instances. An author writes the four methods that begin with `a`.

    Every backend owes what `tests/contract/` checks and `docs/writing-a-store-backend.md` explains: a value comes back as
    the text that was given; `clear` and `delete` do nothing where nothing is; what `store.values` refuses is refused with
    `InvalidValue` and changes nothing. `session` is the caller's transaction on the metadata database: a backend that
    lives there works inside it and commits nothing; others ignore it. `expires_at` is an absolute time or
    `NEVER_EXPIRE`, for task scopes only; None means the configured default. The daemon gives asset scopes whole, with id,
    name and uri. Not promised by a backend: order between writers, history, or who wrote.

    `get`, `set`, `delete` and `clear` are for threads without an event loop: they run the others on `loop`, wait, and take
    no `session`. A backend that is better off with eight methods of its own writes all of them.
    """

    loop: AbstractEventLoop | None = None
    """The daemon's, once the backend is loaded."""

    @abstractmethod
    async def aget(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> str | None:
        """The stored JSON text, or None."""

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
        """Remove all keys of the scope; `all_map_indices` takes the siblings of a mapped task instance along."""

    def get(self, scope: Scope, key: str, *, session: Session | None = None) -> str | None:
        """`aget`, for callers without an event loop. Raises `InvalidValue` where it cannot wait."""
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
        """`aset`, likewise."""
        self._await(session, self.aset, scope, key, value, expires_at=expires_at)

    def delete(self, scope: Scope, key: str, *, session: Session | None = None) -> None:
        """`adelete`, likewise."""
        self._await(session, self.adelete, scope, key)

    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Session | None = None) -> None:
        """`aclear`, likewise."""
        self._await(session, self.aclear, scope, all_map_indices=all_map_indices)

    def cleanup(self) -> None:  # noqa: B027  a no-op is the right default
        """Remove what has expired; backends that expire by themselves need not override it."""

    def entries(self, database: Database) -> AttributedEntries:
        """How the daemon reads and writes through this backend. Authors leave it as it is."""
        from store.state.plain import PlainEntries  # noqa: PLC0415  it knows this contract

        return PlainEntries(self, database.dialect)

    def _await(
        self, session: Session | None, method: Callable[..., Coroutine[Any, Any, T]], *arguments: Any, **options: Any
    ) -> T:
        name = method.__name__
        if session is not None:
            raise InvalidValue(f"a synchronous session cannot be waited on by an event loop; await {name} instead")
        if self.loop is None or _on_loop(self.loop):
            raise InvalidValue(f"this thread has no other event loop to wait for; await {name} instead")
        return asyncio.run_coroutine_threadsafe(method(*arguments, **options), self.loop).result()


def _on_loop(loop: AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
