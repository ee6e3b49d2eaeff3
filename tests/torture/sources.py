"""The sources that the daemon watches here: a table, a folder and a number. Each item is known, and emitted exactly once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

TICK = 0.1
JITTER = 1.1
"""The largest factor of the pause between two polls."""
ROWS_PER_SECOND, FILES_PER_SECOND = 50, 20
"""The rates under full load."""
HELD = 0.4
"""The part of the rows whose transaction ends after later transactions have ended."""


class Sources:
    """The sources and their watchers. The witness runs in the daemon's process, the isolated counter in a process of its own."""

    def __init__(self, folder: Path, dsn: str, look_every: float) -> None:
        """`look_every` is the witness's interval in seconds."""
        self.dsn, self.look_every = dsn, look_every
        self.inbox, self._outbox = folder / "inbox", folder / "outbox"
        self.looks, self._number_file = folder / "looks", folder / "number"
        self._files, self._number = list[Path](), 0
        for path in (self.inbox, self._outbox):
            path.mkdir()
        self._count_on()
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE orders (id bigserial PRIMARY KEY, note text)")

    def document(self) -> dict[str, Any]:
        counter = {"trigger": "counter.CounterTrigger", "path": str(self._number_file)}
        counter["interval_ms"] = int(self.look_every * 1000)
        rows = {"trigger": "postgres.new_rows", "connection": "shop", "interval": "200ms", "start": "all"}
        files = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s", "start": "all"}
        return {
            "connections": {"shop": {"type": "postgres", "dsn": self.dsn}},
            "assets": {
                "orders": {"uri": "postgres://shop/shop/public/orders", "watchers": {"rows": rows}},
                "inbox": {"uri": f"file://{self.inbox}", "watchers": {"files": files}},
                "numbers": {
                    "watchers": {
                        "witness": {**counter, "isolation": "none", "looks": str(self.looks)},
                        "isolated": {**counter, "isolation": "process"},
                    }
                },
            },
        }

    def contents(self) -> Mapping[str, set[Any]]:
        """Return the items that each watcher must emit."""
        numbers = set(range(1, self._number + 1))
        with psycopg.connect(self.dsn) as connection:
            ids = {row[0] for row in connection.execute("SELECT id FROM orders")}
        return {
            "rows": ids,
            "files": {str(path) for path in self._files},
            "witness": numbers,
            "isolated": numbers,
        }

    def write(self) -> None:
        """Add something new to each source."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute("INSERT INTO orders DEFAULT VALUES")
        self._new_file()
        self._count_on()

    @contextmanager
    def load(self, seed: int, share: float = 1.0, keep: int | None = None) -> Iterator[None]:
        """Write 50 rows and 20 files a second, or a share of that, while the block runs. At most `keep` files stay."""
        over, failures = threading.Event(), list[BaseException]()

        def write() -> None:
            try:
                self._write_until(over, random.Random(seed), share, keep)
            except BaseException as error:  # noqa: BLE001  raised below
                failures.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        for failure in failures:
            raise failure

    def _write_until(self, over: threading.Event, dice: random.Random, share: float, keep: int | None) -> None:
        began, ticks, rows, files = time.monotonic(), 0, 0.0, 0.0
        with ExitStack() as stack:
            held = stack.enter_context(psycopg.connect(self.dsn))
            quick = stack.enter_context(psycopg.connect(self.dsn, autocommit=True))
            while not over.wait(began + ticks * TICK - time.monotonic()):
                ticks += 1
                rows, files = rows + ROWS_PER_SECOND * TICK * share, files + FILES_PER_SECOND * TICK * share
                (held.rollback if dice.random() < 0.1 else held.commit)()
                self._insert(held, int(rows * HELD))
                self._insert(quick, int(rows) - int(rows * HELD))
                for _ in range(int(files)):
                    self._new_file()
                    if keep is not None and len(self._files) > keep:
                        self._files[-keep - 1].unlink()
                rows, files = rows % 1, files % 1
                if ticks % 10 == 0:
                    self._count_on()

    @staticmethod
    def _insert(connection: psycopg.Connection, rows: int) -> None:
        connection.execute("INSERT INTO orders (note) SELECT 'load' FROM generate_series(1, %s)", [rows])

    def _new_file(self) -> None:
        made = self._outbox / f"{len(self._files)}.json"
        made.write_text(f'{{"order": {len(self._files)}}}')
        self._files.append(made.rename(self.inbox / made.name))

    def _count_on(self) -> None:
        """Write the next number so that a reader never sees half of it."""
        new = self._outbox / "number"
        new.write_text(str(self._number + 1))
        new.rename(self._number_file)
        self._number += 1
