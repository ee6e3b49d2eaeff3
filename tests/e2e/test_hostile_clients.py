"""Hostile clients disturb neither a job's client nor the watchers, and do not fill the daemon's memory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from asset_job.client import Client
from store.database import Database, sqlite_url
from store.runs import runs
from store.runs.tries import tries
from tests.effort import PATIENCE
from tests.service.queued_tasks import queued_task_of
from watcher.features.demo.daemon import Daemon
from watcher.serving import try_tokens
from watcher.shared.servers import free_port

pytestmark = pytest.mark.slow
SECRET = "s" * 32
MB = 1_000_000
HEAD = b"POST /execution/tries/claim HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
ENDLESS: dict[str, tuple[bytes, bytes, int]] = {
    # the first request, the request that is repeated, and how often
    "one endless header": (b"GET / HTTP/1.1\r\nX: ", b"a" * MB, 200),
    "200,000 headers": (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 20_000, 10),
    "a body of 1 GB": (HEAD + b"Content-Length: 1000000000\r\n\r\n", b" " * MB, 1000),
    "a body of 1 GB in chunks": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        b"f4240\r\n" + b" " * MB + b"\r\n",
        1000,
    ),
    "a body of 1 GB for a route of people": (
        HEAD.replace(b"/execution/tries/claim", b"/api/v2/assets/events") + b"Transfer-Encoding: chunked\r\n\r\n",
        b"f4240\r\n" + b" " * MB + b"\r\n",
        1000,
    ),
}
HALF = (b"", b"GET", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", HEAD + b"Content-Length: 100\r\n\r\n{")


class World:
    """The daemon with a witness, which is a watcher that polls a folder, and a job whose driver is starting."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.inbox = folder, folder / "inbox"
        self.inbox.mkdir()
        self.url = f"http://127.0.0.1:{free_port()}"
        self.daemon: Daemon
        self.files = 0

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def configure(self) -> Path:
        often = {"trigger": "file.new_files", "interval": "50ms", "min_age": "0s"}
        limits = {"header_timeout": "2s", "body_timeout": "4s", "idle_timeout": "4s"}
        document = {
            "version": 1,
            "settings": {"api": {"port": self.port, "secret": SECRET, "limits": limits}, "home": "home"},
            "assets": {"inbox": {"uri": f"file://{self.inbox}", "watchers": {"witness": often}}, "orders": {}},
            "jobs": {"load": {"outlets": ["orders"], "spark": {"application": "load.py"}}},
        }
        (self.folder / "load.py").touch()
        path = self.folder / "watchers.yaml"
        path.write_text(json.dumps(document))
        return path

    async def start_try(self, run_id: str) -> str:
        """Start a try as the dispatcher does. Return the token of its driver."""
        url = sqlite_url(self.folder / "home/watcher.db")
        async with Database.open(url) as database, database.transaction() as connection:
            await runs.create_run(connection, "load", run_id, "load", triggered_by="rest_api", conf="{}", note=None)
            task = await queued_task_of(connection, run_id)
            assert task is not None
            assert await tries.commit_intent(connection, task, home_id="home", tag=run_id, token_hash="")
        key = task.key
        return try_tokens.issue(SECRET.encode(), key, lifetime=timedelta(hours=1))

    async def a_job_does_its_work(self) -> None:
        """Claim, write and finish as a driver does, each on a connection of its own."""
        self.files += 1
        client = Client(self.url, await self.start_try(f"manual__{self.files}"))
        at_once = {"patience": PATIENCE}
        call = partial(anyio.to_thread.run_sync, abandon_on_cancel=True)
        claimed = await call(partial(client.call, "POST", "tries/claim", body={"nonce": "n"}, **at_once))
        assert claimed["dag_id"] == "load"
        query = {"name": "orders", "key": "rows"}
        path = "store/asset/by-name/value"
        await call(partial(client.call, "PUT", path, query=query, body={"value": self.files}, **at_once))
        assert await call(partial(client.call, "GET", path, query=query, **at_once)) == {"value": self.files}
        assert await call(partial(client.call, "POST", "tries/finish", body={"state": "success"}, **at_once)) == {}

    async def the_witness_sees(self) -> None:
        """Write a file and wait until it becomes an event."""
        before = await self.events()
        self.files += 1
        (self.inbox / f"{self.files}.txt").touch()
        with anyio.fail_after(PATIENCE):
            while await self.events() == before:
                await anyio.sleep(0.05)

    async def events(self) -> int:
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            lines = (await client.get(f"{self.url}/metrics")).text.splitlines()
        counted = [line for line in lines if line.startswith('watcher_events_total{asset="inbox"')]
        return int(float(counted[0].split()[-1])) if counted else 0

    def memory(self) -> int:
        """Return the daemon's resident memory in bytes."""
        assert self.daemon.process is not None
        pages = Path(f"/proc/{self.daemon.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    async def connect(self, number: int) -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port, local_host=f"127.0.0.{2 + number % 5}")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    words = ["--roles", "triggerer,api"]  # no process but the test starts tries
    world.daemon = Daemon(world.configure(), world.url, dict(os.environ), words)
    try:
        await world.daemon.start()
        yield world
    finally:
        with anyio.CancelScope(shield=True):
            await world.daemon.stop()


async def closed(stream: SocketStream) -> None:
    with anyio.fail_after(PATIENCE):
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return


async def drip(stream: SocketStream) -> None:
    """Send a byte of a header now and then, as long as the connection is open."""
    try:
        await stream.send(b"GET / HTTP/1.1\r\nX: ")
        while True:
            await stream.send(b"a")
            await anyio.sleep(0.5)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


async def test_hostile_clients_disturb_neither_jobs_nor_watchers(world: World) -> None:
    await world.a_job_does_its_work()
    await world.the_witness_sees()
    before = world.memory()
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        slow = [await stack.enter_async_context(await world.connect(number)) for number in range(500)]
        for stream in slow:
            tasks.start_soon(drip, stream)
        await world.a_job_does_its_work()
        await world.the_witness_sees()
        grown = [world.memory() - before]
        for stream in slow:
            await closed(stream)
        tasks.cancel_scope.cancel()
    for what, (first, again, times) in ENDLESS.items():
        async with await world.connect(0) as stream, anyio.create_task_group() as tasks:
            tasks.start_soon(without_end, stream, first, again, times)
            await world.a_job_does_its_work()
            await world.the_witness_sees()
            await closed(stream)
            grown.append(world.memory() - before)
            tasks.cancel_scope.cancel()
        sys.stdout.write(f"{what}: {grown[-1] / MB:.1f} MB more\n")
    for half in HALF:
        async with await world.connect(0) as stream:
            await stream.send(half)
            await closed(stream)
        async with await world.connect(0) as stream:
            await stream.send(half)
            await stream.send_eof()
            await closed(stream)
    await world.a_job_does_its_work()
    assert max(grown) < 50 * MB, grown


async def without_end(stream: SocketStream, first: bytes, again: bytes, times: int) -> None:
    try:
        await stream.send(first)
        for _ in range(times):
            await stream.send(again)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
