"""The contract's suite for every submitter of ours, and for an author's.

`WATCHER_TEST_SUBMITTER=module:function` names a function of a home folder that makes an author's submitter.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.contract.submitters import ProcessesContract, SubmitterContract
from tests.plugins.cluster_server import ADDRESS, running_cluster
from tests.plugins.remote_cluster import RemoteCluster
from tests.stand_in_kubelet import stand_in_kubelet
from tests.stand_in_kubernetes import stand_in_kubernetes
from tests.stand_in_spark import stand_in_spark
from tests.unit.submit.fixtures import new_try, switchboard
from tests.unit.submit.kubernetes_pods import NAMESPACE, kubernetes_pods, write_kubeconfig
from tests.unit.submit.plain import workspace
from tests.unit.submit.test_pod_wrapper import Renewals
from watcher.features.kubernetes.options import KubernetesOptions
from watcher.submit.base import Submission, Submitter

__all__ = ["new_try", "switchboard"]

OF_AN_AUTHOR = os.environ.get("WATCHER_TEST_SUBMITTER")
SPARK_SUBMIT = "tests.unit.submit.plain:spark_submit"
STARTS_WARM = "tests.unit.submit.warm:starts_warm"


def remote_cluster(home: Path) -> RemoteCluster:
    return RemoteCluster(workspace(home))


class TestSparkSubmitWithAStandIn(SubmitterContract):
    factory = SPARK_SUBMIT

    @pytest.fixture
    def new_try(self, new_try: Callable[..., Submission], tmp_path: Path) -> Callable[..., Submission]:
        environment = {"SPARK_HOME": str(stand_in_spark(tmp_path))}

        def make(text: str, **more: Any) -> Submission:
            return new_try(text, env=environment, **more)

        return make


class TestWarmDriversWithAStandIn(TestSparkSubmitWithAStandIn):
    factory = STARTS_WARM


@pytest.mark.spark
class TestSparkSubmit(ProcessesContract):
    """The part that the JVMs between the shim and the job could change; the rest is the same with the stand-in."""

    factory = SPARK_SUBMIT


@pytest.mark.spark
class TestWarmDrivers(ProcessesContract):
    factory = STARTS_WARM


class TestRemoteCluster(SubmitterContract):
    """A third party's submitter, whose drivers run on another machine than the daemon."""

    factory = "tests.contract.test_submitters:remote_cluster"

    @pytest.fixture(autouse=True)
    def _cluster(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with running_cluster(tmp_path / "cluster") as address:
            monkeypatch.setenv(ADDRESS, address)
            yield


class TestPodsWithAStandIn(SubmitterContract):
    """Pods of a stand-in for Kubernetes, whose wrappers run on this machine with a stand-in for Spark."""

    factory = "tests.unit.submit.kubernetes_pods:kubernetes_pods"
    keys: ClassVar[Mapping[str, Any]] = {"image": "driver:1"}

    @pytest.fixture
    async def submitter(self, tmp_path: Path) -> AsyncIterator[Submitter]:
        pods = kubernetes_pods(tmp_path / "home")
        yield pods
        await pods.close()

    @pytest.fixture(autouse=True)
    def _cluster(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with stand_in_kubernetes() as kubernetes:
            namespace = kubernetes.new_namespace()
            monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, kubernetes.address)))
            monkeypatch.setenv(NAMESPACE, namespace)
            with stand_in_kubelet(kubernetes, namespace, tmp_path / "node"):
                yield

    @pytest.fixture
    def new_try(self, new_try: Callable[..., Submission], tmp_path: Path) -> Iterator[Callable[..., Submission]]:
        more = {"env": {"SPARK_HOME": str(stand_in_spark(tmp_path))}, "python": sys.executable}
        options = KubernetesOptions.model_validate({"kubernetes": self.keys})
        with Renewals() as api:
            threading.Thread(target=api.serve_forever, daemon=True).start()
            context = {"api": f"http://127.0.0.1:{api.server_port}", "token": "secret-token"}
            yield lambda text: new_try(text, options=options, context=context, **more)
            api.shutdown()


class TestPodsWithExecutorsAndAStandIn(TestPodsWithAStandIn):
    keys: ClassVar[Mapping[str, Any]] = {"image": "driver:1", "executor": {"memory": "1Gi"}}


if OF_AN_AUTHOR:

    class TestAnAuthors(SubmitterContract):
        factory = OF_AN_AUTHOR
