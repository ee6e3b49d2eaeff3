"""The store's contract: scopes, writers, and the backend that keeps asset and task state.

Values are JSON texts (any JSON value but null). A backend keeps what it is given and nothing else: writers, history and
compare-and-set belong to `MetastoreStoreBackend` alone, so that other backends (Redis, object storage) stay simple.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum
from typing import Final, TypeAlias

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from store.errors import InvalidValue


class NeverExpire(Enum):
    """The type of `NEVER_EXPIRE`: an entry that no retention ever removes."""

    NEVER_EXPIRE = "never_expire"


NEVER_EXPIRE: Final = NeverExpire.NEVER_EXPIRE


@dataclass(frozen=True, kw_only=True)
class TaskScope:
    """The state of one task instance; an unmapped task has `map_index` -1."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1


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

    def validate_writer_fields(
        self,
        *,
        dag_id: str | None,
        run_id: str | None,
        task_id: str | None,
        map_index: int | None,
        watcher: str | None,
        actor: str | None,
    ) -> None:
        """Raise `InvalidValue` unless exactly the fields of this kind are set."""
        given = {
            "dag_id": dag_id,
            "run_id": run_id,
            "task_id": task_id,
            "map_index": map_index,
            "watcher": watcher,
            "actor": actor,
        }
        needed = _FIELDS_OF_KIND[self]
        wrong = [name for name, value in given.items() if (value is not None) != (name in needed)]
        if wrong:
            raise InvalidValue(
                f"a {self.value} writer sets exactly {', '.join(sorted(needed))}; wrong: {', '.join(wrong)}"
            )


_FIELDS_OF_KIND: Final = {
    AssetStoreWriterKind.TASK: frozenset({"dag_id", "run_id", "task_id", "map_index"}),
    AssetStoreWriterKind.WATCHER: frozenset({"watcher"}),
    AssetStoreWriterKind.API: frozenset({"actor"}),
}


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Who writes, and the `write_id` that leads from the stored value to the log lines of this write.

    `try_number` is kept in the history only. Raises `InvalidValue` when kind and fields disagree.
    """

    kind: AssetStoreWriterKind
    write_id: str
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
        self.kind.validate_writer_fields(
            dag_id=self.dag_id,
            run_id=self.run_id,
            task_id=self.task_id,
            map_index=self.map_index,
            watcher=self.watcher,
            actor=self.actor,
        )


class BaseStoreBackend(ABC):
    """Keeps the state of assets and task instances. Eight methods, each for callers with and without an event loop.

    Every backend owes what `tests/contract/` checks and `docs/writing-a-store-backend.md` explains: a value comes back as
    the text that was given; `clear` and `delete` do nothing where nothing is; what `store.values` refuses is refused with
    `InvalidValue` and changes nothing. `session` is the caller's transaction on the metadata database: a backend that
    lives there works inside it and commits nothing; others ignore it. `expires_at` is an absolute time or
    `NEVER_EXPIRE`, for task scopes only; None means the configured default. The daemon gives asset scopes whole, with id,
    name and uri. Not promised by a backend: order between writers, history, or who wrote.
    """

    @abstractmethod
    def get(self, scope: Scope, key: str, *, session: Session | None = None) -> str | None:
        """The stored JSON text, or None."""

    @abstractmethod
    def set(
        self,
        scope: Scope,
        key: str,
        value: str,
        *,
        expires_at: datetime | NeverExpire | None = None,
        session: Session | None = None,
    ) -> None:
        """Store a JSON text; the writer recorded for an existing asset entry stays as it is."""

    @abstractmethod
    def delete(self, scope: Scope, key: str, *, session: Session | None = None) -> None:
        """Remove one key."""

    @abstractmethod
    def clear(self, scope: Scope, *, all_map_indices: bool = False, session: Session | None = None) -> None:
        """Remove all keys of the scope; `all_map_indices` takes the siblings of a mapped task instance along."""

    @abstractmethod
    async def aget(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> str | None:
        """`get`, for async callers."""

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
        """`set`, for async callers."""

    @abstractmethod
    async def adelete(self, scope: Scope, key: str, *, session: AsyncSession | None = None) -> None:
        """`delete`, for async callers."""

    @abstractmethod
    async def aclear(self, scope: Scope, *, all_map_indices: bool = False, session: AsyncSession | None = None) -> None:
        """`clear`, for async callers."""

    def cleanup(self) -> None:  # noqa: B027  a no-op is the right default
        """Remove what has expired; backends that expire by themselves need not override it."""
