"""Executors as pods, with Spark itself on a real node: their rights are the printed Roles', and nothing is left of them."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from tests.kubernetes_accounts import DRIVERS, daemon_token
from tests.kubernetes_api import GATEWAY, KubernetesApi
from tests.kubernetes_images import SPARK_IMAGE, write_spark_image
from tests.kubernetes_node import running_node
from tests.kubernetes_services import running_services
from tests.unit.submit.kubernetes_pods import NAMESPACE, kubernetes_pods, write_kubeconfig
from tests.unit.submit.plain import make_submission
from tests.unit.submit.test_pod_wrapper import Renewals
from watcher.features.kubernetes.options import KubernetesOptions
from watcher.features.kubernetes.submitter import KubernetesPods
from watcher.submit.base import Handle, Status, Submission

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark, pytest.mark.slow]
KINDS = ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims")
WHERE = """
import os
def where(_rows):
    yield os.environ["SPARK_EXECUTOR_POD_NAME"], os.path.exists("/var/run/secrets/kubernetes.io")
"""
COUNTS = """
from pyspark.sql import SparkSession
from where import where
spark = SparkSession.builder.getOrCreate()
both = spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(where).collect()  # at the same time
rows = spark.range(0, 100_000, numPartitions=8).selectExpr("id % 10 AS rest").groupBy("rest").count().count()
print(f"{rows} groups in {len(set(both))} executors, tokens: {sum(token for _, token in both)}", flush=True)
"""
WAITS = """
import time
from pyspark.sql import SparkSession
def wait(_rows):
    time.sleep(3600)
    yield 1
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(wait).collect()
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """A node with Services and an image of Spark."""
    folder = tmp_path_factory.mktemp("node")
    with running_node(folder) as api, running_services(api):
        image = write_spark_image(folder)
        api.load(image)
        image.unlink()
        yield api


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A namespace in which only the printed Roles give rights, and the submitter with the daemon's token."""

    api: httpx.Client
    """An administrator's requests, to look and to meddle."""
    pods: KubernetesPods
    folder: Path
    daemon: str
    """The address of the daemon's API as pods reach it."""

    def submission(self, program: str, account: str = DRIVERS) -> Submission:
        for name, text in (("job.py", program), ("where.py", WHERE)):
            (self.folder / name).write_text(text)
        keys = {
            "image": SPARK_IMAGE,
            "service_account": account,
            "driver": {"cpu": "600m", "memory": "1Gi"},
            "executor": {"cpu": "600m", "memory": "1Gi"},
            "delete_after": "0s",
            "template": {"spec": {"containers": [{"name": "driver", "imagePullPolicy": "Never"}]}},
        }
        return make_submission(
            str(uuid4()),
            self.folder / "job.py",
            context={"token": "t", "api": self.daemon},
            options=KubernetesOptions.model_validate({"kubernetes": keys}),
            py_files=(str(self.folder / "where.py"),),
            num_executors=2,
            python="python3",
        )

    def listed(self, kind: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.get(f"/{kind}").raise_for_status().json()["items"]
        return [each for each in items if each["metadata"]["name"] != "kube-root-ca.crt"]

    def executors(self) -> list[dict[str, Any]]:
        return [each for each in self.listed("pods") if each["metadata"]["labels"].get("spark-role") == "executor"]

    def running_executors(self) -> list[dict[str, Any]]:
        return [each for each in self.executors() if each["status"]["phase"] == "Running"]

    async def log(self, handle: Handle) -> str:
        return b"".join([chunk async for chunk in self.pods.logs(handle, 0)]).decode()

    async def until_over(self, handle: Handle) -> Status:
        with anyio.fail_after(10 * PATIENCE):
            while (status := await self.pods.poll(handle)).phase != "exited":
                await anyio.sleep(0.5)
        return status

    async def until_two_run(self, handle: Handle) -> list[dict[str, Any]]:
        with anyio.fail_after(10 * PATIENCE):
            while len(executors := self.running_executors()) < 2:
                status = await self.pods.poll(handle)
                assert status.phase != "exited", await self.log(handle)
                await anyio.sleep(0.2)
        return executors

    async def until_nothing_is_left(self) -> None:
        with anyio.fail_after(2 * PATIENCE):
            while any(self.listed(kind) for kind in KINDS):
                await anyio.sleep(0.2)


@pytest.fixture
async def namespace(node: KubernetesApi, tmp_path: Path) -> AsyncIterator[Namespace]:
    name = node.new_namespace()
    with node.client() as admin, Renewals("0.0.0.0") as api:  # noqa: S104  pods reach it by the bridge
        threading.Thread(target=api.serve_forever, daemon=True).start()
        authority = {"certificate-authority": str(node.authority)}
        kubeconfig = write_kubeconfig(tmp_path, node.address, daemon_token(admin, name), **authority)
        environment = {"KUBECONFIG": str(kubeconfig), NAMESPACE: name}
        pods = kubernetes_pods(tmp_path / "home", environment, silence=0)
        admin.base_url = httpx.URL(f"{node.address}/api/v1/namespaces/{name}")
        yield Namespace(api=admin, pods=pods, folder=tmp_path, daemon=f"http://{GATEWAY}:{api.server_port}")
        await pods.close()
        api.shutdown()


async def test_a_job_counts_in_two_pods_and_nothing_is_left_of_it(namespace: Namespace) -> None:
    submission = namespace.submission(COUNTS)
    assert [each.message for each in await namespace.pods.check(submission.application)] == []
    handle = await namespace.pods.submit(submission)
    executors = await namespace.until_two_run(handle)
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in executors} == {handle["uid"]}
    assert {each["metadata"]["labels"]["asset-watcher/try"] for each in executors} == {handle["pod"]}
    assert {each["spec"]["containers"][0]["resources"]["limits"]["memory"] for each in executors} == {"1Gi"}
    assert [namespace.listed(kind) for kind in ("services", "configmaps", "persistentvolumeclaims")] == [[], [], []]
    status = await namespace.until_over(handle)
    log = await namespace.log(handle)
    assert (status.exit_code, "10 groups in 2 executors, tokens: 0" in log) == (0, True), log
    assert "forbidden" not in log.lower(), log
    await namespace.pods.forget(submission.key, submission.tag, handle)
    await namespace.until_nothing_is_left()


@pytest.mark.parametrize("grace", [30, 0], ids=["in time", "by force"])
async def test_executors_go_with_a_driver_that_a_person_deletes(namespace: Namespace, grace: int) -> None:
    submission = namespace.submission(WAITS)
    handle = await namespace.pods.submit(submission)
    await namespace.until_two_run(handle)
    namespace.api.request("DELETE", f"/pods/{handle['pod']}", json={"gracePeriodSeconds": grace}).raise_for_status()
    status = await namespace.until_over(handle)
    assert (status.exit_code, status.stopped) != (0, True), await namespace.log(handle)
    with anyio.fail_after(2 * PATIENCE):
        while namespace.executors():
            await anyio.sleep(0.2)
    await namespace.pods.forget(submission.key, submission.tag, handle)
    await namespace.until_nothing_is_left()


async def test_a_driver_whose_account_may_not_create_executors_says_what_to_do(namespace: Namespace) -> None:
    submission = namespace.submission(COUNTS, account="default")
    handle = await namespace.pods.submit(submission)
    status = await namespace.until_over(handle)
    assert status.exit_code == 1
    assert ":default may not " in status.reason, await namespace.log(handle)
    assert "name its account of drivers in spark.kubernetes.service_account" in status.reason
    await namespace.pods.forget(submission.key, submission.tag, handle)
    await namespace.until_nothing_is_left()
