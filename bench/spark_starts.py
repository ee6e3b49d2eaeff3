"""Measures the time from a closed file to the end of its count by Spark: cold, with `profile: small`, and warm, in one run.

Each round puts one file before each of four jobs of one daemon, one after the other; a warm driver is ready before its
file comes. That of the fourth, `hinted`, is warm too, and its file is named by a row whose transaction notifies. Then bursts of
five files for a job with `warm: 2`. CPU is what the kernel counts for all processes of a try; for a warm one what its driver
took before the hand-over is added. The usual number is `--runs 5`; 50 gives steadier figures.
The target: warm, the slowest of twenty at most 1.5 s with an interval of 1 s, 0.7 s with hints, and no more CPU than `small`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from string import Template

import anyio
import asyncpg
import httpx

from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port, running_postgres
from watcher.submit.local.processes import TAG_VARIABLE

BARS = {"warm": 1.5, "hinted": 0.7}
INTERVAL = 1
BURSTS, BURST = 3, 5
IDLE_FOR = 20.0
LONGEST = 600.0
JOB = """\
import sys, time
from asset_job import run

with run() as r:
    [file] = r.triggering_asset_events.files() or r.triggering_asset_events.rows()
    if "id" in file:
        frame = r.spark.read.csv(file["path"], schema="id long", header=True)
    else:
        frame = r.read([file], format="csv", schema="id long", header=True)
    assert frame.count() == 3
    open(f"{sys.argv[1]}/{file['path'].rpartition('/')[2]}", "w").write(str(time.time()))
"""
HEAD = Template("""\
version: 1
settings:
  home: $home
  api: {port: $port, auth: none}
  scheduler: {parallelism: 6, memory_mb: 8000, warm_memory_mb: 2000}
connections:
  shop: {type: postgres, dsn: '$dsn'}
assets:
  in_hinted:
    watchers:
      rows: {trigger: postgres.new_rows, connection: shop, table: files, interval: 1s, listen: true, columns: [id, path], start: all}
""")
ASSET = Template("""\
  in_$name:
    uri: file://$folder/$name
    watchers:
      files_$name: {trigger: file.new_files, match: "*.csv", interval: ${interval}s, min_age: 0s, start: all,
        batch: {max_files: 1}}
""")
TABLE = "CREATE TABLE files (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, path text)"
INSERT = "INSERT INTO files (path) VALUES ($1)"
NOTIFY = "SELECT pg_notify('asset_watcher', 'files'::regclass::oid::text)"
JOB_ENTRY = Template("""\
  $name:
    schedule: in_$name
    max_active_runs: 5
    batch: {mode: each}
    spark: {application: $folder/count.py, master: "local[*]", args: ["$folder/out"], $spark}
""")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--runs", type=int, default=5)
    runs = words.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "count.py").write_text(JOB)
        (folder / "out").mkdir()
        with running_postgres() as dsn:
            anyio.run(one_by_one, folder, runs, dsn)
            anyio.run(bursts, folder, dsn)


def configure(folder: Path, port: int, home: str, dsn: str, **jobs: str) -> Path:
    text = HEAD.substitute(home=home, port=port, dsn=dsn)
    for name in jobs:
        (folder / name).mkdir()
        text += "" if name == "hinted" else ASSET.substitute(name=name, folder=folder, interval=INTERVAL)
    text += "jobs:\n" + "".join(
        JOB_ENTRY.substitute(name=name, folder=folder, spark=spark) for name, spark in jobs.items()
    )
    file = folder / f"{home}.yaml"
    file.write_text(text)
    return file


async def one_by_one(folder: Path, runs: int, dsn: str) -> None:
    port = free_port()
    profiles = {"cold": "profile: large", "small": "profile: small", "warm": "warm: 1", "hinted": "warm: 1"}
    file = configure(folder, port, "home", dsn, **profiles)
    times: dict[str, list[float]] = {name: [] for name in profiles}
    database = await asyncpg.connect(dsn)
    await database.execute(TABLE)
    async with running_daemon(file, f"http://127.0.0.1:{port}", os.environ) as daemon:
        await ready(daemon, 2)
        print(f"an idle warm driver: {await idle_cost(folder / 'home')}")
        for number in range(runs):
            for name, measured in times.items():
                await ready(daemon, 2)
                measured.append(await first_action(folder, name, number, database))
                await settled(daemon, name, folder / "home")
    await database.close()
    report(folder / "home", times)


async def bursts(folder: Path, dsn: str) -> None:
    port = free_port()
    file = configure(folder, port, "second", dsn, burst="warm: 2")
    print(f"\nbursts of {BURST} files for a job with `warm: 2`, seconds to each count, sorted")
    async with running_daemon(file, f"http://127.0.0.1:{port}", os.environ) as daemon:
        for number in range(BURSTS):
            await ready(daemon, 2)
            times: list[float] = []
            async with anyio.create_task_group() as tasks:
                for place in range(BURST):
                    tasks.start_soon(note, times, folder, number * BURST + place)
            print("  " + "  ".join(f"{seconds:5.2f}" for seconds in sorted(times)))
            await settled(daemon, "burst", folder / "second")


async def note(times: list[float], folder: Path, number: int) -> None:
    times.append(await first_action(folder, "burst", number))


async def first_action(folder: Path, name: str, number: int, database: asyncpg.Connection | None = None) -> float:
    """Return the seconds from the existence of the file, or of the row that names it, to the end of its count."""
    answer = folder / "out" / f"{name}{number}.csv"
    unfinished = folder / "unfinished" / answer.name
    unfinished.parent.mkdir(exist_ok=True)
    unfinished.write_text("id\n1\n2\n3\n")
    file = folder / name / answer.name
    if name == "hinted" and database is not None:
        unfinished.rename(file)
        async with database.transaction():
            await database.execute(INSERT, str(file))
            await database.execute(NOTIFY)
        committed = time.time()
    else:
        committed = time.time()
        unfinished.rename(file)
    with anyio.fail_after(LONGEST):
        while not answer.exists() or not answer.read_text():
            await anyio.sleep(0.05)
    return float(answer.read_text()) - committed


async def ready(daemon: Daemon, count: int) -> None:
    with anyio.fail_after(LONGEST):
        async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
            while f'watcher_warm_drivers{{state="ready"}} {count}.0' not in (await client.get("/metrics")).text:
                await anyio.sleep(0.1)


async def settled(daemon: Daemon, name: str, home: Path) -> None:
    """Wait until nothing of the job runs any more and its cost is known."""
    with anyio.fail_after(LONGEST):
        while any(not file.with_name("exit.json").exists() for file in started(home / "runs" / name)):
            await anyio.sleep(0.1)
        async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
            for state in ("queued", "running"):
                words = {"state": state, "limit": 1}
                while (await client.get(f"/api/v2/dags/{name}/dagRuns", params=words)).json()["total_entries"]:
                    await anyio.sleep(0.1)


def started(runs: Path) -> list[Path]:
    return list(runs.glob("*/*/started.json"))


async def idle_cost(home: Path) -> str:
    folder = next((home / "warm").iterdir())
    processes = tagged(f"warm-{folder.name}")
    before = sum(map(ticks, processes))
    await anyio.sleep(IDLE_FOR)
    used = (sum(map(ticks, processes)) - before) / os.sysconf("SC_CLK_TCK") / IDLE_FOR
    memory = sum(map(pss_mb, processes))
    return f"{memory:.0f} MB in {len(processes)} processes, {100 * used:.2f} % of a core"


def tagged(tag: str) -> list[Path]:
    return [process for process in Path("/proc").glob("[0-9]*") if has_tag(process, tag)]


def has_tag(process: Path, tag: str) -> bool:
    try:
        return f"{TAG_VARIABLE}={tag}".encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def ticks(process: Path) -> int:
    return sum(map(int, (process / "stat").read_bytes().rpartition(b")")[2].split()[11:13]))


def pss_mb(process: Path) -> float:
    lines = (process / "smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def report(home: Path, times: dict[str, list[float]]) -> None:
    print(f"\nseconds from a closed file to the end of its count, {len(times['warm'])} of each in turns")
    print(f"  {'':<8}{'median':>8}{'p95':>8}{'most':>8}{'CPU s':>10}{'before':>10}{'peak MB':>10}")
    total = {}
    for name, measured in times.items():
        exits = [json.loads(file.read_text()) for file in (home / "runs" / name).glob("*/1/exit.json")]
        cpu, before = (median(each[key] for each in exits) for key in ("cpu_seconds", "cpu_seconds_before"))
        peak = median(each["peak_mb"] for each in exits)
        total[name] = cpu + before
        print(
            f"  {name:<8}{median(measured):8.2f}{p95(measured):8.2f}{max(measured):8.2f}"
            f"{cpu:10.2f}{before:10.2f}{peak:10.0f}"
        )
    for name, bar in BARS.items():
        print(f"  bar: {name} p95 at most {bar} s: {'met' if p95(times[name]) <= bar else 'MISSED'}")
    ratio = total["warm"] / total["small"]
    print(f"  bar: CPU of warm, before included, is {ratio:.2f} of small's: {'met' if ratio <= 1 else 'MISSED'}")


def p95(measured: list[float]) -> float:
    return quantiles(measured, n=20, method="inclusive")[-1] if len(measured) > 1 else measured[0]


if __name__ == "__main__":
    main()
