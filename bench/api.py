"""Measures the cost of a tool's requests: the asset store, asset events and lists, with 1, 8 and 32 clients, on both databases.

All load comes from this process, by requests that cost it almost nothing. The daemon is a child process as in production. It
requires a token with each request and syncs each commit. CPU is what the daemon and PostgreSQL's processes used for a request.
The lists are requested again with a million events in the database, vacuumed as PostgreSQL itself does after a while.

`python bench/api.py [--seconds 4] [--only postgresql] [--events 1000000]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
from sqlalchemy import func, select, text
from store_writes import _stat as stat_of
from store_writes import cpu, written

from store.database import Database, migrations, schema, sqlite_url
from store.processes import tokens
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port, running_postgres

CLIENTS = (1, 8, 32)
CONFIGURATION = """
version: 1
settings: {{home: {home}, database: {{url: "{url}"}}, api: {{port: {port}}}, logs: {{json: true}}}}
assets: {{orders: {{}}, refunds: {{}}}}
jobs: {{load: {{schedule: {{any: [orders]}}, batch: {{debounce: 1h, max_wait: 10h}}, spark: {{application: job.py}}}}}}
"""
MILLION = """
    INSERT INTO asset_event (asset_id, extra, timestamp, trace_id, source_map_index)
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
    SELECT :asset_id, '{"rows": 42}', %s, %s, -1 FROM numbers
"""
DAYS_AGO = {
    "postgresql": ("now() - n * interval '1 second'", "md5(n::text)"),
    "sqlite": ("strftime('%Y-%m-%d %H:%M:%f000', 'now', '-' || n || ' seconds')", "lower(hex(randomblob(16)))"),
}
Send = Callable[[str, str, bytes], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The daemon and the processes beside it."""

    engine: str
    port: int
    token: str
    asset_id: int
    daemon: int
    postmaster: int

    async def report(
        self, what: str, method: str, path: str, clients: int, seconds: float, body: object = None
    ) -> float:
        """Print the cost of a request, and return the number of answers in a second."""
        sent = b"" if body is None else json.dumps(body).encode()
        async with self._connections(clients) as senders:

            async def ask(client: int, _number: int) -> None:
                await senders[client](method, path.replace("{client}", str(client)), sent)

            await written(ask, clients, 0.5)
            before, started = cpu(self.daemon, self.postmaster), time.perf_counter()
            times = sorted(await written(ask, clients, seconds))
            spent, used = time.perf_counter() - started, cpu(self.daemon, self.postmaster)
        each = {part: (used[part] - before[part]) * 1000 / len(times) for part in ("daemon", "database")}
        print(
            f"{self.engine:<10} {what:<26} {clients:>2} clients {len(times) / spent:7.0f}/s"
            f"   median {times[len(times) // 2] * 1000:6.1f} ms, 99 % {times[len(times) * 99 // 100] * 1000:6.1f} ms"
            f"   CPU ms each: {', '.join(f'{part} {value:.2f}' for part, value in each.items())}",
            flush=True,
        )
        return len(times) / spent

    @asynccontextmanager
    async def _connections(self, number: int) -> AsyncIterator[list[Send]]:
        opened = [await asyncio.open_connection("127.0.0.1", self.port) for _ in range(number)]
        try:
            yield [self._sender(reader, writer) for reader, writer in opened]
        finally:
            for _, writer in opened:
                writer.close()

    def _sender(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Send:
        async def send(method: str, path: str, body: bytes) -> None:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer[9:10] == b"2", answer
            length = answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length or 0))

        return send


async def measure(url: str, folder: Path, seconds: float, events: int) -> None:
    engine, port = url.partition("+")[0], free_port()
    (folder / "job.py").touch()
    configuration = folder / "watchers.yaml"
    configuration.write_text(CONFIGURATION.format(home=folder / "home", url=url, port=port))
    async with Database.open(url) as database:
        await migrations.upgrade(database)
        async with database.transaction() as connection:
            token = (await tokens.create(connection, "bench", "admin")).token
    async with running(configuration, engine, port, url, token) as measured:
        store, told = f"/api/v2/assets/{measured.asset_id}/store", {"asset_id": measured.asset_id, "extra": {"a": 1}}
        for clients in CLIENTS:
            await measured.report("PUT store", "PUT", f"{store}/k{{client}}", clients, seconds, {"value": {"rows": 42}})
            await measured.report("GET store", "GET", f"{store}/k0", clients, seconds)
            await measured.report("POST event", "POST", "/api/v2/assets/events", clients, seconds, told)
            await measured.report("GET assets", "GET", "/api/v2/assets", clients, seconds)
    async with Database.open(url) as database:
        await fill(database, engine, measured.asset_id, events)
    pages = {
        "": "first page",
        "&order_by=-timestamp": "last page",
        f"&offset={events // 2}": "middle",
        "&offset=0&limit=0": "count alone",
    }
    async with running(configuration, engine, port, url, token) as measured:
        for clients in CLIENTS:
            await measured.report("POST event, 10^6", "POST", "/api/v2/assets/events", clients, seconds, told)
        of_asset = f"&asset_id={measured.asset_id}"
        for query, what in {
            **pages,
            of_asset: "first of an asset",
            "&timestamp_gte=2020-01-01T00:00:00Z": "since 2020",
        }.items():
            await measured.report(f"GET events, {what}", "GET", f"/api/v2/assets/events?limit=50{query}", 1, seconds)


@asynccontextmanager
async def running(configuration: Path, engine: str, port: int, url: str, token: str) -> AsyncIterator[Measured]:
    async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
        assert daemon.process is not None
        postmaster = 0
        asset_id = await asset_of(port, token)
        if engine == "postgresql":
            async with Database.open(url) as database, database.reading() as connection:
                backend = (await connection.execute(select(func.pg_backend_pid()))).scalar_one()
                postmaster = int(stat_of(Path(f"/proc/{backend}"))[1])
        known: Mapping[str, int] = {"daemon": daemon.process.pid, "postmaster": postmaster}
        yield Measured(engine=engine, port=port, token=token, asset_id=asset_id, **known)


async def asset_of(port: int, token: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /api/v2/assets?name_pattern=orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return int(json.loads(answer.partition(b"\r\n\r\n")[2])["assets"][0]["id"])


async def fill(database: Database, engine: str, asset_id: int, events: int) -> None:
    async with database.transaction() as connection:
        await connection.execute(text(MILLION % DAYS_AGO[engine]), {"asset_id": asset_id, "count": events})
        await connection.execute(text(f"ANALYZE {schema.asset_event.name}"))
    if engine == "postgresql":
        async with database.statements() as connection:
            await connection.execute(text(f"VACUUM {schema.asset_event.name}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("postgresql", "sqlite"))
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores; others keep {os.getloadavg()[0]:.1f} of them busy")
    loop = {"use_uvloop": True}
    if options.only != "sqlite":
        with tempfile.TemporaryDirectory() as folder, running_postgres() as address:
            url = address.replace("postgresql://", "postgresql+asyncpg://")
            anyio.run(measure, url, Path(folder), options.seconds, options.events, backend_options=loop)
    if options.only != "postgresql":
        with tempfile.TemporaryDirectory() as folder:
            url = str(sqlite_url(Path(folder) / "watcher.db"))
            anyio.run(measure, url, Path(folder), options.seconds, options.events, backend_options=loop)


if __name__ == "__main__":
    main()
