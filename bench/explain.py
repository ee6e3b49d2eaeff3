"""Measures how long PostgreSQL takes, and how much CPU, to find the events that name one file or row among 1,000,000 events.

Seven tenths are events of files of one asset, with one to twenty each, one of a hundred with a hundred; three tenths name rows
by ranges of ids. A tenth are events of before there were sketches, which the clean-up makes. The files and rows that are asked
for are in events chosen at random, in none, or have a content that is newer than all events.

`python bench/explain.py [--events 1000000] [--questions 20]`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import anyio
import asyncpg

from store.database import Database, migrations
from store.detection.sketches import microseconds, sketch_of
from store.features.explain import item_sketches
from store.features.explain.item_search import ItemName, NamingEvents, events_naming
from tests.service.store.words import apply, declared
from watcher.shared.servers import running_postgres

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
AT_ONCE: Final = 10_000
ROWS: Final = 100
"""The ids from one event of rows to the next."""
OLD: Final = 6
LARGE: Final = 5
COLUMNS: Final = (
    *("asset_id", "extra", "timestamp", "event_id", "trace_id", "source_map_index", "source_watcher"),
    *("sketch_low", "sketch_high", "sketch_bits", "sketch_more_bits"),
)


def written(number: int, place: int) -> str:
    """Return when a file was written."""
    return (BEGIN + timedelta(seconds=number, milliseconds=place)).isoformat().replace("+00:00", "Z")


def file(number: int, place: int) -> str:
    return f"orders/dt=2026-01-01/part-{number:07}-{place:02}.json"


def payload(number: int) -> dict[str, Any]:
    """Return what an event says; of three tenths of the events it is ranges of ids."""
    if number % 10 in {7, 8, 9}:
        return {"ranges": [[number * ROWS, number * ROWS + ROWS // 2]], "count": ROWS // 2}
    files = [
        {"key": file(number, place), "size": 120, "last_modified": written(number, place), "etag": f"{number:032x}"}
        for place in range(100 if number % 100 == LARGE else 1 + number * 7 % 20)
    ]
    return {"files": files, "count": len(files)}


def records(assets: dict[str, int], numbers: range) -> Iterator[tuple[Any, ...]]:
    for number in numbers:
        says = payload(number)
        name = "rows" if "ranges" in says else "files"
        sketch = (None,) * 4 if number % 10 == OLD else tuple(sketch_of(says))
        at = BEGIN + timedelta(seconds=number)
        yield assets[name], json.dumps(says), at, f"event{number}", f"{number:032x}", -1, name, *sketch


async def fill(url: str, assets: dict[str, int], events: int) -> None:
    connection = await asyncpg.connect(url)
    for begin in range(0, events, AT_ONCE):
        rows = records(assets, range(begin, min(begin + AT_ONCE, events)))
        await connection.copy_records_to_table("asset_event", records=rows, columns=COLUMNS)
    await connection.close()
    await vacuum(url)


async def vacuum(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("VACUUM ANALYZE asset_event")
    await connection.close()


async def make_sketches(database: Database) -> int:
    async with database.transaction() as connection:
        return await item_sketches.make(connection)


async def measure(
    what: str, ask: Callable[[int], Awaitable[NamingEvents]], numbers: list[int], named: int, server: int
) -> None:
    times, cpu = [], cpu_seconds(server)
    for number in numbers:
        began = time.perf_counter()
        naming = await ask(number)
        times.append(time.perf_counter() - began)
        assert len(naming.events) == named, (what, number, naming)
    middle, longest = statistics.median(times) * 1000, max(times) * 1000
    each = (cpu_seconds(server) - cpu) / len(numbers) * 1000
    print(f"{what:<40} {middle:6.0f} ms, at most {longest:6.0f} ms; CPU {each:6.0f} ms each", flush=True)


async def process_of_server(url: str) -> int:
    """Return the id of the server's first process, the parent of all that serve sessions."""
    connection = await asyncpg.connect(url)
    stat = Path(f"/proc/{connection.get_server_pid()}/stat").read_text()  # noqa: ASYNC240  a file of no disk
    await connection.close()
    return int(stat.rpartition(")")[2].split()[1])


def cpu_seconds(server: int) -> float:
    """Return the CPU of this process and of the server's, with their ended children."""
    ticks, family = 0, {os.getpid(), server}
    for stat in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parent.name)):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) in family or int(stat.parent.name) in family:
                family.add(int(stat.parent.name))
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


async def main(events: int, questions: int) -> None:
    with running_postgres() as server:
        async with Database.open(
            server.replace("postgresql:", "postgresql+asyncpg:"), idle_in_transaction_timeout=60
        ) as database:
            await migrations.upgrade(database)
            names = ("files", "rows")
            given = declared(assets={name: f"x://{name}" for name in names}, watchers={name: name for name in names})
            assets = dict((await apply(database, given)).asset_ids)
            began = time.perf_counter()
            await fill(server, assets, events)
            print(f"{events:,} events in {time.perf_counter() - began:.0f} s", flush=True)

            async def search(item: ItemName) -> NamingEvents:
                async with database.reading() as connection:
                    return await events_naming(connection, item)

            def of_file(key: str, changed: int | None) -> Awaitable[NamingEvents]:
                return search(ItemName(watcher="files", asset_ids=[assets["files"]], name=key, number=changed))

            def of_row(number: int) -> Awaitable[NamingEvents]:
                item = ItemName(watcher="rows", asset_ids=[assets["rows"]], name=number, number=number, in_ranges=True)
                return search(item)

            seed = random.Random(37)  # noqa: S311  the questions are the same in each run
            tens = [seed.randrange(events // 10) * 10 for _ in range(questions)]
            with_sketch = [ten + seed.randrange(OLD - 1) for ten in tens]
            now, process = microseconds(written(events * 2, 0)), await process_of_server(server)

            async def report(what: str, ask: Callable[[int], Awaitable[NamingEvents]], numbers: list[int]) -> None:
                await measure(what, ask, numbers, "no event" not in what, process)

            async def ask_all() -> None:
                await report(
                    "a file as it is now", lambda n: of_file(file(n, 0), microseconds(written(n, 0))), with_sketch
                )
                await report("a file that was changed since", lambda n: of_file(file(n, 0), now), with_sketch)
                await report("a file that is gone", lambda n: of_file(file(n, 0), None), with_sketch)
                large = [ten // 100 * 100 + LARGE for ten in tens]
                await report("a file of a large event, gone", lambda n: of_file(file(n, 60), None), large)
                await report("a file of an old event, gone", lambda n: of_file(file(n + OLD, 0), None), tens)
                await report("a file of no event", lambda n: of_file(f"orders/other-{n}.json", now), tens)
                await report("a row", lambda n: of_row((n + 7) * ROWS), tens)
                await report("a row of no event", lambda n: of_row((n + 7) * ROWS + ROWS - 1), tens)

            await ask_all()
            began, before, made = time.perf_counter(), cpu_seconds(process), 0
            while (some := await make_sketches(database)) > 0:
                made += some
            spent = f"{time.perf_counter() - began:.0f} s, CPU {cpu_seconds(process) - before:.0f} s"
            print(f"the clean-up made the sketches of {made:,} old events in {spent}", flush=True)
            await vacuum(server)
            await ask_all()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    anyio.run(main, options.events, options.questions)
