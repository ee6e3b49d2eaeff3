"""The Roles that `watcher kubernetes manifest` prints are enough, on Kubernetes' own API server, and nothing less is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubernetes_accounts import DAEMON, DRIVERS, apply, printed_documents, token_of
from tests.kubernetes_api import ADMIN, KubernetesApi, running_api
from watcher.features.kubernetes.access import DRIVER_RIGHTS, RIGHTS, access_findings, driver_findings
from watcher.features.kubernetes.api import PodApi
from watcher.features.kubernetes.cluster import Cluster
from watcher.features.kubernetes.refusals import ApiRefused

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with running_api(tmp_path_factory.mktemp("access")) as api:
        yield api


def cluster_with(cluster: KubernetesApi, token: str) -> Cluster:
    return Cluster(server=cluster.address, authority=cluster.authority.read_bytes(), token=token)


async def test_the_printed_roles_are_exactly_what_the_program_asks_for(cluster: KubernetesApi) -> None:
    namespace = cluster.new_namespace()
    documents = printed_documents(namespace)
    accounts = [each for each in documents if each["kind"] == "ServiceAccount"]
    rules = [each for each in documents if each not in accounts]
    with cluster.client() as client:
        apply(client, namespace, accounts)
        as_daemon, as_driver = (
            cluster_with(cluster, token_of(client, namespace, account)) for account in (DAEMON, DRIVERS)
        )
        async with (
            as_daemon.connection() as of_daemon,
            as_driver.connection() as of_driver,
            cluster_with(cluster, ADMIN).connection() as of_admin,
        ):
            api, drivers, all_rights = (PodApi(each, namespace) for each in (of_daemon, of_driver, of_admin))
            assert len(await access_findings(api)) == sum(map(len, RIGHTS.values()))
            [finding] = await driver_findings(all_rights, DRIVERS)
            assert finding.message.count(",") == sum(map(len, DRIVER_RIGHTS.values())) - 1
            assert f"the drivers' account {DRIVERS} may not create pods, get pods" in finding.message
            apply(client, namespace, rules)
            assert await access_findings(api) == []
            assert await driver_findings(all_rights, DRIVERS) == ()
            assert "account default" in (await driver_findings(all_rights, None))[0].message
            assert await driver_findings(api, None) == (), "the daemon's account may not ask for another"
            assert await api.cluster_id() is None, "the Role is of one namespace"
            assert (await api.list("pods", ""))["items"] == []
            assert (await drivers.list("pods", ""))["items"] == []
            with pytest.raises(ApiRefused, match="secrets is forbidden"):  # the contexts of all tries are Secrets
                await drivers.list("secrets", "")
