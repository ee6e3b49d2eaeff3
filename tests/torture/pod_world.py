"""Drivers as pods, with daemons to kill, on the stand-in of Kubernetes or a real node. Each driver notes what it does in a file."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx
from sqlalchemy import select

from store.database.schema import run
from tests import loopback
from tests.effort import LONG
from tests.torture.daemons import Daemons, until
from tests.torture.world import engine_beside
from tests.unit.submit.kubernetes_pods import write_kubeconfig
from watcher.features.kubernetes.manifest import RESTRICTED

FINAL = {"success", "failed"}
JOBS = {
    "with_sdk": """\
import os, random, sys, time
from asset_job import run

def note(word):
    with open(os.environ["WITNESS"], "ab", buffering=0) as witness:
        witness.write(f"{r.run_id} {r.try_number} {word}\\n".encode())

with run() as r:
    note("start")
    for _ in range(random.randint(5, 40)):
        time.sleep(0.05)
        note("works")
    r.asset_store.set("tries", r.try_number)
    note("stored")
""",
    "without_sdk": """\
import os, random, sys, time

def note(word):
    with open(os.environ["WITNESS"], "ab", buffering=0) as witness:
        witness.write(f"{sys.argv[1]} {sys.argv[2]} {word}\\n".encode())

note("start")
for _ in range(random.randint(5, 40)):
    time.sleep(0.05)
    note("works")
note("end")
""",
}
"""Jobs by name. A line is appended by one system call, so the lines have the order in which the drivers worked."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the witness, the database and the cluster have at the end; all but `started` should be empty."""

    started: int
    repeated: Mapping[tuple[str, str], int]
    """Tries of runs that were started more than once, and how often."""
    overlapping: list[str]
    """Lines of a try that come after a line of a later try of the same run."""
    missing: list[str]
    """Runs that succeeded without a driver."""
    stranded: Mapping[str, str]
    """Runs that have not ended, and their states."""
    left: list[str]
    """Pods and Secrets of ours."""

    @property
    def faults(self) -> Mapping[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "started" and value}


class Cluster(Protocol):
    """The cluster's API, with an administrator's rights."""

    address: str
    drop: Callable[..., bool]

    def create(self, namespace: str, kind: str, body: dict[str, Any]) -> dict[str, Any]: ...
    def list(self, namespace: str, kind: str, selector: str) -> dict[str, Any]: ...
    def patch(self, namespace: str, kind: str, name: str, change: dict[str, Any]) -> dict[str, Any]: ...
    def delete(self, namespace: str, kind: str, name: str, options: dict[str, Any]) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class DriverPlace:
    """Where drivers run, and what they have there."""

    namespace: str
    token: str
    """The daemon's, for the cluster."""
    python: str
    spark_home: str
    here: Path
    """The folder of the witness, on this machine."""
    there: str
    """The same folder as drivers see it."""
    pod: Mapping[str, Any]
    """The keys below `kubernetes` of a job."""
    api: Callable[[str], str] = str
    """Returns the address at which drivers reach the daemon's API, which listens at another one."""


@dataclass
class PodWorld:
    """Two homes that share one PostgreSQL and an API process, or one home with SQLite. `home` is the one that starts drivers."""

    folder: Path
    kubernetes: Cluster
    place: DriverPlace
    database: str
    sidecars: bool = False
    """Whether there is a third job, whose pods have a container beside the driver that never ends."""
    daemons: Daemons = field(init=False)
    jobs: tuple[str, ...] = ()
    home: str = "one"
    cancelled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        os.environ["KUBECONFIG"] = str(write_kubeconfig(self.folder, self.kubernetes.address, self.place.token))
        self.witness.touch()
        self.witness.chmod(0o666)  # drivers may have an account of their own
        jobs = {name: self._job(name, program, self.place.pod) for name, program in JOBS.items()}
        if self.sidecars:
            jobs["with_sidecar"] = self._job("with_sidecar", JOBS["without_sdk"], with_sidecar(self.place.pod))
        self.jobs = tuple(jobs)
        self.daemons = Daemons(
            self.folder,
            {"assets": {"orders": {"uri": "file:///data/orders"}}, "jobs": jobs},
            self.database,
            logs={"directory": str(self.folder / "logs")},
            scheduler={"parallelism": 40},
            kubernetes={"context": "test", "namespace": self.place.namespace, "api_url": "http://localhost"},
        )
        document = json.loads(self.daemons.configuration.read_text())
        document["settings"]["kubernetes"]["api_url"] = self.place.api(self.daemons.address)
        self.daemons.configuration.write_text(json.dumps(document))

    def _job(self, name: str, program: str, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        (self.folder / f"{name}.py").write_text(program)
        witness = f"{self.place.there}/{self.witness.name}"
        spark = {
            "application": f"{name}.py",
            "args": ["{{ run_id }}", "{{ try_number }}"],
            "submitter": "kubernetes" if LONG else "short_leases.ShortLeases",
            "python": self.place.python,
            "env": {"SPARK_HOME": self.place.spark_home, "WITNESS": witness},
            "kubernetes": {**pod, "delete_after": "0s"},
        }
        return {"outlets": ["orders"], "max_active_runs": 100, "retries": 30, "retry_delay": "100ms", "spark": spark}

    @property
    def witness(self) -> Path:
        return self.place.here / f"{self.folder.name}.witness"

    @property
    def is_shared(self) -> bool:
        return self.database.startswith("postgresql")

    @property
    def other_home(self) -> str:
        return "two" if self.home == "one" else "one"

    def start(self, home: str | None = None) -> None:
        """Start a home's process, and that of the API if it is not running."""
        if self.is_shared and "api" not in self.daemons.running:
            self.daemons.start("api", "--roles", "api")
        self.daemons.start(home or self.home, *(["--roles", "scheduler"] if self.is_shared else []))

    def answers(self) -> bool:
        """Return whether the API answers. Readiness is not asked for: it wants heartbeats that come in time."""
        return loopback.get(f"{self.daemons.address}/healthz").is_success

    def kill(self, home: str | None = None) -> None:
        self.daemons.stop(signal.SIGKILL, home or self.home)

    def trigger(self, job: str) -> None:
        """Have a run of the job, or two if the answer is lost."""
        until(lambda: self.trigger_once(job))

    def trigger_once(self, job: str) -> bool:
        """Ask for a run of the job; return False if it was refused, or if nobody answered."""
        with suppress(httpx.HTTPError):
            path = f"/api/v2/dags/{job}/dagRuns"
            return loopback.post(self.daemons.address + path, json={"logical_date": None}).is_success
        return False

    def cancel(self, job: str, run_id: str) -> None:
        """Have a run stopped. It may have ended before."""
        path = f"{self.daemons.address}/api/v2/dags/{job}/dagRuns/{run_id}"
        self.cancelled.add(run_id)
        until(lambda: httpx.patch(path, json={"state": "failed"}, timeout=60).status_code < 500)

    def runs(self) -> Mapping[str, tuple[str, str]]:
        """The job and the state of each run."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(run.c.run_id, run.c.dag_id, run.c.state)).all()
        return {run_id: (job, state) for run_id, job, state in rows}

    def open_runs(self) -> Mapping[str, str]:
        return {run_id: job for run_id, (job, state) in self.runs().items() if state not in FINAL}

    @property
    def _engine(self) -> Any:
        return engine_beside(self.database)

    def left(self) -> list[str]:
        items = [each for kind in ("pods", "secrets") for each in self._list(kind)]
        return [each["metadata"]["name"] for each in items if each["metadata"]["name"] != "stranger"]

    def _list(self, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.kubernetes.list(self.place.namespace, kind, "")["items"]
        return items

    def pods(self) -> list[dict[str, Any]]:
        return [each for each in self._list("pods") if each["metadata"]["name"] != "stranger"]

    def findings(self) -> Findings:
        lines = [line.split() for line in self.witness.read_text().splitlines()]
        starts = Counter((run_id, number) for run_id, number, word in lines if word == "start")
        latest: dict[str, int] = {}
        overlapping = []
        for run_id, number, word in lines:
            if int(number) < latest.setdefault(run_id, int(number)):
                overlapping.append(f"{run_id} {number} {word} after try {latest[run_id]}")
            latest[run_id] = max(latest[run_id], int(number))
        runs = self.runs()
        return Findings(
            started=len(starts),
            repeated={key: times for key, times in starts.items() if times > 1},
            overlapping=overlapping,
            missing=[run_id for run_id, (_, state) in runs.items() if state == "success" and run_id not in latest],
            stranded={
                run_id: state
                for run_id, (_, state) in runs.items()
                if state not in FINAL or (state == "failed" and run_id not in self.cancelled)
            },
            left=self.left(),
        )


def with_sidecar(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a job's keys with a container beside the driver that ends only with the pod."""
    spec = pod["template"]["spec"]
    driver = spec["containers"][0]
    sidecar = {**driver, "name": "sidecar", "image": pod["image"], "command": ["/bin/sleep", "1000000"]}
    template = {"spec": {**spec, "containers": [driver, {**sidecar, "securityContext": RESTRICTED}]}}
    return {**pod, "template": template}


class Hook:
    """Calls a function when a request of a kind comes, before it takes effect or instead of its answer."""

    def __init__(self, kubernetes: Cluster, method: str, kind: str, *, is_done: bool, then: Any) -> None:
        self.happened = threading.Event()
        self._request, self._is_done, self._then = (method, f"/{kind}"), is_done, then
        self._kubernetes = kubernetes
        kubernetes.drop = self._drop

    def _drop(self, request: str, *, is_done: bool) -> bool:
        method, kind = self._request
        is_meant = is_done is self._is_done and request.startswith(f"{method} ") and kind in request
        if not is_meant or self.happened.is_set():
            return False
        self._then()
        self.happened.set()
        return True

    def remove(self) -> None:
        self._kubernetes.drop = lambda _request, **_: False
