"""Compares a poll of `postgres.new_rows` with `id > last`, the cheapest possible query, which loses rows.

Both query the same server in the same run, in turns, so that the ratio means something on a noisy machine. `--large` adds a
table of 10 million rows: the cost must not grow with the table.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from random import Random
from statistics import median, quantiles
from typing import Any

import anyio
import asyncpg
import structlog

from triggers.base import TriggerContext
from triggers.changes.options import ChangesOptions
from triggers.changes.trigger import PostgresChanges
from triggers.postgres.connection import PostgresClient, PostgresConnection
from triggers.postgres.new_rows import NewRows
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.server.notifications import install
from watcher.shared.servers import running_postgres

SIZES = [10_000, 1_000_000]
LARGE = 10_000_000
IDLE_POLLS = 500
FULL_POLLS = 60
TABLES = 1000
GAPS = [1, 100, 1_000, 10_000]
COMMITS = 40
TABLE = """
CREATE TABLE {name} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text NOT NULL,
                     updated_at timestamptz NOT NULL DEFAULT clock_timestamp())
"""
INSERT = "INSERT INTO {name} (note) SELECT md5(n::text) FROM generate_series(1, {rows}) n"
NEWEST = "SELECT max(id), max(updated_at) FROM {name}"
BY_ID = "SELECT id FROM {name} WHERE id > $1 ORDER BY id LIMIT 2000"
BY_TIME = "SELECT id, updated_at FROM {name} WHERE updated_at > $1 ORDER BY updated_at LIMIT 2000"

Poll = Callable[[], Awaitable[object]]


Options = NewRowsOptions | ChangesOptions


def options(table: str, mode: str = "id", **values: object) -> Options:
    model = ChangesOptions if mode == "log" else NewRowsOptions
    return model.model_validate({"table": f"public.{table}", "mode": mode, "batch": {"max_rows": 2000}, **values})


def trigger_of(watched: Options, client: PostgresClient, watcher: str) -> NewRows | PostgresChanges:
    context = TriggerContext(watcher=watcher)
    if isinstance(watched, ChangesOptions):
        return PostgresChanges(watched, client, context)
    return NewRows(watched, client, context)


class Poller:
    """One watcher, polled manually. Its batches count as committed."""

    def __init__(self, client: PostgresClient, watched: Options) -> None:
        self.trigger = trigger_of(watched, client, f"{watched.table} {watched.mode}")

    async def start(self) -> None:
        findings = await self.trigger.check()
        assert not [finding for finding in findings if finding.level == "error"], findings
        await self.poll()

    async def poll(self) -> int:
        async with aclosing(self.trigger.poll(None)) as batches:
            return sum([event.count async for batch in batches for event in batch.events])


class Naive:
    """A prepared statement on a connection of its own, and the last value it returned."""

    def __init__(self, statement: Any, last: Any) -> None:
        self._statement = statement
        self._last = last

    async def poll(self) -> int:
        rows = await self._statement.fetch(self._last)
        if rows:
            self._last = rows[-1][-1]
        return len(rows)


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def in_turns(polls: Mapping[str, Poll], times: int, before: Poll | None = None) -> dict[str, float]:
    """Return the median time of each, in milliseconds."""
    spent: dict[str, list[float]] = {name: [] for name in polls}
    for _ in range(times):
        if before is not None:
            await before()
        for name, poll in polls.items():
            started = time.perf_counter()
            await poll()
            spent[name].append((time.perf_counter() - started) * 1000)
    return {name: median(times) for name, times in spent.items()}


async def one_table(dsn: str, rows: int) -> None:
    name = f"t{rows}"
    async with AsyncExitStack() as stack:
        writer, reader, slow = [await stack.enter_async_context(connected(dsn)) for _ in range(3)]
        await writer.execute(TABLE.format(name=name))
        await writer.execute(INSERT.format(name=name, rows=rows))
        await writer.execute(f"CREATE INDEX ON {name} (updated_at)")
        await writer.execute(f"VACUUM ANALYZE {name}")
        client = await stack.enter_async_context(PostgresConnection.model_validate({"dsn": dsn}).open())
        last = await reader.fetchrow(NEWEST.format(name=name))
        by_id, by_time = Poller(client, options(name)), Poller(client, options(name, mode="updated_at"))
        await by_id.start()
        await by_time.start()
        polls = {
            "id > last": Naive(await reader.prepare(BY_ID.format(name=name)), last[0]).poll,
            "mode id": by_id.poll,
            "updated_at > last": Naive(await reader.prepare(BY_TIME.format(name=name)), last[1]).poll,
            "mode updated_at": by_time.poll,
        }

        async def insert() -> None:
            await writer.execute(INSERT.format(name=name, rows=1000))

        await in_turns(polls, 20)
        show(f"{rows:,} rows, idle poll", await in_turns(polls, IDLE_POLLS))
        show(f"{rows:,} rows, poll of 1,000 new rows", await in_turns(polls, FULL_POLLS, before=insert))
        await slow.execute("BEGIN;" + INSERT.format(name=name, rows=1))
        await writer.execute(INSERT.format(name=name, rows=1))
        await in_turns(polls, 20)
        show(f"{rows:,} rows, idle poll while one writer keeps a gap open", await in_turns(polls, IDLE_POLLS))
        await slow.execute("ROLLBACK")


def show(title: str, spent: Mapping[str, float]) -> None:
    print(f"\n{title}, median of each in turns")
    least = {"mode id": "id > last", "mode updated_at": "updated_at > last"}
    for name, milliseconds in spent.items():
        ratio = f"{milliseconds / spent[least[name]]:6.2f} x" if name in least else ""
        print(f"  {name:<18} {milliseconds:8.3f} ms {ratio}")


async def many_tables(dsn: str) -> None:
    """Poll each of a thousand watched tables once, over the four sessions of one connection: a tick."""
    names = [f"many_{number}" for number in range(TABLES)]
    async with connected(dsn) as writer, PostgresConnection.model_validate({"dsn": dsn}).open() as client:
        for name in names:
            await writer.execute(TABLE.format(name=name) + f"; {INSERT.format(name=name, rows=10)}")
        pollers = [Poller(client, options(name)) for name in names]
        for poller in pollers:
            await poller.start()

        async def tick() -> None:
            async with anyio.create_task_group() as tasks:
                for poller in pollers:
                    tasks.start_soon(poller.poll)

        await show_ticks(f"{TABLES:,} tables over 4 connections, nothing new", tick)
        async with connected(dsn) as slow:
            await slow.execute("BEGIN;" + ";".join(INSERT.format(name=name, rows=1) for name in names))
            await writer.execute(";".join(INSERT.format(name=name, rows=1) for name in names))
            await show_ticks(f"{TABLES:,} tables over 4 connections, each with a gap held open", tick)


async def show_ticks(title: str, tick: Poll) -> None:
    await tick()
    await tick()
    wall, own = [], []
    for _ in range(10):
        started, worked = time.perf_counter(), time.process_time()
        await tick()
        wall.append(time.perf_counter() - started)
        own.append(time.process_time() - worked)
    print(f"\n{title}\n  a tick takes {median(wall):.3f} s, of which {median(own):.3f} s are work of this process")


async def burned_ids(dsn: str) -> None:
    """Poll a table of which every second id was burned, as by ON CONFLICT DO NOTHING, while a writer keeps all these gaps open."""
    print(
        "\nburned ids, kept open by a writer: an idle poll, one with a new row, the first and the next ones after its end"
    )
    for gaps in GAPS:
        name = f"burned_{gaps}"
        async with AsyncExitStack() as stack:
            writer, slow = [await stack.enter_async_context(connected(dsn)) for _ in range(2)]
            await writer.execute(TABLE.format(name=name))
            client = await stack.enter_async_context(PostgresConnection.model_validate({"dsn": dsn}).open())
            poller = Poller(client, options(name))
            await poller.start()
            await slow.execute("BEGIN;" + INSERT.format(name=name, rows=1))
            burn = f"SELECT nextval(pg_get_serial_sequence('{name}', 'id'))"
            await writer.execute(
                f"DO $$BEGIN FOR burned IN 1..{gaps} LOOP PERFORM ({burn}); {INSERT.format(name=name, rows=1)}; END LOOP; END$$"
            )
            while await poller.poll():
                pass

            async def insert(
                statement: str = INSERT.format(name=name, rows=1), writer: asyncpg.Connection = writer
            ) -> None:
                await writer.execute(statement)

            idle = await in_turns({"": poller.poll}, 20)
            full = await in_turns({"": poller.poll}, 20, before=insert)
            await slow.execute("ROLLBACK")
            closing = await in_turns({"": poller.poll}, 1)
            idle_again = await in_turns({"": poller.poll}, 20)
            times = [each[""] for each in (idle, full, closing, idle_again)]
            print(f"  {gaps:>6,} gaps:" + "".join(f"{milliseconds:10.1f} ms" for milliseconds in times))


async def latency(dsn: str, *, listen: bool, mode: str = "id") -> None:
    """Measure the time from the answer to COMMIT until the event, at an interval of a second."""
    name = f"latency_{mode}_{listen}".lower()
    watched, random = options(name, listen=listen, mode=mode), Random(1)  # noqa: S311  not a secret
    async with connected(dsn) as writer:
        await writer.execute(TABLE.format(name=name))
        if isinstance(watched, ChangesOptions):
            await writer.execute(f'CREATE PUBLICATION "{watched.publication_name}" FOR TABLE {name}')
        connection = PostgresConnection.model_validate({"dsn": dsn})
        await install(connection, watched)
        spent: list[float] = []
        async with connection.open() as client:
            trigger = trigger_of(watched, client, name)
            await trigger.check()
            detected = anyio.Event()

            async def watch() -> None:
                nonlocal detected
                async with aclosing(trigger.events(None)) as batches:
                    async for batch in batches:
                        if batch.events:
                            detected.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch)
                await anyio.sleep(1.5)
                for _ in range(COMMITS):
                    await anyio.sleep(random.uniform(0.2, 1.3))
                    detected = anyio.Event()
                    await writer.execute(INSERT.format(name=name, rows=1))
                    committed = time.perf_counter()
                    await detected.wait()
                    spent.append((time.perf_counter() - committed) * 1000)
                tasks.cancel_scope.cancel()
    p50, p95 = median(spent), quantiles(spent, n=20)[-1]
    print(f"  mode {mode}, {'with' if listen else 'without'} listen: p50 {p50:8.1f} ms, p95 {p95:8.1f} ms")


async def log_beside_id(dsn: str) -> None:
    """Insert rows into two tables, of which one is watched in mode `log`, and compare the work of this process for each row."""
    async with connected(dsn) as writer, PostgresConnection.model_validate({"dsn": dsn}).open() as client:
        spent: dict[str, list[float]] = {"id": [], "log": []}
        pollers = {}
        for mode in spent:
            watched = options(f"in_{mode}", mode=mode)
            await writer.execute(TABLE.format(name=f"in_{mode}"))
            if isinstance(watched, ChangesOptions):
                await writer.execute(f'CREATE PUBLICATION "{watched.publication_name}" FOR TABLE in_log')
            pollers[mode] = Poller(client, watched)
            await pollers[mode].start()
        for _ in range(FULL_POLLS):
            for mode, poller in pollers.items():
                await writer.execute(INSERT.format(name=f"in_{mode}", rows=1000))
                worked, reported = time.process_time(), 0
                while reported < 1000:
                    reported += await poller.poll()
                spent[mode].append((time.process_time() - worked) / 1000)
        print("\nrows or changes per CPU second of this process, median of each in turns")
        for mode, seconds in spent.items():
            print(f"  mode {mode:<4} {1 / median(seconds):10,.0f}")


async def measure(dsn: str, sizes: list[int]) -> None:
    for rows in sizes:
        await one_table(dsn, rows)
    await many_tables(dsn)
    await burned_ids(dsn)
    print(f"\ncommit to event, {COMMITS} commits, interval 1 s")
    for listen in (False, True):
        await latency(dsn, listen=listen)
    await latency(dsn, listen=True, mode="log")
    await log_beside_id(dsn)


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    sizes = [*SIZES, LARGE] if "--large" in sys.argv else SIZES
    with running_postgres(max_locks_per_transaction=256, max_wal_size="4GB", wal_level="logical") as address:
        anyio.run(measure, address, sizes)


if __name__ == "__main__":
    main()
