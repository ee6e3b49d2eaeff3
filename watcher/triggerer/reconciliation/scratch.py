"""A comparison's own file, in which both sides are sorted. Nothing of it remains, not even when the process is killed."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from store.fates import Fate
from triggers.inventories import ListedItem
from watcher.triggerer.reconciliation.comparison import NamedItem
from watcher.triggerer.reconciliation.segments import NamedRange

_TABLES: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA cache_size = -65536;
CREATE TABLE listed (name TEXT PRIMARY KEY, content TEXT, written INTEGER, state TEXT) WITHOUT ROWID;
CREATE TABLE named (name TEXT, event INTEGER, content TEXT, generation INTEGER, fate TEXT, PRIMARY KEY (name, event))
    WITHOUT ROWID;
CREATE TABLE ranges (low INTEGER, high INTEGER, event INTEGER, generation INTEGER, fate TEXT, PRIMARY KEY (low, event, high))
    WITHOUT ROWID;
"""
_FATES: Final[Mapping[str, Fate]] = {fate.value: fate for fate in Fate}


class ScratchFile:
    """Sorts by name. Each method blocks; one thread at a time calls them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add_listed(self, items: Iterable[ListedItem]) -> None:
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO listed VALUES (?, ?, ?, ?)", items)

    def add_named(self, items: Iterable[NamedItem]) -> None:
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO named VALUES (?, ?, ?, ?, ?)", items)

    def add_ranges(self, ranges: Iterable[NamedRange]) -> None:
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO ranges VALUES (?, ?, ?, ?, ?)", ranges)

    def ranges(self) -> Iterator[NamedRange]:
        for low, high, event, generation, fate in self._connection.execute("SELECT * FROM ranges ORDER BY low, event"):
            yield NamedRange(low, high, event, generation, _FATES[fate])

    def listed(self) -> Iterator[ListedItem]:
        return map(ListedItem._make, self._connection.execute("SELECT * FROM listed ORDER BY name"))

    def named(self) -> Iterator[NamedItem]:
        for name, event, content, generation, fate in self._connection.execute(
            "SELECT * FROM named ORDER BY name, event"
        ):
            yield NamedItem(name, event, content, generation, _FATES[fate])


@contextmanager
def scratch_file(folder: Path) -> Iterator[ScratchFile]:
    """Open a file in the folder for the block. It has no name once it is open. Raises `OSError`, `sqlite3.Error`."""
    handle, path = tempfile.mkstemp(prefix=".reconcile-", dir=folder)
    os.close(handle)
    try:
        connection = sqlite3.connect(path, check_same_thread=False)
        with closing(connection):
            connection.executescript(_TABLES)
            Path(path).unlink()
            yield ScratchFile(connection)
    finally:
        Path(path).unlink(missing_ok=True)
