"""Compares the cost of starting a trivial job: plain `spark-submit` and ours with `profile: small`, in turns, in the same run.

CPU seconds and peak memory are the kernel's, of everything each start made; memory is the largest process's. "First
action" is the time from the event (here: the submission) to the moment Spark has answered the job's first action. The target is
that `small` costs at most half of the plain start's CPU. A burst of events through a whole daemon then shows how many Sparks
it starts.

`bench/spark_starts.py` measures the same from the commit in the source, with drivers that were started ahead.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import anyio
import httpx

from store.keys import TaskInstanceId, TaskInstanceKey, TryKey
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port
from watcher.submit.base import SparkApplication, Submission, Workspace
from watcher.submit.spark.class_archive import archive_folder, make_archive
from watcher.submit.spark.runtime import find_runtime, spark_home_of
from watcher.submit.spark_submit import SparkSubmit

ROUNDS = 3
BAR = 2.0
BURST = 20
JOB = """
import sys, time
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
assert spark.range(1000).count() == 1000
open(sys.argv[1], "w").write(str(time.time()))
spark.stop()
"""
CONFIGURATION = """
version: 1
settings:
  home: home
  api: {{port: {port}, auth: none}}
assets:
  inbox:
    uri: file://{folder}/inbox
    watchers:
      inbox_files: {{trigger: file.new_files, match: "*.csv", interval: 200ms, min_age: 0s, start: all}}
jobs:
  trivial:
    schedule: inbox
    batch: {{debounce: 2s}}
    spark: {{application: job.py, master: "local[*]", args: [{folder}/answered]}}
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    cpu_seconds: float
    peak_mb: float
    first_action: float


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.py").write_text(JOB)
        started = time.perf_counter()
        os.environ["XDG_CACHE_HOME"] = name  # made anew, to see what it costs
        make_archive(archive_folder(os.environ), find_runtime(sys.executable, None, os.environ), os.environ)
        print(f"class archive made in {time.perf_counter() - started:.1f} s")
        costs: dict[str, list[Cost]] = {"plain": [], "small": []}
        for number in range(ROUNDS):
            costs["plain"].append(run_measured(folder, *plain(folder)))
            costs["small"].append(run_measured(folder, *small(folder, number)))
        report(costs)
        anyio.run(burst, folder)


def plain(folder: Path) -> tuple[list[str], Mapping[str, str]]:
    submit = spark_home_of(sys.executable) / "bin" / "spark-submit"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return [str(submit), str(folder / "job.py"), str(folder / "answered")], environment


def small(folder: Path, number: int) -> tuple[list[str], Mapping[str, str]]:
    """Return the command that the shim would run, with its files in place."""
    submitter = SparkSubmit(
        Workspace(
            home=folder, logs=folder / "logs", python=sys.executable, environment=os.environ, driver_memory_mb=550
        )
    )
    application = SparkApplication(
        application=str(folder / "job.py"), args=(str(folder / "answered"),), conf={}, env={}
    )
    instance = TaskInstanceKey(dag_id="bench", run_id="bench", task_id="bench")
    key = TryKey(instance=instance, task_instance_id=TaskInstanceId("bench"), try_number=number)
    one_try = submitter.folder(key)
    one_try.make()
    submission = Submission(key=key, tag=f"bench-{number}", application=application, context={})
    command = submitter.command(submission, one_try)
    assert "SharedArchiveFile" in command.files["spark.properties"]
    for name, content in command.files.items():
        one_try.write_private(name, content)
    return command.argv, command.environment


def run_measured(folder: Path, argv: list[str], environment: Mapping[str, str]) -> Cost:
    """Run in a process of its own, so that all its children belong to this start."""
    (folder / "answered").unlink(missing_ok=True)
    started = time.time()
    done = subprocess.run(
        [sys.executable, __file__, "--measured", *argv],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=True,
    )
    cpu_seconds, peak_mb = json.loads(done.stdout.splitlines()[-1])
    first_action = float((folder / "answered").read_text()) - started
    return Cost(cpu_seconds=cpu_seconds, peak_mb=peak_mb, first_action=first_action)


def measured(argv: list[str]) -> None:
    subprocess.run(argv, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))


def report(costs: Mapping[str, list[Cost]]) -> None:
    print(f"\ntrivial job, medians of {ROUNDS} in turns")
    print(f"  {'':<22}{'CPU s':>8}{'peak MB':>10}{'first action s':>16}")
    middle = {
        name: [median(values) for values in zip(*map(figures, rounds), strict=True)] for name, rounds in costs.items()
    }
    for name, (cpu, peak, first) in middle.items():
        print(f"  {name:<22}{cpu:8.1f}{peak:10.0f}{first:16.1f}")
    ratios = [plain / small for plain, small in zip(middle["plain"], middle["small"], strict=True)]
    print(f"  {'ratio plain : small':<22}{ratios[0]:8.2f}{ratios[1]:10.2f}{ratios[2]:16.2f}")
    print(f"  bar: CPU ratio at least {BAR:.1f}: {'met' if ratios[0] >= BAR else 'MISSED'}")


def figures(cost: Cost) -> tuple[float, float, float]:
    return cost.cpu_seconds, cost.peak_mb, cost.first_action


async def burst(folder: Path) -> None:
    """Make events a moment apart, which become one run: the job waits until nothing has come for two seconds."""
    (folder / "inbox").mkdir()
    (folder / "answered").unlink()
    port = free_port()
    configuration = folder / "watchers.yaml"
    configuration.write_text(CONFIGURATION.format(port=port, folder=folder))
    async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
        await make_events(daemon, folder)


async def make_events(daemon: Daemon, folder: Path) -> None:
    started = time.time()
    async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
        for number in range(BURST):
            (folder / "inbox" / f"{number}.csv").write_text("id\n1\n")
            with anyio.fail_after(60):
                while await events(client) <= number:
                    await anyio.sleep(0.05)
        with anyio.fail_after(300):
            while not (folder / "answered").exists():
                await anyio.sleep(0.1)
        last = time.time() - started
        runs = (await get(client, "/api/v2/dags/trivial/dagRuns"))["total_entries"]
        seen = await events(client)
    print(f"\nburst of {seen} events: {runs} start(s), first action {last:.1f} s after the first event")


async def events(client: httpx.AsyncClient) -> int:
    total: int = (await get(client, "/api/v2/assets/events", limit=1))["total_entries"]
    return total


if __name__ == "__main__":
    measured(sys.argv[2:]) if sys.argv[1:2] == ["--measured"] else main()
