"""Tables of every kind, their writers, and watchers that count what they report, on servers whose history goes back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Final

import anyio
import psycopg

from tests.service.postgres.tiny_host import TinyHost
from triggers.errors import SourceChanged, SourceUnavailable

CREATED: Final = "created_at timestamptz NOT NULL DEFAULT now()"
SCHEMA: Final = f"""
CREATE TABLE append_only (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note bigint, {CREATED});
CREATE TABLE one_writer (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note bigint);
CREATE TABLE created (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note bigint, seen bigint, {CREATED});
CREATE TABLE timeless (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note bigint, seen bigint);
CREATE TABLE queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note bigint, {CREATED});
CREATE TABLE updated (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note bigint,
                      updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX ON updated (updated_at);
"""
WITHOUT_TIME: Final = "timeless"
"""The table whose rows are updated and have no time: what became of them cannot always be told.

A row that went back to a version before the reported one looks like another row with its id, so it is reported once more.
"""
HEALS: Final = ("append_only", "created", "updated")
"""The tables with a time as their witness, of which some rows stay as they were reported.

Without one, an id that is handed out again looks like an updated row, so `one_writer` is often blocked, and names the ids. In a
queue all rows may be deleted before the watcher looks.
"""
TABLES: Final[Mapping[str, Mapping[str, object]]] = {
    "append_only": {},
    "one_writer": {},
    "created": {},
    "timeless": {},
    "queue": {},
    "updated": {"mode": "updated_at", "column": "updated_at", "lateness": "0s"},
}
_notes = count(1)


class Writers:
    """Writers of all tables, each in a thread, until the server goes away or `stop` is called."""

    def __init__(self, dsn: str, seed: int, *, can_lose: bool) -> None:
        self._dsn = dsn
        self._can_lose = can_lose
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(Random(seed + number),)) for number in range(3)]
        self._threads.append(threading.Thread(target=self._run_alone))

    @contextmanager
    def writing(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self.stop()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, random: Random) -> None:
        with suppress(psycopg.OperationalError), psycopg.connect(self._dsn, autocommit=True) as session:
            while not self._stopped.wait(random.uniform(0, 0.005)):
                if self._can_lose:
                    session.execute(f"SET synchronous_commit = {random.choice(['on', 'off'])}")
                with (
                    suppress(psycopg.errors.DeadlockDetected),
                    session.transaction(force_rollback=random.random() < 0.1),
                ):
                    for _ in range(random.randint(1, 4)):
                        session.execute(*self._statement(random))

    def _statement(self, random: Random) -> tuple[str, tuple[int, ...]]:
        table, note = random.choice([name for name in TABLES if name != "one_writer"]), next(_notes)
        recent = f"id > (SELECT max(id) - {random.randint(1, 30)} FROM {table})"
        if random.random() < 0.6:
            return f"INSERT INTO {table} (note) VALUES (%s)", (note,)
        if table in {"created", "timeless"}:
            return f"UPDATE {table} SET seen = %s WHERE {recent} AND mod(id, 3) = 0", (note,)
        if table == "updated":
            return f"UPDATE updated SET note = %s, updated_at = now() WHERE {recent} AND mod(id, 3) = 0", (note,)
        if table == "queue":
            return f"DELETE FROM queue WHERE id < (SELECT max(id) - {random.randint(30, 150)} FROM queue)", ()
        return f"INSERT INTO {table} (note) SELECT %s * 1000000::bigint + n FROM generate_series(1, 5) n", (note,)

    def _run_alone(self) -> None:
        """Write with one INSERT a transaction, so that ids and transactions meet again where nobody else writes."""
        with suppress(psycopg.OperationalError), psycopg.connect(self._dsn, autocommit=True) as session:
            while not self._stopped.wait(0.01):
                session.execute("INSERT INTO one_writer (note) VALUES (%s)", (next(_notes),))


@dataclass
class HistoryCount:
    """What happened to one table's watcher."""

    blocked: Counter[str] = field(default_factory=Counter)
    """How often the watcher was blocked after each kind of change."""
    rows: int = 0
    lost: list[object] = field(default_factory=list)
    repeated: list[object] = field(default_factory=list)


class CountingWatcher:
    """One watcher, and what it has reported: a row of mode `id` by its id and note, a version of mode `updated_at` likewise.

    A version may be reported twice with another one of the same key between: then the server went back to it.
    """

    def __init__(self, table: str, host: TinyHost) -> None:
        self.table = table
        self.host = host
        self.count = HistoryCount()
        self._there: set[tuple[int, int]] = set()
        self._reported: list[tuple[int, int]] = []
        self._read = 0

    async def poll_until(self, stopped: anyio.Event) -> None:
        """Poll again and again, also after an error that may pass; `settle` meets the others again."""
        while not stopped.is_set():
            with suppress(SourceUnavailable):
                try:
                    if await self.host.poll():
                        await anyio.sleep(0.05)
                except SourceChanged:
                    return

    async def settle(self, dsn: str, kind: str) -> None:
        """Catch up with a server on which nobody writes, and count what is lost and repeated; rewind to now where it is blocked."""
        while True:
            try:
                await self.host.catch_up()
                await self.host.catch_up()
                break
            except SourceUnavailable:
                await anyio.sleep(0.02)
            except SourceChanged:
                self.count.blocked[kind] += 1
                self._take()
                await self.host.rewind("now")
                await self.host.catch_up()
                self._there.update(self._rows(dsn))
                break
        self._take()
        rows = self._rows(dsn)
        newest = dict(self._reported)
        known = self._there.union(self._reported if self.table != "updated" else newest.items())
        self.count.lost += sorted(rows - known)
        self._there |= rows - known
        self.count.rows = len(self._reported)

    def _take(self) -> None:
        """Take note of the events since the last time."""
        events: Sequence[Any] = self.host.committed.events[self._read :]
        self._read = len(self.host.committed.events)
        rows = [(row["id"], row["note"]) for event in events for row in event.payload["rows"]]
        if self.table == "updated":
            newest = dict(self._reported)
            for key, note in rows:
                if newest.get(key) == note:
                    self.count.repeated.append((key, note))
                newest[key] = note
        else:
            before = set(self._reported)
            self.count.repeated += [row for row in rows if row in before]
            self.count.repeated += [row for row, times in Counter(rows).items() if times > 1]
        self._reported += rows

    def _rows(self, dsn: str) -> set[tuple[int, int]]:
        with psycopg.connect(dsn) as session:
            return set(session.execute(f"SELECT id, note FROM {self.table}").fetchall())
