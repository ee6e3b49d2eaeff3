"""A daemon as a process, its sources, and what both sides hold. An item in no event is lost, one in two is repeated."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Engine, NullPool, create_engine, func, make_url, select

from store.database import sqlite_url
from store.database.schema import asset_event
from tests.effort import PATIENCE
from tests.torture.daemons import Daemons, until
from tests.torture.results import Tally
from tests.torture.rhythm import largest_gap
from tests.torture.sources import Sources
from watcher.features.demo.counting import Count, count


class Metadata:
    """The daemon's database, which the tests read beside it."""

    def __init__(self, url: str) -> None:
        self._engine = engine_beside(url)

    def items(self, watchers: Collection[str]) -> tuple[int, Mapping[str, Counter[Any]]]:
        """Return the number of events of these watchers, and how often each of them emitted each item."""
        items: dict[str, Counter[Any]] = {name: Counter() for name in watchers}
        watcher = asset_event.c.source_watcher
        statement = select(watcher, asset_event.c.extra).where(watcher.in_([*watchers]))
        with self._engine.connect() as connection:
            events = connection.execute(statement).all()
        for name, extra in events:
            items[name].update(items_of(json.loads(extra)))
        return len(events), items

    def events_after(self, number: int) -> list[tuple[int, str, Any]]:
        """Return id, watcher and payload of the events with higher ids. They may become visible in another order."""
        event = asset_event.c
        statement = select(event.id, event.source_watcher, event.extra).where(event.id > number).order_by(event.id)
        with self._engine.connect() as connection:
            return [(row.id, row.source_watcher, json.loads(row.extra)) for row in connection.execute(statement)]

    def moments(self, watchers: Collection[str]) -> Mapping[tuple[str, Any], float]:
        """Return when each item of these watchers was first emitted, in seconds since 1970."""
        moments: dict[tuple[str, Any], float] = {}
        watcher = asset_event.c.source_watcher
        statement = select(watcher, asset_event.c.timestamp, asset_event.c.extra).where(watcher.in_([*watchers]))
        with self._engine.connect() as connection:
            for name, at, extra in connection.execute(statement.order_by(asset_event.c.id)):
                for item in items_of(json.loads(extra)):
                    moments.setdefault((name, item), at.timestamp())
        return moments

    def time_span(self) -> timedelta:
        """Return the time from the earliest event to the latest, by the database's clock."""
        moment = asset_event.c.timestamp
        with self._engine.connect() as connection:
            earliest, latest = connection.execute(select(func.min(moment), func.max(moment))).one()
        return latest - earliest


def engine_beside(url: str) -> Engine:
    """Return a blocking engine for the daemon's database."""
    driver = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
    address = make_url(url)
    return create_engine(address.set(drivername=driver[address.get_backend_name()]), poolclass=NullPool)


def items_of(extra: Mapping[str, Any]) -> list[Any]:
    if "ranges" in extra:
        return [number for low, high in extra["ranges"] for number in range(low, high + 1)]
    return [file["path"] for file in extra["files"]] if "files" in extra else [extra["number"]]


class World:
    """One daemon, or several if a test starts more, with their sources. `database` None is SQLite in the home."""

    def __init__(
        self,
        folder: Path,
        dsn: str,
        database: str | None = None,
        *,
        behind: str | None = None,
        look_every: float = 0.5,
        hostile: Mapping[str, Any] | None = None,
        jobs: Mapping[str, Any] | None = None,
        home: Path | None = None,
        **settings: Any,
    ) -> None:
        """`dsn` leads to the database with the table; `behind` to the metadata database itself if `database` is a proxy."""
        self.folder = folder
        self.sources = Sources(folder, dsn, look_every)
        document = self.sources.document()
        if hostile:
            document["assets"]["hostile"] = {"watchers": hostile}
        if jobs:
            document["jobs"] = jobs
        self.daemons = Daemons(folder, document, database, home, **settings)
        self.metadata = Metadata(behind or database or str(sqlite_url(self.daemons.home / "home" / "watcher.db")))
        self._since = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.daemons.__exit__()

    def start(self) -> None:
        """Start the daemon and wait until it is ready."""
        self.daemons.start()
        until(self.daemons.is_ready)

    def settle(self) -> Tally:
        """Wait until nothing is lost any more, or until the time is over. Return the tally."""
        deadline = time.monotonic() + PATIENCE
        while (tally := self.tally()).lost and time.monotonic() < deadline:
            time.sleep(0.3)
        return tally

    def write_and_settle(self) -> Tally:
        """Write a last item and settle. Everything written before it has been read by then."""
        self.sources.write()
        return self.settle()

    def tally(self) -> Tally:
        contents = self.sources.contents()
        events, items = self.metadata.items(contents.keys())
        counts: dict[str, Count] = {name: count(written, items[name]) for name, written in contents.items()}
        return Tally(
            rows=counts["rows"].written,
            files=counts["files"].written,
            events=events,
            lost=sum(each.lost for each in counts.values()),
            repeated=sum(each.repeated for each in counts.values()),
        )

    def largest_gap(self) -> float:
        """Return the witness's largest gap since the previous call."""
        since, self._since = self._since, time.monotonic()
        return largest_gap(self.sources.looks, since)
