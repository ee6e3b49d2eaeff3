"""Transactions on an asset's entries, and the ordinals by which the daemon recognizes them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from asset_job.client import storable
from asset_job.errors import AssetJobError, InvalidValue


@dataclass(frozen=True, kw_only=True)
class Read:
    """An entry as a transaction read it."""

    version: int
    """0: there was no entry."""
    value: Any = None


class Transaction:
    """Changes of one asset's entries that take effect together when the block ends, or not at all.

    A key is read once: it gives the same value until the block ends. If somebody else has changed it by then,
    `StoreConflict` is raised. A key that the block itself has changed is read with the value that it will have.
    """

    def __init__(self, read: Callable[[str], Read]) -> None:
        self._read = read
        self._ended = False
        self._entries: dict[str, Read] = {}
        self.sets: dict[str, Any] = {}
        self.increments: dict[str, float] = {}
        self.deletes: set[str] = set()
        self.values: Mapping[str, Any] = {}
        """After the block, the values of the incremented keys; None for a key that a repeated transaction did not find."""

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default` if there is none. Raises `InvalidValue` for an incremented key without a number."""
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
        """Let the daemon add `n`, so that increments never conflict. A missing key counts as 0. Raises `InvalidValue`."""
        self._check()
        n = number(key, storable(key, n))
        if key in self.deletes:
            self[key] = n
        elif key in self.sets:
            self.sets[key] = number(key, self.sets[key]) + n
        else:
            self.increments[key] = self.increments.get(key, 0) + n

    def delete(self, key: str) -> None:
        """Delete the entry of a key, if there is one."""
        self._forget(key)
        self.deletes.add(key)

    __delitem__ = delete

    @property
    def reads(self) -> Mapping[str, int]:
        """The keys that were read from the store, each with the version that was read."""
        return {key: read.version for key, read in self._entries.items()}

    @property
    def changed(self) -> set[str]:
        """The keys that the block changes."""
        return {*self.sets, *self.increments, *self.deletes}

    def end(self) -> None:
        """Reject further changes, which would be lost."""
        self._ended = True

    def _forget(self, key: str) -> None:
        """Drop earlier changes of a key: only the last change counts."""
        self._check()
        self.sets.pop(key, None)
        self.increments.pop(key, None)
        self.deletes.discard(key)

    def _check(self) -> None:
        if self._ended:
            raise AssetJobError("the transaction has ended: use it inside its `with` block only")


class Ordinals:
    """Numbers the transactions of this run, per asset. By the number the daemon recognizes one that an earlier try made."""

    def __init__(self) -> None:
        self._ended: Counter[str] = Counter()
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def next(self, asset: str) -> Iterator[int]:
        """The next number of an asset. It is used up when the block ends without an exception.

        A failed transaction has changed nothing, so its number is used again.
        """
        with self._one_at_a_time:
            yield self._ended[asset]
            self._ended[asset] += 1


def number(key: str, value: Any) -> Any:
    """The value, if it is a number that can be incremented. Raises `InvalidValue` otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidValue(f"{key!r} cannot be incremented, because {value!r} is not a number: set a number first")
    return value
