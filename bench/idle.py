"""Measures the cost of idle watchers: many of each built-in trigger, on sources of their own and on one for all.

Each figure is of a daemon on a configuration of its own, with PostgreSQL as metadata database and as source on the same
cores, and S3 as a server in a process of its own that answers from memory. CPU is that of the daemon's process and of the
servers', in per cent of one core, over `--seconds` after everything has settled. The event loop's lag is as the daemon
measures it. Latency is from a commit, or a file's last byte, to the event in the metadata database, at that load.

    python bench/idle.py [--loads tables table …] [--seconds 20] [--profile]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import median

import anyio
import asyncpg
import httpx
from s3_in_memory import serve
from s3_poll import other_process
from triggerer import HERE, Daemon, cpu_seconds, daemon_of, family, megabytes, new_database, postmaster_of

from watcher.shared.servers import free_port, running_postgres

TABLE = (
    "CREATE TABLE {name} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text,"
    " updated_at timestamptz NOT NULL DEFAULT now()); CREATE INDEX ON {name} (updated_at);"
)
INSERT = "INSERT INTO {name} (note) VALUES ('new')"
COMMITS = 20
"""The number of the watcher whose latency is measured."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """A number of idle watchers. `{number}` in `options` is the watcher's own; `limit` is the target of the CPU."""

    title: str
    watchers: int
    options: str
    limit: str
    connection: str = ""
    tables: int = 0
    folders: int = 0
    prefixes: int = 0

    @property
    def events(self) -> int:
        """Return the number of events of one row, or of one file."""
        return self.watchers // max(self.tables, self.folders, self.prefixes)


PG = "trigger: postgres.new_rows, connection: source, "
FILE = "trigger: file.new_files, path: {folder}, start: all, "
S3 = "trigger: s3.new_files, connection: lake, bucket: landing, start: all, "
LOADS = {
    "tables": Load(
        title="1,000 tables at 1 s",
        watchers=1000,
        options=PG + "table: t{number}, interval: 1s",
        tables=1000,
        limit="15 %, 200 MB",
    ),
    "table": Load(
        title="one table, 1,000 at 1 s",
        watchers=1000,
        options=PG + "table: t0, interval: 1s",
        tables=1,
        limit="15 %, 200 MB",
    ),
    "updates": Load(
        title="1,000 tables at 1 s, updated_at",
        watchers=1000,
        options=PG + "table: t{number}, mode: updated_at, interval: 1s",
        tables=1000,
        limit="none",
    ),
    "folders": Load(
        title="1,000 folders at 2 s", watchers=1000, options=FILE + "interval: 2s", folders=1000, limit="15 %"
    ),
    "prefixes": Load(
        title="1,000 prefixes at 10 s",
        watchers=1000,
        options=S3 + "prefix: p{number}/, interval: 10s",
        prefixes=1000,
        limit="10 %",
    ),
    "prefix": Load(
        title="one prefix, 1,000 at 1 s",
        watchers=1000,
        options=S3 + "prefix: p0/, interval: 1s",
        prefixes=1,
        limit="15 %",
    ),
    "many tables": Load(
        title="10,000 tables at 10 s",
        watchers=10_000,
        options=PG + "table: t{number}, interval: 10s",
        tables=10_000,
        limit="300 MB, lag 50 ms",
    ),
    "many folders": Load(
        title="10,000 folders at 10 s",
        watchers=10_000,
        options=FILE + "interval: 10s",
        folders=10_000,
        limit="300 MB, lag 50 ms",
    ),
}


@dataclass(kw_only=True)
class Source:
    """The watched sources: a database, folders, and a bucket at `endpoint`."""

    server: str
    database: str
    endpoint: str
    folder: Path
    load: Load
    random: Random = field(default_factory=lambda: Random(1))  # noqa: S311  not a secret

    async def make(self) -> None:
        connection = await asyncpg.connect(self.database)
        for first in range(0, self.load.tables, 500):
            names = [f"t{number}" for number in range(first, min(first + 500, self.load.tables))]
            await connection.execute(
                "".join(TABLE.format(name=name) + INSERT.format(name=name) + ";" for name in names)
            )
        await connection.execute("VACUUM ANALYZE")
        await connection.close()
        for number in range(self.load.folders):
            (self.folder / f"{number}").mkdir(parents=True)
            (self.folder / f"{number}/there").touch()

    async def add(self) -> None:
        """Add something new for one watcher, or for all watchers of the only table."""
        if self.load.folders:
            number = self.random.randrange(self.load.folders)
            (self.folder / f"{number}/{time.monotonic_ns()}").touch()
        elif self.load.prefixes:
            number = self.random.randrange(self.load.prefixes)
            async with httpx.AsyncClient() as client:
                await client.put(f"{self.endpoint}/landing/p{number}/{time.monotonic_ns()}")
        else:
            connection = await asyncpg.connect(self.database)
            await connection.execute(INSERT.format(name=f"t{self.random.randrange(self.load.tables)}"))
            await connection.close()

    def configuration(self, metadata: str, port: int) -> str:
        url = metadata.replace("postgresql://", "postgresql+asyncpg://")
        lines = ["version: 1", f"settings: {{home: home, database: {{url: {url}}}, api: {{port: {port}, auth: none}},"]
        lines.append("  logs: {level: info}}")
        if "connection: source" in self.load.options:
            lines += ["connections:", f"  source: {{type: postgres, dsn: '{self.database}'}}"]
        if (
            "connection: lake" in self.load.options
        ):  # the S3 client takes 16 MB, which a daemon without it does not need
            keys = "region: r, access_key_id: a, secret_access_key: b"
            lines += ["connections:", f"  lake: {{type: s3, endpoint_url: '{self.endpoint}', {keys}}}"]
        lines.append("assets:")
        for number in range(self.load.watchers):
            options = self.load.options.format(number=number, folder=self.folder / f"{number}")
            lines.append(f"  a{number}: {{watchers: {{w{number}: {{{options}}}}}}}")
        return "\n".join(lines) + "\n"


async def lags(client: httpx.AsyncClient) -> dict[float, float]:
    """Return how often the event loop answered, by the upper bound of the seconds it took."""
    start = 'watcher_event_loop_lag_seconds_bucket{le="'
    lines = [
        line.removeprefix(start) for line in (await client.get("/metrics")).text.splitlines() if line.startswith(start)
    ]
    return {float(bound): float(count.removeprefix("} ")) for bound, count in (line.split('"') for line in lines)}


async def settled(client: httpx.AsyncClient, watchers: int) -> None:
    """Wait until all watchers run."""
    with anyio.fail_after(600):
        while True:
            metrics = (await client.get("/metrics")).text
            if metrics.count("watcher_lag_seconds{") >= watchers:
                return
            await anyio.sleep(2)


async def latency(daemon: Daemon, source: Source) -> list[float]:
    """Add something and return the seconds until all its events are stored."""
    assert daemon.server is not None
    spent = []
    metadata = await asyncpg.connect(daemon.server)
    for _ in range(COMMITS):
        before = await metadata.fetchval("SELECT count(*) FROM asset_event")
        await source.add()
        added = time.perf_counter()
        with anyio.fail_after(60):
            while await metadata.fetchval("SELECT count(*) FROM asset_event") < before + source.load.events:
                await anyio.sleep(0.005)
        spent.append(time.perf_counter() - added)
        await anyio.sleep(source.random.uniform(0.5, 1.5))
    await metadata.close()
    return sorted(spent)


async def measure(load: Load, server: str, endpoint: str, seconds: float, *, profile: bool) -> None:
    postmaster = await postmaster_of(server)
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        metadata, watched = await new_database(server, f"m{port}"), await new_database(server, f"w{port}")
        source = Source(server=server, database=watched, endpoint=endpoint, folder=folder / "watched", load=load)
        await source.make()
        (folder / "watchers.yaml").write_text(source.configuration(metadata, port))
        async with (
            daemon_of(HERE, folder, port, metadata) as daemon,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        ):
            await settled(client, load.watchers)
            await anyio.sleep(15)
            await show(load, daemon, source, postmaster, client, seconds, profile=profile)


async def show(
    load: Load,
    daemon: Daemon,
    source: Source,
    postmaster: int,
    client: httpx.AsyncClient,
    seconds: float,
    *,
    profile: bool,
) -> None:
    servers, answers = family(postmaster), await lags(client)
    began, before = time.monotonic(), [cpu_seconds([daemon.pid]), cpu_seconds(servers)]
    if profile:
        command = ["py-spy", "record", "-p", str(daemon.pid), "-d", str(int(seconds)), "-o", "idle.txt", "-f", "raw"]
        await anyio.run_process(command)
    else:
        await anyio.sleep(seconds)
    passed = time.monotonic() - began
    daemon_cpu, server_cpu = (
        (now - then) / passed
        for now, then in zip([cpu_seconds([daemon.pid]), cpu_seconds(servers)], before, strict=True)
    )
    after = await lags(client)
    within = {bound: after[bound] - answers[bound] for bound in after}
    print(
        f"{load.title:<32} daemon {daemon_cpu:6.1%} (limit {load.limit}), server {server_cpu:6.1%}, "
        f"{megabytes(daemon.pid):4.0f} MB, event loop within 50 ms: {within[0.05] / max(within[float('inf')], 1):.0%}",
        flush=True,
    )
    spent = await latency(daemon, source)
    print(f"{'':<32} latency p50 {median(spent):.2f} s, worst {spent[-1]:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loads", nargs="+", choices=tuple(LOADS), default=tuple(LOADS))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--profile", action="store_true", help="where the daemon's time goes, to idle.txt, by py-spy")
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores; others keep {os.getloadavg()[0]:.1f} of them busy")
    with running_postgres(max_connections=100) as server, other_process(serve) as port:
        endpoint = f"http://127.0.0.1:{port}"
        for name in options.loads:
            anyio.run(partial(measure, LOADS[name], server, endpoint, options.seconds, profile=options.profile))


if __name__ == "__main__":
    main()
