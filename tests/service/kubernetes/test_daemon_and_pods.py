"""The real daemon with `submitter: kubernetes` on the stand-in: it is killed around each request that starts a driver."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.stand_in_kubelet import StandInKubelet, stand_in_kubelet
from tests.stand_in_kubernetes import StandInKubernetes, stand_in_kubernetes
from tests.stand_in_spark import stand_in_spark
from tests.unit.submit.kubernetes_pods import write_kubeconfig
from watcher.features.demo.daemon import Daemon
from watcher.shared.servers import free_port

pytestmark = pytest.mark.slow

CONFIGURATION = Template("""\
version: 1
settings:
  home: home
  api: {port: $port, auth: none}
  kubernetes: {context: test, namespace: $namespace, api_url: "http://127.0.0.1:$port"}
assets:
  orders: {uri: "file:///data/orders"}
jobs:
  load:
    outlets: [orders]
    retries: 1
    retry_delay: 100ms
    spark:
      application: job.py
      submitter: kubernetes
      python: $python
      env: {SPARK_HOME: $spark_home, FOLDER: $folder}
      kubernetes: {image: "driver:1", delete_after: 0s, start_timeout: $start_timeout}
""")
JOB = """\
import os, sys, time
from asset_job import run

with run() as r:
    with open(os.environ["FOLDER"] + "/starts", "a") as starts:
        starts.write(f"{r.run_id} {r.try_number}\\n")
    print("the job says hello", flush=True)
    while not os.path.exists(os.environ["FOLDER"] + "/go"):
        time.sleep(0.05)
    r.asset_store.set("rows", 3)
"""


@dataclass
class PodWorld:
    folder: Path
    kubernetes: StandInKubernetes
    kubelet: StandInKubelet
    daemon: Daemon

    @property
    def starts(self) -> list[str]:
        file = self.folder / "starts"
        return [line.split()[-1] for line in file.read_text().splitlines()] if file.exists() else []

    def left(self) -> int:
        """The pods and Secrets that the cluster has."""
        kinds = ("pods", "secrets")
        return sum(len(self.kubernetes.list(self.kubelet.namespace, kind, "")["items"]) for kind in kinds)

    def sent(self) -> Counter[str]:
        """The requests about single tries, not those about the installation, by method and path."""
        of_tries = [each for each in self.kubernetes.requests if "aw-" in each or each.startswith("POST /api/v1/")]
        place = f"/api/v1/namespaces/{self.kubelet.namespace}/"
        return Counter(re.sub("aw-[^/]+", "…", each.partition("?")[0].replace(place, "")) for each in of_tries)

    def pod(self) -> dict[str, Any]:
        [pod] = self.kubernetes.list(self.kubelet.namespace, "pods", "")["items"]
        return dict(pod)

    async def request(self, method: str, path: str, **more: Any) -> Any:
        async with httpx.AsyncClient(base_url=self.daemon.url, timeout=60) as client:
            answer = await client.request(method, f"/api/v2/dags/load/dagRuns{path}", **more)
            answer.raise_for_status()
            return answer.json()

    async def trigger(self) -> str:
        run = await self.request("POST", "", json={"logical_date": None})
        return str(run["dag_run_id"])

    async def run(self) -> Any:
        [run] = (await self.request("GET", ""))["dag_runs"]
        return run

    async def until(self, condition: Callable[[], Any]) -> None:
        with anyio.fail_after(PATIENCE):
            while not condition():
                await anyio.sleep(0.05)

    async def until_shown(self, run_id: str, sentence: str) -> None:
        with anyio.fail_after(PATIENCE):
            while sentence not in str(await self.request("GET", f"/{run_id}/taskInstances")):
                await anyio.sleep(0.1)

    async def until_state(self, state: str) -> Any:
        with anyio.fail_after(PATIENCE):
            while (run := await self.run())["state"] != state:
                await anyio.sleep(0.1)
        return run

    def tries(self) -> list[tuple[int, str | None]]:
        with closing(sqlite3.connect(self.folder / "home" / "watcher.db")) as database:
            return database.execute("SELECT try_number, finish_state FROM task_try ORDER BY 1").fetchall()


@pytest.fixture
def start_timeout() -> str:
    return "30m"


@pytest.fixture
async def world(tmp_path: Path, start_timeout: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PodWorld]:
    with stand_in_kubernetes() as kubernetes:
        namespace, port = kubernetes.new_namespace(), free_port()
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, kubernetes.address)))
        (tmp_path / "job.py").write_text(JOB)
        configuration = tmp_path / "watchers.yaml"
        words = {"spark_home": stand_in_spark(tmp_path), "folder": tmp_path, "python": sys.executable}
        text = CONFIGURATION.substitute(words, port=port, namespace=namespace, start_timeout=start_timeout)
        configuration.write_text(text)
        daemon = Daemon(configuration, f"http://127.0.0.1:{port}", os.environ)
        with stand_in_kubelet(kubernetes, namespace, tmp_path / "node") as kubelet:
            try:
                await daemon.start()
                yield PodWorld(tmp_path, kubernetes, kubelet, daemon)
            finally:
                with anyio.CancelScope(shield=True):
                    await daemon.stop()


async def test_a_job_runs_in_a_pod_and_leaves_nothing_but_its_log(world: PodWorld) -> None:
    run_id = await world.trigger()
    await world.until(lambda: world.starts)
    await world.until(lambda: world.sent()["GET pods/…/log"] >= 3)  # it is polled many times meanwhile
    (world.folder / "go").touch()
    await world.until_state("success")
    await world.until(lambda: world.sent()["DELETE secrets"] == 2)
    assert world.left() == 0
    sent = world.sent()
    assert sent.pop("GET pods/…/log") <= 6, "0, 2, 6, 14 and 30 s after its start, and at the end"
    of_submission = {"GET pods/…": 1, "POST secrets": 1, "POST pods": 1, "PATCH secrets/…": 1}
    of_end = {"DELETE secrets": 2, "PATCH pods/…": 1, "DELETE pods/…": 1}
    assert sent == {**of_submission, **of_end, "GET pods/…": 2}, "the watch knows the pod: a poll sends no request"
    assert (world.starts, world.tries()) == (["1"], [(1, "success")])
    [instance] = (await world.request("GET", f"/{run_id}/taskInstances"))["task_instances"]
    log = await world.request("GET", f"/{run_id}/taskInstances/{instance['task_id']}/logs/1")
    assert "the job says hello" in str(log["content"])


@pytest.mark.parametrize("is_done", [False, True], ids=["not done", "answer lost"])
@pytest.mark.parametrize("request_", ["POST secrets", "POST pods", "PATCH secrets"])
async def test_a_daemon_that_is_killed_around_a_request_starts_the_driver_once(
    world: PodWorld, request_: str, is_done: bool
) -> None:
    method, kind = request_.split()
    process = world.daemon.process
    assert process is not None

    def drop(request: str, *, is_done: bool) -> bool:
        if is_done is not expected or not request.startswith(f"{method} ") or f"/{kind}" not in request:
            return False
        world.kubernetes.drop = lambda _request, **_: False
        os.kill(process.pid, signal.SIGKILL)
        return True

    expected, world.kubernetes.drop = is_done, drop
    await world.trigger()
    with anyio.fail_after(PATIENCE):
        await process.wait()
    world.daemon.process = None
    await world.daemon.start()
    await world.until(lambda: world.starts)
    (world.folder / "go").touch()
    await world.until_state("success")
    await world.until(lambda: not world.left())
    assert (world.starts, world.tries()) == (["1"], [(1, "success")])


async def test_a_pod_that_a_person_deletes_is_a_failed_try_and_the_next_one_runs(world: PodWorld) -> None:
    await world.trigger()
    await world.until(lambda: world.starts)
    pod = world.pod()["metadata"]["name"]
    world.kubernetes.delete(world.kubelet.namespace, "pods", pod, {"gracePeriodSeconds": 5})
    await world.until(lambda: world.starts == ["1", "2"])
    (world.folder / "go").touch()
    await world.until_state("success")
    await world.until(lambda: not world.left())
    assert [number for number, _ in world.tries()] == [1, 2]


async def test_a_daemon_that_is_killed_and_one_that_cancels_its_jobs_leave_the_driver_alone(world: PodWorld) -> None:
    await world.trigger()
    await world.until(lambda: world.starts)
    await world.daemon.kill()
    world.daemon._words = ["--cancel-jobs"]
    await world.daemon.start()
    assert await world.daemon.stop() == 0
    await world.daemon.start()
    (world.folder / "go").touch()
    await world.until_state("success")
    await world.until(lambda: not world.left())
    assert (world.starts, world.tries()) == (["1"], [(1, "success")])


async def test_a_daemon_that_is_started_with_another_namespace_refuses_and_with_its_own_goes_on(
    world: PodWorld,
) -> None:
    await world.trigger()
    await world.until(lambda: world.starts)
    await world.daemon.kill()
    configuration = world.folder / "watchers.yaml"
    text = configuration.read_text()
    configuration.write_text(text.replace(f"namespace: {world.kubelet.namespace}", "namespace: other"))
    with pytest.raises(RuntimeError, match=rf"1 try is open at .*namespace {world.kubelet.namespace}: put that back"):
        await world.daemon.start()
    configuration.write_text(text)
    await world.daemon.start()
    (world.folder / "go").touch()
    await world.until_state("success")
    await world.until(lambda: not world.left())
    assert (world.starts, world.tries()) == (["1"], [(1, "success")])


async def test_a_person_stops_a_driver_in_its_pod(world: PodWorld) -> None:
    run_id = await world.trigger()
    await world.until(lambda: world.starts)
    await world.request("PATCH", f"/{run_id}", json={"state": "failed"})
    await world.until(lambda: not world.left())
    assert (world.starts, (await world.run())["state"]) == (["1"], "failed")


@pytest.mark.parametrize("start_timeout", ["2s"])
async def test_a_driver_that_does_not_start_in_time_fails(world: PodWorld) -> None:
    world.kubelet.binds = False
    await world.trigger()
    run = await world.until_state("failed")
    assert "did not start within 2 s" in str(run)
    assert world.starts == []
    await world.until(lambda: not world.left())


async def test_a_quota_is_waited_for_and_shown_on_the_run(world: PodWorld) -> None:
    world.kubernetes.quota = "exceeded quota: team, requested: pods=1, used: pods=5, limited: pods=5"
    run_id = await world.trigger()
    await world.until_shown(run_id, "waits for room in the namespace")
    world.kubernetes.quota = ""
    await world.until(lambda: world.starts)
    (world.folder / "go").touch()
    await world.until_state("success")
    assert (world.starts, world.tries()) == (["1"], [(1, "success")])


async def test_what_only_events_say_of_a_pod_is_shown_on_the_run(world: PodWorld) -> None:
    world.kubelet.binds = False
    run_id = await world.trigger()
    await world.until(lambda: world.left() == 2)
    pod = world.pod()["metadata"]
    message = 'MountVolume.SetUp failed for volume "lake": configmap "lake" not found'
    involved = {"kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    event = {"type": "Warning", "reason": "FailedMount", "message": message, "involvedObject": involved}
    world.kubernetes.create(world.kubelet.namespace, "events", {"metadata": {"name": "e1"}, **event})
    await world.until_shown(run_id, 'waits for its container: MountVolume.SetUp failed for volume "lake"')
    world.kubelet.binds = True
    await world.until(lambda: world.starts)
    (world.folder / "go").touch()
    await world.until_state("success")


async def test_what_no_try_has_any_more_is_removed_at_the_next_start(world: PodWorld) -> None:
    """Such as what a daemon created that was frozen, woke after the end of its try, and was killed."""
    await world.trigger()
    await world.until(lambda: world.starts)
    pod = world.pod()
    left = {"name": "aw-left", "labels": {**pod["metadata"]["labels"], "asset-watcher/try": "aw-left"}}
    other = {"name": "other", "labels": {**left["labels"], "asset-watcher/installation": "another"}}
    for kind, metadata in (("pods", left), ("secrets", left), ("secrets", other)):
        body = {"metadata": metadata, "spec": {**pod["spec"], "volumes": []}}
        world.kubernetes.create(world.kubelet.namespace, kind, body)
    await world.daemon.kill()
    await world.daemon.start()
    await world.until(lambda: world.left() == 3)
    (world.folder / "go").touch()
    await world.until_state("success")
    await world.until(lambda: world.left() == 1)
    assert world.kubernetes.read(world.kubelet.namespace, "secrets", "other")
    assert (world.starts, world.tries()) == (["1"], [(1, "success")])
