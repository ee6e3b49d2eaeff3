"""Measures the cost of a job's write through the backend and through the daemon's Execution API, on both databases.

One process makes all the load, with 1 and with 16 clients, each with a task instance and a key of its own; the daemon is a
child process as in production; fsync is on. CPU is what the three parties used while writes went on: this process, the daemon,
and PostgreSQL's processes (SQLite works inside the process that writes).

`python bench/store_writes.py [seconds per measurement]`
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import anyio
from sqlalchemy import func, insert, select

from store.base import AssetScope, AssetStoreWriterKind, Writer
from store.database import Database, migrations, schema, sqlite_url
from store.keys import TaskInstanceId, TryRef
from store.metastore import MetastoreStoreBackend
from watcher.features.demo.daemon import running_daemon
from watcher.serving import try_tokens
from watcher.shared.servers import free_port, running_postgres

CLIENTS = (1, 16)
SECRET = "a secret of the bench, of at least 32 bytes"  # noqa: S105  used only here
CONFIGURATION = """
version: 1
settings: {{home: {home}, database: {{url: "{url}"}}, api: {{auth: none, port: {port}, secret: {secret}}}, logs: {{json: true}}}}
assets: {{orders: {{}}}}
jobs: {{load: {{outlets: [orders], spark: {{application: job.py}}}}}}
"""
Write = Callable[[int, int], Awaitable[None]]
"""A write, given the number of the client and of the write."""
TICK = os.sysconf("SC_CLK_TCK")


async def measure(url: str, folder: Path, seconds: float) -> None:
    name = url.partition("+")[0]
    port = free_port()
    (folder / "job.py").touch()
    configuration = folder / "watchers.yaml"
    configuration.write_text(CONFIGURATION.format(home=folder / "home", url=url, port=port, secret=json.dumps(SECRET)))
    async with Database.open(url, pool_size=16) as database:
        await migrations.upgrade(database)
        await a_home(database)
    async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
        assert daemon.process is not None
        async with Database.open(url, pool_size=16) as database:
            tries = [await a_try(database, number) for number in range(max(CLIENTS))]
            async with database.reading() as connection:
                asset_id = (await connection.execute(select(schema.asset.c.id))).scalar_one()
                postmaster = 0
                if name == "postgresql":
                    backend_id = (await connection.execute(select(func.pg_backend_pid()))).scalar_one()
                    postmaster = int(_stat(Path(f"/proc/{backend_id}"))[1])
            scope, backend = AssetScope(asset_id=asset_id), MetastoreStoreBackend(database)

            async def write(client: int, number: int) -> None:
                writer = Writer(
                    kind=AssetStoreWriterKind.TASK,
                    write_id=uuid.uuid4().hex,
                    **{key: tries[client][key] for key in ("dag_id", "run_id", "task_id")},
                    map_index=-1,
                    try_number=1,
                )
                await backend.aset_asset_store(scope, f"backend {client}", json.dumps(number), writer=writer)

            if name == "postgresql":  # an embedded database belongs to the daemon alone
                for clients in CLIENTS:
                    await report(f"{name}, backend", write, clients, seconds, daemon.process.pid, postmaster)
        for what, keyed in (("API", False), ("API, keyed", True)):
            async with api_writes(port, tries, keyed=keyed) as put:
                for clients in CLIENTS:
                    await report(f"{name}, {what}", put, clients, seconds, daemon.process.pid, postmaster)
    if name != "postgresql":
        async with Database.open(url) as database:
            backend = MetastoreStoreBackend(database)
            for clients in CLIENTS:
                await report(f"{name}, backend", write, clients, seconds, 0, 0)


@asynccontextmanager
async def api_writes(port: int, tries: list[Mapping[str, str]], *, keyed: bool) -> AsyncIterator[Write]:
    """Measure writes through the API. `keyed`: each has an Idempotency-Key, as the SDK sends it."""
    address = f"http://127.0.0.1:{port}/execution/store/asset/by-name/value"
    lifetime = timedelta(hours=1)
    headers = [
        {
            "Authorization": f"Bearer {try_tokens.issue(SECRET.encode(), TryRef(task_instance_id=TaskInstanceId(one['id']), try_number=1), lifetime=lifetime)}"
        }
        for one in tries
    ]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client_session:

        async def put(client: int, number: int) -> None:
            query = {"name": "orders", "key": f"api {client}"}
            sent = {**headers[client], "Idempotency-Key": uuid.uuid4().hex} if keyed else headers[client]
            async with client_session.put(address, params=query, headers=sent, json={"value": number}) as answer:
                assert answer.status == 204, await answer.text()

        yield put


async def a_home(database: Database) -> None:
    """Make the home of another dispatcher, alive for a day, whose tries the daemon does not touch."""
    now = datetime.now(UTC)
    lives = {"heartbeat_at": now, "expires_at": now + timedelta(days=1)}
    async with database.transaction() as connection:
        await connection.execute(insert(schema.dispatcher).values(home_id="bench", host="bench", pid=0, **lives))


async def a_try(database: Database, number: int) -> Mapping[str, str]:
    now, names = datetime.now(UTC), {"dag_id": "load", "run_id": f"bench_{number}"}
    task = {"id": str(uuid.uuid4()), "task_id": "job", **names}
    made = {
        schema.run: {
            **names,
            "run_type": "manual",
            "triggered_by": "cli",
            "state": "running",
            "trace_id": "0",
            "run_after": now,
            "queued_at": now,
        },
        schema.task_instance: {**task, "try_number": 1, "state": "running"},
        schema.task_try: {
            "task_instance_id": task["id"],
            "try_number": 1,
            "home_id": "bench",
            "tag": task["id"],
            "token_hash": "",
            "nonce": "n",
            "intent_at": now,
        },
    }
    async with database.transaction() as connection:
        for table, values in made.items():
            await connection.execute(insert(table).values(**values))
    return task


async def report(what: str, write: Write, clients: int, seconds: float, daemon: int, postmaster: int) -> None:
    await written(write, clients, 1.0)
    before, started = cpu(daemon, postmaster), time.perf_counter()
    times = await written(write, clients, seconds)
    spent, used = time.perf_counter() - started, cpu(daemon, postmaster)
    each = {part: (used[part] - before[part]) * 1000 / len(times) for part in used}
    times.sort()
    print(
        f"{what:<24} {clients:>2} clients {len(times) / spent:7.0f}/s"
        f"   median {times[len(times) // 2] * 1000:5.1f} ms, 99 % {times[len(times) * 99 // 100] * 1000:5.1f} ms"
        f"   CPU ms each: {', '.join(f'{part} {value:.2f}' for part, value in each.items())}",
        flush=True,
    )


async def written(write: Write, clients: int, seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def client(number: int) -> None:
        count = 0
        while (before := time.perf_counter()) < end:
            await write(number, count)
            count += 1
            times.append(time.perf_counter() - before)

    async with anyio.create_task_group() as tasks:
        for number in range(clients):
            tasks.start_soon(client, number)
    return times


def cpu(daemon: int, postmaster: int) -> Mapping[str, float]:
    """Return the seconds of CPU used so far: by this process, the daemon (with threads), and all processes of PostgreSQL."""
    times = os.times()
    return {
        "client": times.user + times.system,
        "daemon": _used(Path(f"/proc/{daemon}")) if daemon else 0.0,
        "database": sum(_used(entry) for entry in _children(postmaster)) if postmaster else 0.0,
    }


def _children(parent: int) -> list[Path]:
    processes = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [entry for entry in processes if _stat(entry)[1:2] == [str(parent)]]


def _used(process: Path) -> float:
    fields = _stat(process)
    return (int(fields[11]) + int(fields[12])) / TICK if fields else 0.0


def _stat(process: Path) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the name: state, parent, …; none once the process is gone."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def main() -> None:
    seconds = float(sys.argv[1]) if sys.argv[1:] else 8.0
    print(f"{os.cpu_count()} cores; others keep {os.getloadavg()[0]:.1f} of them busy")
    loop = {"use_uvloop": True}
    with tempfile.TemporaryDirectory() as folder, running_postgres() as address:
        url = address.replace("postgresql://", "postgresql+asyncpg://")
        anyio.run(measure, url, Path(folder), seconds, backend_options=loop)
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, str(sqlite_url(Path(folder) / "watcher.db")), Path(folder), seconds, backend_options=loop)


if __name__ == "__main__":
    main()
