"""The Roles that `watcher kubernetes manifest` prints are enough, on Kubernetes' own API server, and nothing less is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tests.kubernetes_api import ADMIN, KubernetesApi, running_api
from watcher.cli.app import app
from watcher.submit.kubernetes.access import DRIVER_RIGHTS, RIGHTS, access_findings, driver_findings
from watcher.submit.kubernetes.api import ApiRefused, PodApi
from watcher.submit.kubernetes.cluster import Cluster

pytestmark = pytest.mark.kubernetes
GROUPS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
}
DRIVERS = "asset-watcher-drivers"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with running_api(tmp_path_factory.mktemp("access")) as api:
        yield api


def cluster_with(cluster: KubernetesApi, token: str) -> Cluster:
    return Cluster(server=cluster.address, authority=cluster.authority.read_bytes(), token=token)


def token_of(client: httpx.Client, namespace: str, account: str) -> str:
    """A token of a service account, as its pods have one."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = client.post(f"{GROUPS['ServiceAccount'].format(namespace)}/{account}/token", json=review)
    return str(answer.raise_for_status().json()["status"]["token"])


async def test_the_printed_roles_are_exactly_what_the_program_asks_for(cluster: KubernetesApi, tmp_path: Path) -> None:
    namespace = cluster.new_namespace()
    configuration = tmp_path / "watchers.yaml"
    configuration.write_text(
        f"version: 1\nsettings: {{kubernetes: {{in_cluster: true, namespace: {namespace}}}}}\njobs: {{}}\n"
    )
    words = ["kubernetes", "manifest", "--config", str(configuration), "--json"]
    printed = CliRunner().invoke(app, words)
    assert printed.exit_code == 0, printed.output
    documents = json.loads(printed.output)["documents"]
    accounts = [each for each in documents if each["kind"] == "ServiceAccount"]
    rules = [each for each in documents if each not in accounts]
    with cluster.client() as client:
        create = {kind: path.format(namespace) for kind, path in GROUPS.items()}
        for account in accounts:
            client.post(create["ServiceAccount"], json=account).raise_for_status()
        as_daemon, as_driver = (
            cluster_with(cluster, token_of(client, namespace, account)) for account in ("asset-watcher", DRIVERS)
        )
        async with (
            as_daemon.client() as of_daemon,
            as_driver.client() as of_driver,
            cluster_with(cluster, ADMIN).client() as of_admin,
        ):
            api, drivers, all_rights = (PodApi(each, namespace) for each in (of_daemon, of_driver, of_admin))
            assert len(await access_findings(api)) == sum(map(len, RIGHTS.values()))
            [finding] = await driver_findings(all_rights, DRIVERS)
            assert finding.message.count(",") == sum(map(len, DRIVER_RIGHTS.values())) - 1
            assert f"the drivers' account {DRIVERS} may not create pods, get pods" in finding.message
            for document in rules:
                client.post(create[document["kind"]], json=document).raise_for_status()
            assert await access_findings(api) == []
            assert await driver_findings(all_rights, DRIVERS) == ()
            assert "account default" in (await driver_findings(all_rights, None))[0].message
            assert await driver_findings(api, None) == (), "the daemon's account may not ask for another"
            assert await api.cluster_id() is None, "the Role is of one namespace"
            assert (await api.list("pods", ""))["items"] == []
            assert (await drivers.list("pods", ""))["items"] == []
            with pytest.raises(ApiRefused, match="secrets is forbidden"):  # the contexts of all tries are Secrets
                await drivers.list("secrets", "")
