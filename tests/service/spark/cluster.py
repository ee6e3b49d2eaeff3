"""A standalone cluster on this machine, from the pip package: one master, two workers with one core each, on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.effort import PATIENCE
from watcher.submit.spark.class_archive import archive_folder, find_archive
from watcher.submit.spark.command import SMALL
from watcher.submit.spark.runtime import find_runtime, spark_home_of

WORKERS = 2
_EXECUTOR = b"CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Cluster:
    master: str
    status: str
    groups: tuple[int, ...]

    def state(self) -> Any:
        """What the master says of itself, its workers and its applications."""
        with urllib.request.urlopen(self.status, timeout=10) as answer:  # noqa: S310 - our own master
            return json.load(answer)

    def executors(self) -> list[int]:
        """The process ids of the executors that the workers have started and that are alive."""
        return [process for process in self._processes() if _EXECUTOR in _command(process)]

    def executor_of(self, process: int) -> int:
        """The executor among a process's ancestors."""
        while _EXECUTOR not in _command(process):
            process = _parent(process)
        return process

    def is_idle(self) -> bool:
        """Whether nothing of any application is left, as the master says and as the processes show."""
        found = self.state()
        return (
            not found["activeapps"]
            and not any(worker["coresused"] for worker in found["workers"])
            and not self.executors()
        )

    def _processes(self) -> Iterator[int]:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getpgid(int(folder.name)) in self.groups:
                    yield int(folder.name)
            except ProcessLookupError:
                continue


@cache
def quick_executors() -> dict[str, str]:
    """What lets executors on this machine start as a small job's driver does."""
    archive = find_archive(archive_folder(os.environ), find_runtime(sys.executable, None, os.environ))
    if archive is None:
        return {"spark.executor.extraJavaOptions": " ".join(SMALL)}
    options = [*SMALL, *archive.options, "-Xshare:auto", "-Xlog:disable"]
    return {
        "spark.executor.extraJavaOptions": " ".join(options),
        "spark.executor.extraClassPath": archive.class_path,
    }


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Ends with the block, with everything that it has started."""
    spark_home = spark_home_of(sys.executable)
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(SMALL),
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    with ExitStack() as stack:

        def start(name: str, role: str, *args: str) -> tuple[int, Path]:
            log = folder / f"{name}.log"
            words = [str(spark_home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *args]
            with log.open("wb") as file:
                process = subprocess.Popen(words, env=environment, stdout=file, stderr=file, start_new_session=True)
            stack.callback(_end, process)
            return process.pid, log

        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        group, log = start("master", "master.Master", *ports)
        groups = [group]
        master = _said(log, r"Starting Spark master at (spark://\S+)")
        status = _said(log, r"'MasterUI' on port (\d+)")
        for number in range(WORKERS):
            sizes = ("--cores", "1", "--memory", "600m", "--work-dir", str(folder / f"work{number}"))
            group, log = start(f"worker{number}", "worker.Worker", *ports, *sizes, master)
            groups.append(group)
        for number in range(WORKERS):
            _said(folder / f"worker{number}.log", r"(Successfully registered with master)")
        yield Cluster(master=master, status=f"http://127.0.0.1:{status}/json/", groups=tuple(groups))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _said(log: Path, pattern: str) -> str:
    wait_until(lambda: re.search(pattern, log.read_text()) is not None)
    found = re.search(pattern, log.read_text())
    assert found
    return found[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole group: a worker that is killed leaves its executors."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])
