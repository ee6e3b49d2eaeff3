"""Entries of assets and task instances, as everything but a backend's author reads and changes them.

`Entries` works inside the caller's transaction on the metadata database and commits nothing: a fenced try or a missing
asset is refused before anything is written. There are two: `AttributedEntries` in the metadata database, and
`PlainEntries` around a backend of a user's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import NeverExpire, TaskScope, Writer
from store.database.paging import Page, Window
from store.keys import AssetRef
from store.state.transactions import Outcome, Transaction


@dataclass(frozen=True, kw_only=True)
class KeyLock:
    """Nobody else writes this key until the transaction ends. Made only by what took the lock."""

    asset_id: int
    key: str


@dataclass(frozen=True, kw_only=True)
class EntryChange:
    """One entry set, or deleted when `value` (a JSON text) is None.

    Without a `writer` the recorded kind and ids of an entry stay. `expected_version` 0: it must not exist. Without a
    `lock` the key is locked first.
    """

    asset: AssetRef
    key: str
    value: str | None
    writer: Writer | None
    is_ref: bool = False
    expected_version: int | None = None
    lock: KeyLock | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An asset's entry; `value` is JSON text. A backend of a user's own keeps values only."""

    key: str
    value: str
    is_ref: bool = False
    version: int | None = None
    updated_at: datetime | None = None
    last_updated_by: Writer | None = None


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """A task instance's entry; `expires_at` None: never, or nobody knows."""

    key: str
    value: str
    is_ref: bool = False
    updated_at: datetime | None = None
    expires_at: datetime | None = None


class Entries(ABC):
    """Raises `InvalidValue` for what cannot be stored or is not kept, `BackendFailed` where a user's backend failed."""

    keeps_history: ClassVar[bool]
    """Whether writers, history, versions, references, transactions and lists of keys are kept."""

    @abstractmethod
    async def get(self, connection: AsyncConnection, asset: AssetRef, key: str) -> str | None:
        """The stored JSON text, or None."""

    @abstractmethod
    async def entry(self, connection: AsyncConnection, asset: AssetRef, key: str) -> Entry:
        """One entry. Raises `NotFound`."""

    @abstractmethod
    async def page(self, connection: AsyncConnection, asset: AssetRef, window: Window) -> Page[Entry]:
        """Entries by key; of a backend that cannot be listed the watermarks only."""

    @abstractmethod
    async def keys(self, connection: AsyncConnection, asset: AssetRef) -> Sequence[str]:
        """The keys of all entries, in order. Raises `Conflict` when the backend cannot be listed."""

    @abstractmethod
    async def apply(self, connection: AsyncConnection, change: EntryChange) -> int:
        """Make one change; returns the entry's version, 0 for none. Raises `VersionConflict`: then nothing is changed."""

    @abstractmethod
    async def clear(
        self, connection: AsyncConnection, asset: AssetRef, *, writer: Writer | None, protected: frozenset[str]
    ) -> int:
        """Remove all entries but the `protected` ones (watermarks of configured watchers); returns how many, if known."""

    @abstractmethod
    async def copy(self, asset: AssetRef, key: str, value: str) -> None:
        """Copy a watermark, outside of any transaction, to where else values are kept; nowhere in the metadata database."""

    @abstractmethod
    async def transact(
        self,
        connection: AsyncConnection,
        asset: AssetRef,
        transaction: Transaction,
        *,
        task_instance_id: str,
        writer: Writer,
    ) -> Outcome:
        """Change several entries together, for a fenced try. Raises `VersionConflict`."""

    @abstractmethod
    async def task_entry(self, connection: AsyncConnection, task: TaskScope, key: str) -> TaskEntry:
        """One entry of a task instance. Raises `NotFound`, also when it is past its retention."""

    @abstractmethod
    async def task_page(self, connection: AsyncConnection, task: TaskScope, window: Window) -> Page[TaskEntry]:
        """A task instance's entries by key; none of a backend that cannot be listed."""

    @abstractmethod
    async def task_keys(self, connection: AsyncConnection, task: TaskScope) -> Sequence[str]:
        """The keys of all its entries, in order. Raises `Conflict` when the backend cannot be listed."""

    @abstractmethod
    async def set_task(
        self,
        connection: AsyncConnection,
        task: TaskScope,
        entry: TaskEntry,
        expires_at: datetime | NeverExpire | None,
    ) -> None:
        """Write an entry; `expires_at` None leaves the retention to the clean-up."""

    @abstractmethod
    async def change_task(self, connection: AsyncConnection, task: TaskScope, key: str, value: str) -> bool:
        """Give an entry another value and leave its expiry; False when there is none. Raises `Conflict`."""

    @abstractmethod
    async def delete_task(self, connection: AsyncConnection, task: TaskScope, key: str) -> None:
        """Remove one entry."""

    @abstractmethod
    async def clear_task(self, connection: AsyncConnection, task: TaskScope, *, all_map_indices: bool = False) -> None:
        """Remove all entries, also those of mapped siblings if asked."""


References = Mapping[str, str]
"""Keys and stored references of entries whose values are elsewhere."""
