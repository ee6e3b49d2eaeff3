"""A namespace of Kubernetes' API server, or of the stand-in, for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.kubernetes_accounts import daemon_token
from tests.kubernetes_api import ADMIN, KubernetesApi, running_api
from tests.stand_in_kubernetes import stand_in_kubernetes
from watcher.features.kubernetes.cluster import Cluster
from watcher.features.kubernetes.connection import ApiConnection

REAL = pytest.param("real", marks=pytest.mark.kubernetes)


@dataclass(frozen=True, kw_only=True)
class RunningApi:
    address: str
    new_namespace: Callable[[], str]
    daemon_token: Callable[[str], str]
    """Gives the daemon its rights in a namespace, and returns its account's token."""
    authority: Path | None = None

    def cluster(self, token: str = ADMIN) -> Cluster:
        authority = None if self.authority is None else self.authority.read_bytes()
        return Cluster(server=self.address, authority=authority, token=token)


@pytest.fixture(scope="session", params=["stand-in", REAL])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApi]:
    if request.param == "real":
        with running_api(tmp_path_factory.mktemp("kubernetes")) as real:
            yield RunningApi(
                address=real.address,
                new_namespace=real.new_namespace,
                daemon_token=partial(_daemon_token, real),
                authority=real.authority,
            )
    else:
        with stand_in_kubernetes() as stand_in:
            yield RunningApi(
                address=stand_in.address, new_namespace=stand_in.new_namespace, daemon_token=lambda _namespace: ADMIN
            )


def _daemon_token(api: KubernetesApi, namespace: str) -> str:
    with api.client() as administrator:
        return daemon_token(administrator, namespace)


@pytest.fixture
def api(running: RunningApi) -> Iterator[httpx.Client]:
    """Requests in a namespace of the test's own."""
    url = f"{running.address}/api/v1/namespaces/{running.new_namespace()}"
    headers = {"Authorization": f"Bearer {ADMIN}"}
    with httpx.Client(base_url=url, verify=False, trust_env=False, headers=headers) as client:  # noqa: S501  a test's own server
        yield client


@pytest.fixture
async def connection(running: RunningApi) -> AsyncIterator[ApiConnection]:
    """A daemon's connection to the same server, as an administrator."""
    async with running.cluster().connection() as connection:
        yield connection


def bind(api: httpx.Client, pod: str) -> None:
    """Give a pod to a node, as the scheduler does."""
    if api.base_url.scheme == "https":
        target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        api.post(f"/pods/{pod}/binding", json=binding).raise_for_status()
    else:
        api.patch(f"/pods/{pod}", json={"spec": {"nodeName": "n1"}}).raise_for_status()


def namespace_of(api: httpx.Client) -> str:
    return api.base_url.path.rstrip("/").rpartition("/")[2]
