"""Measures the triggerer: events stored per second, detections committed per second, and the cost of idle watchers.

The triggers run in the daemon's process (`isolation: none`). Each figure is of a daemon on a configuration of its own,
with logs at info to files and fsync on; PostgreSQL, where it is the metadata database, runs on the same cores. CPU is that
of the daemon's process and of the server's: for each event or detection, and in per cent of one core.

- events from one watcher: batches of 100 events without pause; one job waits for the asset and collects;
- events from a hundred: the same, on an asset each;
- detections: a hundred watchers that yield one event a batch without pause, on an asset each, all jobs waiting;
- idle: a thousand `file.new_files` at 2 s on folders of their own.

`--beside CHECKOUT` measures another checkout of the project in the same run, in turns, on the same server:

    git worktree add ../first <revision>; python bench/triggerer.py --beside ../first [--only postgresql] [--seconds 15]
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import asyncpg
import httpx

from watcher.shared.servers import free_port, running_postgres

HERE = Path(__file__).resolve().parent.parent
TICK = os.sysconf("SC_CLK_TCK")
SETTLE = 5.0
"""Seconds between readiness and the first measured second."""
PLUGIN = """
from triggers.base import BaseEventTrigger, BaseOptions, Position, TriggerBatch, TriggerEvent

class Options(BaseOptions):
    events: int

class Ceaseless(BaseEventTrigger[Options, None]):
    Options = Options

    def source_identity(self):
        return {}

    async def check(self):
        return []

    async def events(self, position):
        number = 0 if position is None else position.state["number"]
        while True:
            begun, number = number, number + self.options.events
            events = [
                TriggerEvent(count=1, watermark={"from": one, "to": one + 1}, payload={"number": one})
                for one in range(begun, number)
            ]
            yield TriggerBatch(events=events, position=Position(watermark=number, state={"number": number}))
"""


@dataclass(frozen=True, kw_only=True)
class Load:
    """A number of watchers of one kind. `counts` is the table whose rows are counted, None if nothing should happen."""

    title: str
    watchers: int
    options: str
    counts: str | None

    def configuration(self, url: str, port: int, folder: Path, isolation: str) -> str:
        lines = ["version: 1", f"settings: {{home: home, database: {{url: {url}}}, api: {{port: {port}, auth: none}},"]
        lines += ["  plugins_dir: plugins, logs: {level: info}}", "assets:"]
        for number in range(self.watchers):
            options = self.options.format(folder=folder / f"watched/{number}") + isolation
            lines.append(f"  a{number}: {{watchers: {{w{number}: {{{options}}}}}}}")
        lines.append("jobs:")
        for number in range(self.watchers):
            batch = "batch: {debounce: 1h, max_wait: 10h}"
            lines.append(f"  j{number}: {{schedule: a{number}, {batch}, spark: {{application: job.py}}}}")
        return "\n".join(lines) + "\n"


CEASELESS = "trigger: ceaseless.Ceaseless, events: "
LOADS = {
    "one": Load(title="events, 1 watcher", watchers=1, options=CEASELESS + "100", counts="asset_event"),
    "hundred": Load(title="events, 100 watchers", watchers=100, options=CEASELESS + "100", counts="asset_event"),
    "detections": Load(title="detections, 100", watchers=100, options=CEASELESS + "1", counts="asset_event"),
    "idle": Load(
        title="idle, 1,000 files", watchers=1000, options="trigger: file.new_files, path: {folder}", counts=None
    ),
}


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """A running daemon. `server` is the metadata database's address, None for the embedded one."""

    pid: int
    port: int
    folder: Path
    server: str | None

    async def count(self, table: str) -> int:
        statement = f"SELECT count(*) FROM {table}"
        if self.server is None:
            with sqlite3.connect(self.folder / "home/watcher.db", timeout=60) as embedded:
                return int(embedded.execute(statement).fetchone()[0])
        connection = await asyncpg.connect(self.server)
        try:
            return int(await connection.fetchval(statement))
        finally:
            await connection.close()


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one measurement: rows per second, CPU of the daemon and of the server in cores, megabytes of the daemon.

    On a machine that others use, too, the CPU of a row says more than the rate.
    """

    rate: float
    daemon: float
    server: float
    megabytes: float

    def __str__(self) -> str:
        cores = f"daemon {self.daemon:6.1%}, server {self.server:6.1%} of a core, {self.megabytes:4.0f} MB"
        if not self.rate:
            return cores
        of_a_row = f"{self.daemon / self.rate * 1000:.3f} + {self.server / self.rate * 1000:.3f} ms CPU each"
        return f"{self.rate:8,.0f}/s  {of_a_row}; {cores}"


def fields_of(pid: int) -> list[str]:
    """Return the fields of `/proc/PID/stat`, from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the seconds of CPU of these processes, as far as they live."""
    ticks = 0
    for pid in pids:
        with suppress(FileNotFoundError):
            ticks += sum(map(int, fields_of(pid)[11:13]))
    return ticks / TICK


def megabytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024


def family(pid: int | None) -> list[int]:
    """Return a process and its children."""
    if pid is None:
        return []
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


async def measure(daemon: Daemon, load: Load, postmaster: int | None, seconds: float) -> Figures:
    await anyio.sleep(SETTLE)
    servers = family(postmaster)
    before = anyio.current_time(), cpu_seconds([daemon.pid]), cpu_seconds(servers)
    rows = await daemon.count(load.counts) if load.counts else 0
    await anyio.sleep(seconds)
    rows = (await daemon.count(load.counts) if load.counts else 0) - rows
    passed = anyio.current_time() - before[0]
    return Figures(
        rate=rows / passed,
        daemon=(cpu_seconds([daemon.pid]) - before[1]) / passed,
        server=(cpu_seconds(servers) - before[2]) / passed,
        megabytes=megabytes(daemon.pid),
    )


@asynccontextmanager
async def running(checkout: Path, folder: Path, load: Load, server: str | None) -> AsyncIterator[Daemon]:
    """Run the checkout's daemon on a configuration in `folder`, and yield it once it is ready."""
    (folder / "plugins").mkdir(parents=True)
    (folder / "plugins/ceaseless.py").write_text(PLUGIN)
    (folder / "job.py").touch()
    for number in range(load.watchers):
        (folder / f"watched/{number}").mkdir(parents=True)
    port = free_port()
    url = "null" if server is None else server.replace("postgresql://", "postgresql+asyncpg://")
    isolation = ", isolation: none" if (checkout / "watcher/features/isolation").exists() else ""
    (folder / "watchers.yaml").write_text(load.configuration(url, port, folder, isolation))
    async with daemon_of(checkout, folder, port, server) as daemon:
        yield daemon


@asynccontextmanager
async def daemon_of(checkout: Path, folder: Path, port: int, server: str | None) -> AsyncIterator[Daemon]:
    """Run the checkout's daemon on `watchers.yaml` in `folder`, with the same port and server, and yield it once it is ready."""
    python, configuration = checkout / ".venv/bin/python", folder / "watchers.yaml"
    command = [str(python) if python.exists() else sys.executable, "-m", "watcher"]
    await anyio.run_process([*command, "db", "upgrade", "-c", str(configuration)], cwd=checkout)
    with (folder / "daemon.log").open("wb") as log:
        daemon = await anyio.open_process(
            [*command, "run", "-c", str(configuration)], cwd=checkout, stdout=log, stderr=log
        )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            await until_ready(client)
        yield Daemon(pid=daemon.pid, port=port, folder=folder, server=server)
    finally:
        with anyio.CancelScope(shield=True):
            daemon.send_signal(signal.SIGTERM)
            with anyio.move_on_after(60):
                await daemon.wait()
            if daemon.returncode is None:
                daemon.kill()
                await daemon.wait()


async def until_ready(client: httpx.AsyncClient) -> None:
    with anyio.fail_after(600):
        while True:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            await anyio.sleep(0.2)


async def new_database(server: str, name: str) -> str:
    connection = await asyncpg.connect(server)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    return f"{server.rpartition('/')[0]}/{name}"


async def postmaster_of(server: str) -> int:
    connection = await asyncpg.connect(server)
    backend = await connection.fetchval("SELECT pg_backend_pid()")
    parent = int(fields_of(backend)[1])
    await connection.close()
    return parent


async def compare(
    engine: str, checkouts: Mapping[str, Path], loads: Sequence[str], server: str | None, seconds: float
) -> None:
    postmaster = None if server is None else await postmaster_of(server)
    for name in loads:
        for side, checkout in checkouts.items():
            with tempfile.TemporaryDirectory() as folder:
                database = None if server is None else await new_database(server, f"{name}_{side}")
                async with running(checkout, Path(folder), LOADS[name], database) as daemon:
                    figures = await measure(daemon, LOADS[name], postmaster, seconds)
            print(f"{engine:<10} {LOADS[name].title:<20} {side:<6} {figures}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--beside", type=Path, help="another checkout to measure in turns with this one")
    parser.add_argument("--only", choices=("postgresql", "sqlite"))
    parser.add_argument("--loads", nargs="+", choices=tuple(LOADS), default=tuple(LOADS))
    parser.add_argument("--seconds", type=float, default=15)
    options = parser.parse_args()
    checkouts = {"this": HERE} | ({} if options.beside is None else {"beside": options.beside.resolve()})
    print(f"{os.cpu_count()} cores; others keep {os.getloadavg()[0]:.1f} of them busy")
    if options.only != "sqlite":
        with running_postgres() as server:
            anyio.run(compare, "postgresql", checkouts, options.loads, server, options.seconds)
    if options.only != "postgresql":
        anyio.run(compare, "sqlite", checkouts, options.loads, None, options.seconds)


if __name__ == "__main__":
    main()
