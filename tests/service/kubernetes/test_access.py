"""The Role that `watcher kubernetes manifest` prints is enough, on Kubernetes' own API server, and nothing less is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kubernetes_api import KubernetesApi, running_api
from watcher.cli.app import app
from watcher.submit.kubernetes.access import RIGHTS, access_findings
from watcher.submit.kubernetes.api import PodApi
from watcher.submit.kubernetes.cluster import Cluster

pytestmark = pytest.mark.kubernetes
GROUPS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with running_api(tmp_path_factory.mktemp("access")) as api:
        yield api


async def test_the_printed_role_is_exactly_what_the_daemon_asks_for(cluster: KubernetesApi, tmp_path: Path) -> None:
    namespace = cluster.new_namespace()
    configuration = tmp_path / "watchers.yaml"
    configuration.write_text(
        f"version: 1\nsettings: {{kubernetes: {{in_cluster: true, namespace: {namespace}}}}}\njobs: {{}}\n"
    )
    words = ["kubernetes", "manifest", "--config", str(configuration), "--json"]
    printed = CliRunner().invoke(app, words)
    assert printed.exit_code == 0, printed.output
    account, *rules = json.loads(printed.output)["documents"]
    with cluster.client() as client:
        create = {kind: path.format(namespace) for kind, path in GROUPS.items()}
        client.post(create["ServiceAccount"], json=account).raise_for_status()
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
        answer = client.post(f"{create['ServiceAccount']}/{account['metadata']['name']}/token", json=review)
        token = answer.raise_for_status().json()["status"]["token"]
        pods = Cluster(server=cluster.address, authority=cluster.authority.read_bytes(), token=token)
        async with pods.client() as as_daemon:
            api = PodApi(as_daemon, namespace)
            assert len(await access_findings(api)) == sum(map(len, RIGHTS.values()))
            for document in rules:
                client.post(create[document["kind"]], json=document).raise_for_status()
            assert await access_findings(api) == []
            assert await api.cluster_id() is None, "the Role is of one namespace"
            assert (await api.list("pods", ""))["items"] == []
