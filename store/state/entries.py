"""Entries of assets and task instances, and changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from store.keys import AssetRef
from store.scopes import Writer


@dataclass(frozen=True, kw_only=True)
class KeyLock:
    """Proof that nobody else writes this key until the transaction ends. Only the code that took the lock makes one."""

    asset_id: int
    key: str


@dataclass(frozen=True, kw_only=True)
class EntryChange:
    """One entry to set, or to delete if `value` (a JSON text) is None.

    Without a `writer`, the recorded kind and ids of an entry stay. `expected_version` 0: the entry must not exist.
    Without a `lock`, the key is locked first.
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
    """An asset's entry; `value` is JSON text. A user's own backend keeps values only."""

    key: str
    value: str
    is_ref: bool = False
    version: int | None = None
    updated_at: datetime | None = None
    last_updated_by: Writer | None = None


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """A task instance's entry. `expires_at` None: it never expires, or the expiry is unknown."""

    key: str
    value: str
    is_ref: bool = False
    updated_at: datetime | None = None
    expires_at: datetime | None = None


References = Mapping[str, str]
"""Keys and stored references of entries whose values are elsewhere."""
