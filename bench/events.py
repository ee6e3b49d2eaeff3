"""Measures what one event costs the daemon, detected by a watcher or posted to the API, with all the work that it causes.

A detection is a poll that yields one event, its commit, the log lines, and whatever the commit wakes. One job waits for
the asset and collects. The trigger is a plug-in that requests each event from this process over a loopback connection, and
requests the next only after the host's commit, so the events are counted exactly, one at a time. A POST comes from one client
with a token. The measured CPU is that of the daemon's process, user and system. fsync is on.

`--beside CHECKOUT` measures another checkout of the project in the same run, in turns, on the same server:

    git worktree add ../first <revision>; python bench/events.py --beside ../first [--only postgresql] [--rounds 10]

Tests count the statements of these transactions. Only time is measured here.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.abc
import asyncpg
import httpx

from watcher.shared.servers import free_port, running_postgres

HERE = Path(__file__).resolve().parent.parent
TICK = os.sysconf("SC_CLK_TCK")
EVENTS = 60
"""The number of events of each kind in a round. The queue is emptied between rounds."""
CONFIGURATION = """
version: 1
settings: {{home: home, database: {{url: {url}}}, api: {{port: {port}}}, plugins_dir: plugins}}
assets:
  orders: {{watchers: {{on_request: {{trigger: on_request.OnRequest, port: {source}}}}}}}
  told: {{}}
jobs:
  load: {{schedule: {{any: [orders, told]}}, batch: {{debounce: 1h, max_wait: 10h}}, spark: {{application: job.py}}}}
"""
PLUGIN = """
import anyio
from triggers.base import BaseEventTrigger, BaseOptions, Position, TriggerBatch, TriggerEvent

class Options(BaseOptions):
    port: int

class OnRequest(BaseEventTrigger[Options, None]):
    Options = Options

    def source_identity(self):
        return {}

    async def check(self):
        return []

    async def events(self, position):
        number = 0 if position is None else position.state["number"]
        yield TriggerBatch(position=Position(watermark=number, state={"number": number}))
        async with await anyio.connect_tcp("127.0.0.1", self.options.port) as source:
            while True:
                await source.send(b"?")
                await source.receive(1)
                number += 1
                event = TriggerEvent(count=1, watermark={"from": number - 1, "to": number}, payload={"number": number})
                yield TriggerBatch(events=[event], position=Position(watermark=number, state={"number": number}))
"""


@dataclass(kw_only=True)
class Side:
    """One checkout's daemon, and the seconds of CPU that each kind of event cost in each round."""

    name: str
    process: anyio.abc.Process
    source: anyio.abc.SocketStream
    client: httpx.AsyncClient
    asset_id: int
    empty_queue: Callable[[], Awaitable[None]]
    spent: dict[str, list[float]] = field(default_factory=lambda: {"detection": [], "POST": []})

    async def detect(self) -> None:
        await self.source.send(b"!")
        await self.source.receive(1)

    async def post(self) -> None:
        body = {"asset_id": self.asset_id, "extra": {"a": 1}}
        (await self.client.post("/api/v2/assets/events", json=body)).raise_for_status()

    async def measure(self, kind: str, one_event: Callable[[], Awaitable[None]]) -> None:
        before = cpu_seconds(self.process.pid)
        for _ in range(EVENTS):
            await one_event()
        self.spent[kind].append((cpu_seconds(self.process.pid) - before) / EVENTS)
        await self.empty_queue()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@asynccontextmanager
async def running(name: str, checkout: Path, folder: Path, database: str | None) -> AsyncIterator[Side]:
    """Run the checkout's daemon on a configuration in `folder`. `database` is PostgreSQL's address, None the embedded one."""
    python = checkout / ".venv/bin/python"
    command = [str(python) if python.exists() else sys.executable, "-m", "watcher"]
    (folder / "plugins").mkdir(parents=True)
    (folder / "plugins/on_request.py").write_text(PLUGIN)
    (folder / "job.py").touch()
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = free_port()
        url = "null" if database is None else database.replace("postgresql://", "postgresql+asyncpg://")
        configuration = folder / "watchers.yaml"
        source = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  this is not Django
        configuration.write_text(CONFIGURATION.format(url=url, port=port, source=source))
        for words in (["db", "upgrade"], ["token", "create", "--subject", "bench", "--role", "admin"]):
            done = await anyio.run_process([*command, *words, "-c", str(configuration)], cwd=checkout)
        token = done.stdout.split()[-1].decode()
        with (folder / "daemon.log").open("wb") as log:
            daemon = await anyio.open_process(
                [*command, "run", "-c", str(configuration)], cwd=checkout, stdout=log, stderr=log
            )
        try:
            async with AsyncExitStack() as stack:
                stream = await stack.enter_async_context(await accepted(listener))
                await stream.receive(1)
                client = await stack.enter_async_context(
                    httpx.AsyncClient(
                        base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"}, timeout=60
                    )
                )
                while (await client.get("/readyz")).status_code != 200:
                    await anyio.sleep(0.1)
                assets = (await client.get("/api/v2/assets", params={"name_pattern": "told"})).raise_for_status().json()

                async def empty_queue() -> None:
                    await client.delete("/api/v2/dags/load/assets/queuedEvents")

                yield Side(
                    name=name,
                    process=daemon,
                    source=stream,
                    client=client,
                    asset_id=assets["assets"][0]["id"],
                    empty_queue=empty_queue,
                )
        finally:
            with anyio.CancelScope(shield=True):
                daemon.send_signal(signal.SIGTERM)
                await daemon.wait()


async def accepted(listener: anyio.abc.Listener[anyio.abc.SocketStream]) -> anyio.abc.SocketStream:
    send, receive = anyio.create_memory_object_stream[anyio.abc.SocketStream](1)
    async with anyio.create_task_group() as tasks, send, receive:
        tasks.start_soon(listener.serve, send.send)
        with anyio.fail_after(120):
            stream = await receive.receive()
        tasks.cancel_scope.cancel()
    return stream


async def compare(engine: str, checkouts: dict[str, Path], server: str | None, rounds: int) -> None:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = []
        for name, checkout in checkouts.items():
            database = None
            if server is not None:
                database = server.rpartition("/")[0] + f"/{name.replace(' ', '_')}"
                connection = await asyncpg.connect(server)
                await connection.execute(f'CREATE DATABASE "{name.replace(" ", "_")}"')
                await connection.close()
            sides.append(await stack.enter_async_context(running(name, checkout, folder / name, database)))
        for number in range(rounds + 1):
            for side in sides:
                await side.measure("detection", side.detect)
                await side.measure("POST", side.post)
            if number == 0:  # the first round warms up
                for side in sides:
                    for figures in side.spent.values():
                        figures.clear()
        report(engine, sides)


def report(engine: str, sides: list[Side]) -> None:
    for kind in ("detection", "POST"):
        medians = [statistics.median(side.spent[kind]) * 1000 for side in sides]
        figures = ", ".join(
            f"{side.name} {median:5.2f} ms ({min(side.spent[kind]) * 1000:.2f} to {max(side.spent[kind]) * 1000:.2f})"
            for side, median in zip(sides, medians, strict=True)
        )
        ratio = f"   ratio {medians[0] / medians[1]:.2f}" if len(medians) > 1 else ""
        print(f"{engine:<10} {kind:<9} CPU of the daemon each: {figures}{ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--beside", type=Path, help="another checkout to measure in turns with this one")
    parser.add_argument("--only", choices=("postgresql", "sqlite"))
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    checkouts = {"this": HERE} | ({} if options.beside is None else {"beside": options.beside.resolve()})
    print(f"{os.cpu_count()} cores; others keep {os.getloadavg()[0]:.1f} of them busy")
    if options.only != "sqlite":
        with running_postgres() as server:
            anyio.run(compare, "postgresql", checkouts, server, options.rounds)
    if options.only != "postgresql":
        anyio.run(compare, "sqlite", checkouts, None, options.rounds)


if __name__ == "__main__":
    main()
