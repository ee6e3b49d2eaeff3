"""Measures what scheduling costs with a thousand jobs: a look of the dispatcher, ticks, and a POST meanwhile.

- look: 10,000 queued runs of 1,000 jobs, of which 4 run and no other has room. One look, as after each try's end: the CPU of
  this process, which includes SQLite's.
- partitions: 1,000 partitions of one job wait for a second asset. One check of all that is due, when nothing is new and when
  one event is: the CPU of this process, which includes SQLite's.
- ticks: a tick of 1,000 jobs becomes due at once. Seconds until each has its run.
- replay: 100,000 events that were stored before the job was are replayed. Seconds until each is in a run, and of CPU of this
  process.
- POST: a daemon with 1,000 jobs, each of which waits for an asset of its own, and 10,000 queued runs. A stand-in for Spark
  runs four jobs at a time, half a second each. Meanwhile one client posts events, one after the other.

`--beside CHECKOUT` measures another checkout of the project in the same run:

    git worktree add ../first <revision>; python bench/scheduling.py --beside ../first [--only sqlite]

Tests count the statements and the parsed definitions of a look. Only time is measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
import psycopg
from sqlalchemy import func, select, update

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob
from store.database import Database, migrations, sqlite_url
from store.database.asset_events import NewEvent
from store.database.schema import database_time_in, job, run, run_asset_event
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.features.replay import replays
from store.features.replay.selections import ReplayRange
from store.keys import Batching, CronSchedule, JobDefinition
from store.runs import runs
from store.runs.tries.changed_items import NO_ITEM_HOOKS
from watcher.configuration.declarations import planners, steps
from watcher.host.leader_election import Leadership
from watcher.scheduling.planning.scheduler import Scheduler
from watcher.scheduling.tries.admission import AdmissionLimits
from watcher.scheduling.tries.run_starter import RunStarter
from watcher.scheduling.tries.submissions import JobToStart, Submissions
from watcher.shared.servers import free_port, running_postgres
from watcher.submit.base import Addresses, Needs, SparkApplication, Workspace
from watcher.submit.spark_submit import SparkSubmit

HERE = Path(__file__).resolve().parent.parent
JOBS, RUNS, PARTITIONS = 1_000, 10_000, 1_000
REPLAYED, AT_ONCE = 100_000, 1_000
LOOKS, POSTS = 30, 200
RUNNING = 4
STAND_IN = """#!{python}
import time
time.sleep(0.5)
"""


def definition(number: int, *, cron: bool = False) -> JobDefinition:
    return JobDefinition(
        schedule=f"asset_{number}",
        batch=Batching(),
        cron=CronSchedule(expression="* * * * *", timezone="UTC") if cron else None,
        application="/opt/jobs/load.py",
        options={"table": f"lake.shop.orders_{number}", "columns": ["id", "customer", "amount", "ordered_at"]},
    )


def declared(*, cron: bool = False) -> Declared:
    return Declared(
        hash="bench",
        assets=[DeclaredAsset(name=f"asset_{n}", uri=f"x-bench:{n}", group="", extra="{}") for n in range(JOBS)],
        watchers=[],
        jobs=[
            DeclaredJob(
                dag_id=f"job_{n}",
                task_id=f"job_{n}",
                definition=definition(n, cron=cron),
                paused=False,
                assets={"schedule": {f"asset_{n}"}},
            )
            for n in range(JOBS)
        ],
    )


async def queue_runs(database: Database) -> None:
    async with database.transaction() as connection:
        for number in range(RUNS):
            dag_id = f"job_{number * 7 % JOBS}"
            await runs.create_run(connection, dag_id, f"manual__{number}", dag_id, triggered_by="rest_api")


async def leading(database: Database) -> Leadership:
    lease = timedelta(minutes=10)
    owner = "55555555-5555-5555-5555-555555555555"
    leadership = Leadership(database=database, owner=owner, heartbeat=lease, lease=lease, on_taken=lambda: None)
    await leadership.campaign()
    return leadership


async def scheduler_of(database: Database) -> Scheduler:
    return Scheduler(database, await leading(database), on_runs=lambda: None, steps=steps(), planners=planners())


async def look(database: Database) -> float:
    """Return the milliseconds of CPU of one look."""
    async with database.transaction() as connection:
        await catalog_sync.apply(connection, declared(), database.dialect)
    await queue_runs(database)
    async with database.transaction() as connection:
        await connection.execute(update(run).where(run.c.id <= RUNNING).values(state="running"))
    application = SparkApplication(application="/opt/jobs/load.py", env={})
    here = Path("/nonexistent")
    workspace = Workspace(home=here, logs=here, python="", environment={}, driver_memory_mb=550, event_logs=False)
    starter = RunStarter(
        database=database,
        leadership=await leading(database),
        submissions=Submissions(
            jobs={f"job_{n}": JobToStart(application=application, connections={}) for n in range(JOBS)},
            submitters={"spark-submit": SparkSubmit(workspace)},
            addresses=Addresses(local="", public=None),
            issue_token=lambda _key, _trace: "",
        ),
        home_id="55555555-5555-5555-5555-555555555555",
        hooks=NO_HOOKS,
        item_hooks=NO_ITEM_HOOKS,
        on_end=lambda: None,
        limits=AdmissionLimits(parallelism=RUNNING, memory_mb=10_000, warm_memory_mb=0),
        lease=timedelta(seconds=15),
        running=lambda: [Needs(memory_mb=500)] * RUNNING,
        follow=lambda _open_try, _token: None,
    )
    for _ in range(3):
        await starter.look()
    before = time.process_time()
    for _ in range(LOOKS):
        await starter.look()
        async with database.reading() as connection:
            await runs.next_retry_in(connection)
    return (time.process_time() - before) / LOOKS * 1000


async def partitions(database: Database) -> tuple[float, float]:
    """Return the milliseconds of CPU of one check while partitions wait: when nothing is new, and when one event is."""
    one = replace(definition(0), schedule={"all": ["asset_0", "asset_1"]}, batch=Batching(mode="per_partition"))
    job_of_partitions = DeclaredJob(
        dag_id="job_0", task_id="job_0", definition=one, paused=False, assets={"schedule": {"asset_0", "asset_1"}}
    )
    async with database.transaction() as connection:
        applied = await catalog_sync.apply(connection, replace(declared(), jobs=[job_of_partitions]), database.dialect)
    asset_id = dict(applied.asset_ids)["asset_0"]

    async def add(numbers: Iterable[int]) -> None:
        keys = [f"day={number}" for number in numbers]
        new = [NewEvent(asset_id=asset_id, extra="{}", trace_id="0" * 32, partition_key=key) for key in keys]
        async with database.transaction() as connection:
            await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)

    await add(range(PARTITIONS))
    scheduler = await scheduler_of(database)
    for _ in range(3):
        await scheduler.check()
    spent = [0.0, 0.0]
    for number in range(LOOKS):
        for place in range(len(spent)):
            await add([number] * place)
            before = time.process_time()
            await scheduler.check()
            spent[place] += time.process_time() - before
    return spent[0] / LOOKS * 1000, spent[1] / LOOKS * 1000


async def ticks(database: Database) -> float:
    """Return the seconds until a tick of all jobs has become runs."""
    async with database.transaction() as connection:
        await catalog_sync.apply(connection, declared(cron=True), database.dialect)
    scheduler = await scheduler_of(database)
    await scheduler.check()
    async with database.transaction() as connection:
        await connection.execute(update(job).values(next_tick=database_time_in(-60.0)))
    before = time.monotonic()
    await scheduler.check()
    seconds = time.monotonic() - before
    async with database.reading() as connection:
        made = (await connection.execute(select(func.count()).select_from(run))).scalar_one()
    assert made == JOBS, made
    return seconds


async def replay(database: Database) -> tuple[float, float]:
    """Return the seconds until all stored events are in runs of a job that had none of them, and the CPU of this process."""
    async with database.transaction() as connection:
        applied = await catalog_sync.apply(connection, replace(declared(), jobs=[]), database.dialect)
    asset_id = dict(applied.asset_ids)["asset_0"]
    for _ in range(REPLAYED // AT_ONCE):
        new = [NewEvent(asset_id=asset_id, extra="{}", trace_id="0" * 32)] * AT_ONCE
        async with database.transaction() as connection:
            await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)
    async with database.transaction() as connection:
        await catalog_sync.apply(connection, replace(declared(), jobs=declared().jobs[:1]), database.dialect)
    scheduler = await scheduler_of(database)
    begun, spent = time.monotonic(), time.process_time()
    forever = ReplayRange(
        dag_id="job_0", since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2100, 1, 1, tzinfo=UTC)
    )
    async with database.transaction() as connection:
        _, counts = await replays.begin(connection, forever, NO_ITEM_HOOKS, actor="bench", expected_count=None)
    assert counts.queued == REPLAYED, counts
    await scheduler.check()
    took = time.monotonic() - begun, time.process_time() - spent
    async with database.reading() as connection:
        consumed = (await connection.execute(select(func.count()).select_from(run_asset_event))).scalar_one()
    assert consumed == REPLAYED, consumed
    return took


async def in_process(kind: str, url: str) -> None:
    async with Database.open(url) as database:
        await migrations.upgrade(database)
        if kind == "queue":
            await queue_runs(database)
            return
        measured = await {"look": look, "partitions": partitions, "ticks": ticks, "replay": replay}[kind](database)
    print(json.dumps(measured))


def child(checkout: Path, kind: str, url: str) -> Any:
    """Measure in a process of the checkout, whose modules are imported."""
    environment = {**os.environ, "PYTHONPATH": f"{checkout}:{checkout}/sdk"}
    line = [sys.executable, str(HERE / "bench/scheduling.py"), "--measure", kind, url]
    done = subprocess.run(line, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1]) if kind != "queue" else None


def post(checkout: Path, folder: Path, url: str | None) -> Mapping[str, float]:
    """Return the milliseconds of a POST while a daemon has much to do."""
    spark = folder / "spark/bin/spark-submit"
    spark.parent.mkdir(parents=True)
    spark.write_text(STAND_IN.format(python=sys.executable))
    spark.chmod(0o755)
    (folder / "job.py").touch()
    port = free_port()
    env = {"SPARK_HOME": str(spark.parents[1])}
    configuration = {
        "version": 1,
        "settings": {
            "home": str(folder / "home"),
            "api": {"port": port, "auth": "none"},
            "database": {"url": url},
            "scheduler": {"parallelism": RUNNING},
        },
        "assets": {f"asset_{n}": {"uri": f"x-bench:{n}"} for n in range(JOBS)},
        "jobs": {
            f"job_{n}": {"schedule": f"asset_{n}", "spark": {"application": "job.py", "env": env}} for n in range(JOBS)
        },
    }
    file = folder / "watchers.yaml"
    file.write_text(json.dumps(configuration))
    environment = {**os.environ, "PYTHONPATH": f"{checkout}:{checkout}/sdk"}
    line = [sys.executable, "-m", "watcher", "run", "--upgrade", "-c", str(file)]
    database = str(sqlite_url(folder / "home/watcher.db")) if url is None else url
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client, (folder / "log").open("wb") as log:
        for is_measured in (False, True):
            daemon = subprocess.Popen(line, cwd=checkout, env=environment, stdout=log, stderr=log)
            try:
                await_ready(client)
                if is_measured:
                    return posts(client)
            finally:
                daemon.send_signal(signal.SIGTERM)
                daemon.wait()
            child(checkout, "queue", database)
    raise AssertionError


def await_ready(client: httpx.Client) -> None:
    while True:
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)


def posts(client: httpx.Client) -> Mapping[str, float]:
    time.sleep(5)
    milliseconds = []
    for number in range(POSTS):
        begun = time.monotonic()
        client.post("/api/v2/assets/events", json={"asset_id": 1 + number * 13 % JOBS, "extra": {}}).raise_for_status()
        milliseconds.append((time.monotonic() - begun) * 1000)
        time.sleep(0.02)
    return {"p50": statistics.median(milliseconds), "p95": statistics.quantiles(milliseconds, n=20)[-1]}


def compare(engine: str, checkouts: Mapping[str, Path], server: str | None) -> None:
    for name, checkout in checkouts.items():
        with tempfile.TemporaryDirectory() as folder:

            def address(kind: str, folder: str = folder, name: str = name) -> str:
                if server is None:
                    return str(sqlite_url(Path(folder) / f"{kind}.db"))
                with psycopg.connect(server, autocommit=True) as connection:
                    connection.execute(f'CREATE DATABASE "{kind}_{name}"'.encode())
                return server.replace("postgresql://", "postgresql+asyncpg://").rpartition("/")[0] + f"/{kind}_{name}"

            print(
                f"{engine:<10} {name:<7} look   {child(checkout, 'look', address('look')):7.2f} ms of CPU", flush=True
            )
            resting, with_event = child(checkout, "partitions", address("partitions"))
            print(
                f"{engine:<10} {name:<7} partitions  {resting:.2f} ms of CPU, {with_event:.2f} ms with a new event",
                flush=True,
            )
            print(f"{engine:<10} {name:<7} ticks  {child(checkout, 'ticks', address('ticks')):7.2f} s", flush=True)
            seconds, cpu = child(checkout, "replay", address("replay"))
            print(f"{engine:<10} {name:<7} replay {seconds:7.2f} s, {cpu:.2f} s of CPU", flush=True)
            waited = post(checkout, Path(folder), None if server is None else address("post"))
            print(f"{engine:<10} {name:<7} POST   {waited['p50']:7.1f} ms p50, {waited['p95']:.1f} ms p95", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--beside", type=Path, help="another checkout to measure as well")
    parser.add_argument("--only", choices=("postgresql", "sqlite"))
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        anyio.run(in_process, *options.measure)
        return
    checkouts = {"this": HERE} | ({} if options.beside is None else {"beside": options.beside.resolve()})
    print(f"{os.cpu_count()} cores; others keep {os.getloadavg()[0]:.1f} of them busy")
    if options.only != "sqlite":
        with running_postgres() as server:
            compare("postgresql", checkouts, server)
    if options.only != "postgresql":
        compare("sqlite", checkouts, None)


if __name__ == "__main__":
    main()
