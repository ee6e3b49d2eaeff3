"""Another cluster or namespace is refused while tries are open, and missing rights are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update

from config.features.kubernetes.settings import KubernetesSettings
from store.database import Database
from store.database.schema import database_now, task_try
from tests.service.store.test_tries import intend, queued_task
from tests.stand_in_kubernetes import StandInKubernetes, stand_in_kubernetes
from tests.unit.submit.kubernetes_pods import NAMESPACE, kubernetes_pods, write_kubeconfig
from tests.unit.submit.plain import make_submission
from watcher.errors import StartRefused
from watcher.features.kubernetes.cluster_check import check_cluster
from watcher.submit.kubernetes.options import KubernetesOptions
from watcher.submit.kubernetes.submitter import ClusterUnknown

SETTINGS = KubernetesSettings(context="test", namespace="spark")


async def check(
    database: Database, folder: Path, kubernetes: StandInKubernetes, settings: KubernetesSettings = SETTINGS
) -> None:
    config = write_kubeconfig(folder, kubernetes.address)
    await check_cluster(database, settings, {"KUBECONFIG": str(config)})


async def test_drivers_are_not_left_behind_in_another_place(database: Database, tmp_path: Path) -> None:
    with stand_in_kubernetes() as one, stand_in_kubernetes() as another:
        await check(database, tmp_path, one)
        await intend(database, await queued_task(database))
        async with database.transaction() as connection:
            await connection.execute(update(task_try).values(submitter="kubernetes"))
        await check(database, tmp_path, one)
        with pytest.raises(StartRefused, match=f"1 try is open at {one.address}, namespace spark"):
            await check(database, tmp_path, another)
        with pytest.raises(StartRefused, match="namespace other, and 1 try is open"):
            await check(database, tmp_path, one, replace_namespace("other"))
        another.uid = one.uid  # the same cluster by another address
        await check(database, tmp_path, another)
        async with database.transaction() as connection:
            await connection.execute(update(task_try).values(ended_at=database_now()))
        await check(database, tmp_path, one, replace_namespace("other"))


async def test_a_kubeconfig_that_is_gone_says_nothing_of_a_try(tmp_path: Path) -> None:
    """A `SubmitError` would end the try, and its driver may run."""
    submission = make_submission("1", tmp_path / "job.py")
    pods = kubernetes_pods(tmp_path, {"KUBECONFIG": str(tmp_path / "none"), NAMESPACE: "spark"})
    with pytest.raises(ClusterUnknown):
        await pods.attach(submission.key, submission.tag, None)
    with pytest.raises(ClusterUnknown):
        await pods.poll({"pod": "aw-1", "uid": "u", "tag": submission.tag})


def replace_namespace(name: str) -> KubernetesSettings:
    return SETTINGS.model_copy(update={"namespace": name})


async def test_missing_rights_and_files_are_findings(tmp_path: Path) -> None:
    options = KubernetesOptions.model_validate({"kubernetes": {"image": "x"}})
    missing = make_submission("1", tmp_path / "job.py", options=options).application
    with stand_in_kubernetes() as kubernetes:
        kubernetes.forbidden = {("get", "pods/log"), ("deletecollection", "secrets")}
        config = write_kubeconfig(tmp_path, kubernetes.address)
        pods = kubernetes_pods(tmp_path, {"KUBECONFIG": str(config), NAMESPACE: "spark"})
        [finding] = await pods.check(missing)
        assert "job.py cannot be read" in finding.message
        (tmp_path / "job.py").touch()
        lines = [finding.message for finding in await pods.check(missing)]
        assert lines == [
            "the daemon's account may not get pods/log in the namespace spark",
            "the daemon's account may not deletecollection secrets in the namespace spark",
        ]
        await pods.close()


async def test_what_the_drivers_account_may_not_do_is_a_finding_where_we_may_ask(tmp_path: Path) -> None:
    (tmp_path / "job.py").touch()
    keys = {"image": "x", "executor": {}, "service_account": "drivers"}
    options = KubernetesOptions.model_validate({"kubernetes": keys})
    application = make_submission("1", tmp_path / "job.py", options=options).application
    with stand_in_kubernetes() as kubernetes:
        drivers = "system:serviceaccount:spark:drivers"
        kubernetes.forbidden = {(drivers, "create", "pods"), (drivers, "deletecollection", "configmaps")}
        config = write_kubeconfig(tmp_path, kubernetes.address)
        pods = kubernetes_pods(tmp_path, {"KUBECONFIG": str(config), NAMESPACE: "spark"})
        [finding] = await pods.check(application)
        missing = "create pods, deletecollection configmaps"
        assert finding.message == f"the drivers' account drivers may not {missing} in the namespace spark"
        kubernetes.forbidden |= {("create", "localsubjectaccessreviews")}
        assert list(await pods.check(application)) == []
        await pods.close()
