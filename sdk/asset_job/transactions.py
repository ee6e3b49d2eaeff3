"""What a transaction on an asset's entries collects, and how transactions are counted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from .client import storable
from .errors import AssetJobError, InvalidValue


@dataclass(frozen=True, kw_only=True)
class Read:
    """An entry as a transaction found it; version 0 = it was not there."""

    version: int
    value: Any = None


class Transaction:
    """Changes of one asset's entries that take effect together when the block ends, or not at all.

    What is read is read once: the same key gives the same value until the end, and a key that somebody else has changed
    by then raises `StoreConflict`. What the block itself has changed is read as it will be.
    """

    def __init__(self, read: Callable[[str], Read]) -> None:
        self._read = read
        self._ended = False
        self._entries: dict[str, Read] = {}
        self.sets: dict[str, Any] = {}
        self.increments: dict[str, float] = {}
        self.deletes: set[str] = set()
        self.values: Mapping[str, Any] = {}
        """After the block: what the incremented keys hold now; None where a repetition found none."""

    def get(self, key: str, default: Any = None) -> Any:
        self._check()
        if key in self.deletes:
            return default
        if key in self.sets:
            return deepcopy(self.sets[key])
        if key not in self._entries:
            self._entries[key] = self._read(key)
        read = self._entries[key]
        if key in self.increments:
            return number(key, read.value if read.version else 0) + self.increments[key]
        return deepcopy(read.value) if read.version else default

    def __setitem__(self, key: str, value: Any) -> None:
        value = storable(key, value)
        self._forget(key)
        self.sets[key] = value

    def increment(self, key: str, n: float = 1) -> None:
        """Computed by the daemon, so that it conflicts with nobody's; a key that is not there counts as 0."""
        self._check()
        n = number(key, storable(key, n))
        if key in self.deletes:
            self[key] = n
        elif key in self.sets:
            self.sets[key] = number(key, self.sets[key]) + n
        else:
            self.increments[key] = self.increments.get(key, 0) + n

    def delete(self, key: str) -> None:
        self._forget(key)
        self.deletes.add(key)

    __delitem__ = delete

    @property
    def reads(self) -> Mapping[str, int]:
        """Of each key that was read from the store: which version."""
        return {key: read.version for key, read in self._entries.items()}

    @property
    def changed(self) -> set[str]:
        return {*self.sets, *self.increments, *self.deletes}

    def end(self) -> None:
        """Refuse further changes, which would be lost."""
        self._ended = True

    def _forget(self, key: str) -> None:
        """Drop earlier changes of a key: the last one counts."""
        self._check()
        self.sets.pop(key, None)
        self.increments.pop(key, None)
        self.deletes.discard(key)

    def _check(self) -> None:
        if self._ended:
            raise AssetJobError("the transaction has ended: use it inside its `with` block only")


class Ordinals:
    """Numbers the transactions of this run, per asset: by its number the daemon recognizes one that an earlier try made."""

    def __init__(self) -> None:
        self._ended: Counter[str] = Counter()
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def next(self, asset: str) -> Iterator[int]:
        """Used up when the block ends without an exception: a failed transaction changed nothing and keeps its number."""
        with self._one_at_a_time:
            yield self._ended[asset]
            self._ended[asset] += 1


def number(key: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidValue(f"{key!r} cannot be incremented, because {value!r} is no number")
    return value
