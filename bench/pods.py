"""Counts the daemon's CPU time for a run in a pod: what the submitter itself needs, from the submission until it is forgotten.

The cluster is the stand-in of the tests, in a process of its own, with a kubelet that starts nothing: it reports that each
container runs, adds lines to its log, and reports the end. The submitter is polled as the dispatcher does it, and told that
drivers renew their leases; what the database takes for that is not counted.

    python bench/pods.py [seconds that each driver runs]
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import uuid4

import anyio

from tests.stand_in_kubernetes import StandInKubernetes, stand_in_kubernetes
from tests.unit.submit.kubernetes_pods import NAMESPACE, kubernetes_pods, write_kubeconfig
from tests.unit.submit.plain import make_submission
from watcher.features.kubernetes.options import KubernetesOptions
from watcher.features.kubernetes.submitter import KubernetesPods

RUNS = 100
AT_ONCE = 10


def cluster(ours: Connection, namespace: str, seconds: float, log_every: float) -> None:
    with stand_in_kubernetes() as kubernetes:
        threading.Thread(target=play_kubelet, args=(kubernetes, namespace, seconds, log_every), daemon=True).start()
        ours.send(kubernetes.address)
        ours.recv()


def play_kubelet(kubernetes: StandInKubernetes, namespace: str, seconds: float, log_every: float) -> None:
    started: dict[str, float] = {}
    logged: dict[str, float] = {}
    while True:
        for pod in kubernetes.list(namespace, "pods", "")["items"]:
            name, now = pod["metadata"]["name"], time.monotonic()
            moment = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"
            if name not in started:
                started[name], logged[name] = now, now
                report(kubernetes, namespace, name, "Running", {"running": {"startedAt": moment[:19] + "Z"}})
            elif now - started[name] >= seconds and pod["status"]["phase"] == "Running":
                report(kubernetes, namespace, name, "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed"}})
            elif now - logged[name] >= log_every:
                logged[name] = now
                kubernetes.logs[name] = kubernetes.logs.get(name, b"") + f"{moment} a line of the log\n".encode()
        time.sleep(0.05)


def report(kubernetes: StandInKubernetes, namespace: str, name: str, phase: str, state: object) -> None:
    status = {"phase": phase, "containerStatuses": [{"name": "driver", "state": state}]}
    kubernetes.patch(namespace, "pods", name, {"spec": {"nodeName": "n1"}, "status": status})


async def run_once(pods: KubernetesPods, application: Path) -> None:
    options = KubernetesOptions.model_validate({"kubernetes": {"image": "x", "delete_after": "0s"}})
    context = {"token": uuid4().hex, "api": "http://watcher:8795"}
    submission = make_submission(task := str(uuid4()), application, context=context, options=options)
    instance = replace(submission.key.instance, run_id=task)
    submission = replace(submission, key=replace(submission.key, instance=instance))  # each run has a log of its own
    handle = await pods.submit(submission)
    while (await pods.poll(handle)).phase != "exited":
        await anyio.sleep(pods.poll_every.total_seconds())
    await pods.forget(submission.key, submission.tag, handle)


async def measure(pods: KubernetesPods, application: Path) -> float:
    """Return the milliseconds of CPU time for each run."""
    async with anyio.create_task_group() as background:
        background.start_soon(pods.run)
        await run_once(pods, application)  # opens the client, and writes the SDK's archive
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def limited() -> None:
            async with limiter:
                await run_once(pods, application)

        before = time.process_time()
        async with anyio.create_task_group() as runs:
            for _ in range(RUNS):
                runs.start_soon(limited)
        used = time.process_time() - before
        background.cancel_scope.cancel()
    return used / RUNS * 1000


def main(seconds: float) -> None:
    for log_every in (1.0, 60.0):
        used = in_cluster(seconds, log_every)
        every = f"a line of log every {log_every:g} s"
        print(f"{RUNS} runs of {seconds:g} s, {AT_ONCE} at a time, {every}: {used:.1f} ms of CPU a run")


def in_cluster(seconds: float, log_every: float) -> float:
    ours, theirs = multiprocessing.Pipe()
    namespace = "bench"
    process = multiprocessing.Process(target=cluster, args=(theirs, namespace, seconds, log_every), daemon=True)
    process.start()
    with tempfile.TemporaryDirectory() as folder:
        config = write_kubeconfig(Path(folder), ours.recv())
        (Path(folder) / "job.py").write_text("print()\n")
        pods = kubernetes_pods(
            Path(folder), {**os.environ, "KUBECONFIG": str(config), NAMESPACE: namespace}, silence=1.0
        )
        used = anyio.run(measure, pods, Path(folder) / "job.py")
    ours.send(None)
    process.join()
    return used


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2] or ["5"]))
