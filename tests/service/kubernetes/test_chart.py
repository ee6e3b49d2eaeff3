"""The chart in deploy/helm: Kubernetes takes what it renders, the program takes what it is given, and both name the same rights."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from config.features.kubernetes.settings import KubernetesPart
from config.reading.loader import load
from tests.effort import PATIENCE
from tests.helm_chart import CHART, ROOT, HelmFailed, documents, helm, refusals, rendered, write_schemas
from tests.kubernetes_api import KubernetesApi, programs, running_api
from tests.kubernetes_node import write_kubeconfig
from watcher.cli.app import app
from watcher.configuration.vocabulary import vocabulary
from watcher.submit.kubernetes import names

pytestmark = pytest.mark.kubernetes
RELEASE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
LABELS = {"app.kubernetes.io/name": "asset-watcher", "app.kubernetes.io/instance": "watcher"}
FULL = {
    "configuration": "version: 1\njobs: {}\n",
    "files": {"load.py": "print('{{ not a template }}')\n"},
    "replicas": 2,
    "database": {"secret": "database", "key": "address"},
    "apiSecret": {"secret": "api", "key": "secret"},
    "persistence": {"storageClass": "fast"},
    "env": [{"name": "WATCHER_SETTINGS__LOGS__LEVEL", "value": "warning"}],
    "envFrom": [{"secretRef": {"name": "lake"}}],
    "volumes": [{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}],
    "volumeMounts": [{"name": "lake", "mountPath": "/lake"}],
    "podSpec": {"nodeSelector": {"disk": "local"}, "tolerations": [{"key": "spark", "operator": "Exists"}]},
    "ingress": {"enabled": True, "host": "watcher.example.com", "tlsSecret": "tls", "annotations": {"a": "b"}},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
        "egress": [{"ports": [{"port": 5432}]}],
        "driverEgress": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
}
PLURALS = {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"}
CASES = pytest.mark.parametrize("values", [{}, FULL], ids=["default", "everything"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """A real API server, which has Prometheus' operator's kind too."""
    with running_api(tmp_path_factory.mktemp("kubernetes")) as server, server.client() as client:
        kind = json.loads((programs() / "servicemonitor.json").read_text())
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=kind).raise_for_status()

        async def until_served() -> None:
            with anyio.fail_after(PATIENCE):
                while "ServiceMonitor" not in client.get("/openapi/v3/apis/monitoring.coreos.com/v1").text:
                    await anyio.sleep(0.1)

        anyio.run(until_served)
        yield server


@pytest.fixture(scope="module")
def schemas(server: KubernetesApi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    with server.client() as client:
        write_schemas(client, folder)
    return folder


def stateful_pod(objects: Mapping[str, Any]) -> Any:
    return objects["StatefulSet/watcher"]["spec"]["template"]["spec"]


def variables(objects: Mapping[str, Any]) -> dict[str, str]:
    """Return the container's variables, with an example for each that is in a Secret."""
    examples = {"database": "postgresql+asyncpg://user@host/database", "api": "s" * 32}
    return {
        each["name"]: each.get("value") or examples[each["valueFrom"]["secretKeyRef"]["name"]]
        for each in stateful_pod(objects)["containers"][0]["env"]
    }


def test_helm_has_nothing_against_the_chart() -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_the_chart_is_of_the_version_of_the_program() -> None:
    chart = YAML(typ="safe").load(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (RELEASE, RELEASE)


@CASES
def test_kubernetes_takes_what_is_rendered(values: Mapping[str, Any], schemas: Path, tmp_path: Path) -> None:
    assert refusals(rendered(tmp_path, values), schemas) == ""


def test_a_misspelt_key_would_not_be_taken(schemas: Path, tmp_path: Path) -> None:
    text = rendered(tmp_path, {}).replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")
    assert "additional properties 'readOnlyRootFileSystem' not allowed" in refusals(text, schemas)


@CASES
def test_the_program_takes_its_configuration_and_variables(values: Mapping[str, Any], tmp_path: Path) -> None:
    objects = documents(rendered(tmp_path, values))
    files = objects["ConfigMap/watcher"]["data"]
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    loaded = load(tmp_path / "watchers.yaml", vocabulary(), variables(objects), with_files=True)
    settings = loaded.settings
    assert loaded.warnings == ()
    kubernetes = settings.part(KubernetesPart).kubernetes
    assert kubernetes is not None
    assert (kubernetes.in_cluster, kubernetes.namespace) == (True, "spark")
    assert str(kubernetes.api_url) == "http://watcher.spark:8795"
    assert settings.triggerer.grace.total_seconds() < stateful_pod(objects)["terminationGracePeriodSeconds"]
    assert (settings.api.base_url is None) is (values == {})
    assert (settings.database.url is None) is (values == {})
    assert {**files, "watchers.yaml": ""} == {**values.get("files", {}), "watchers.yaml": ""}


def test_the_roles_are_those_that_the_program_prints(tmp_path: Path) -> None:
    configuration = tmp_path / "watchers.yaml"
    configuration.write_text("version: 1\nsettings: {kubernetes: {in_cluster: true, namespace: spark}}\njobs: {}\n")
    words = ["kubernetes", "manifest", "--config", str(configuration), "--account", "watcher", "--json"]
    printed = json.loads(CliRunner().invoke(app, words).output)["documents"]
    objects = documents(rendered(tmp_path, {}))
    for document in printed:
        of_chart = objects.pop(f"{document['kind']}/{document['metadata']['name']}")
        assert {**of_chart, "metadata": document["metadata"]} == document
    assert not any("Role" in name or "ServiceAccount" in name for name in objects)
    assert stateful_pod(objects)["serviceAccountName"] == "watcher"


def test_a_daemon_whose_drivers_are_no_pods_has_no_rights_in_the_cluster(tmp_path: Path) -> None:
    objects = documents(rendered(tmp_path, {"driverPods": {"enabled": False}, "networkPolicy": {"enabled": True}}))
    assert sorted(objects) == ["ConfigMap/watcher", "NetworkPolicy/watcher", "Service/watcher", "StatefulSet/watcher"]
    pod = stateful_pod(objects)
    assert (pod["automountServiceAccountToken"], pod.get("serviceAccountName")) == (False, None)
    assert not any("KUBERNETES" in name for name in variables(objects))


def test_what_is_optional_is_left_out_and_a_volume_is_not(tmp_path: Path) -> None:
    kinds = {name.partition("/")[0] for name in documents(rendered(tmp_path, {}))}
    assert kinds.isdisjoint({"Ingress", "NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor", "Secret"})
    everything = documents(rendered(tmp_path, FULL))
    assert {"Ingress/watcher", "PodDisruptionBudget/watcher", "ServiceMonitor/watcher"} <= everything.keys()
    [claim] = everything["StatefulSet/watcher"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"


@CASES
def test_the_container_has_no_unneeded_rights(values: Mapping[str, Any], tmp_path: Path) -> None:
    pod = stateful_pod(documents(rendered(tmp_path, values)))
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert container["image"] == f"asset-watcher:{RELEASE}"
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert {"/etc/watcher", "/var/lib/watcher", "/tmp"} <= mounts.keys()  # noqa: S108
    assert set(mounts.values()) == {"state", *(volume["name"] for volume in pod["volumes"])}


def test_whatever_selects_the_daemon_or_its_drivers_selects_them(tmp_path: Path) -> None:
    objects = documents(rendered(tmp_path, FULL))
    pod = objects["StatefulSet/watcher"]["spec"]["template"]
    assert LABELS.items() <= pod["metadata"]["labels"].items()
    assert {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]} == {"http": 8795}
    driver, selected = names.labels("tag", "installation"), "app.kubernetes.io/managed-by"
    assert driver[selected] != pod["metadata"]["labels"][selected]
    assert objects["Service/watcher"]["spec"]["selector"] == LABELS
    assert LABELS.items() <= objects["Service/watcher"]["metadata"]["labels"].items(), "for the ServiceMonitor"
    for name in ("PodDisruptionBudget/watcher", "ServiceMonitor/watcher", "StatefulSet/watcher"):
        assert objects[name]["spec"]["selector"] == {"matchLabels": LABELS}
    of_daemon, of_drivers = (objects[f"NetworkPolicy/watcher{each}"]["spec"] for each in ("", "-drivers"))
    drivers = {"matchLabels": {selected: driver[selected]}}
    assert (of_daemon["podSelector"], of_drivers["podSelector"]) == ({"matchLabels": LABELS}, drivers)
    assert {"podSelector": drivers} in of_daemon["ingress"][0]["from"]
    assert {"ports": [{"port": 8795}], "to": [{"podSelector": {"matchLabels": LABELS}}]} in of_drivers["egress"]
    for policy in (of_daemon, of_drivers):
        assert {"ports": [{"port": 443}, {"port": 6443}]} in policy["egress"]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"replicas": 2}, "set database.secret and apiSecret.secret"),
        ({"ingress": {"enabled": True}}, "set ingress.host"),
        ({"image": {"tagg": "1"}}, "additional properties 'tagg' not allowed"),
        ({"files": {"watchers.yaml": "version: 1"}}, "invalid propertyName 'watchers.yaml'"),
        ({"podSpec": {"volumes": []}}, "invalid propertyName 'volumes'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_values_that_cannot_work_are_refused(values: Mapping[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(HelmFailed, match=re.escape(sentence)):
        rendered(tmp_path, values)


def test_the_schema_has_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = YAML(typ="safe").load(CHART / "values.yaml")
    assert schema["properties"].keys() == {"global", *values}
    for name, value in values.items():
        if "properties" in schema["properties"][name]:
            assert schema["properties"][name]["properties"].keys() == value.keys()


def test_an_upgrade_changes_what_was_asked_for_and_nothing_else_and_its_end_leaves_no_object(
    server: KubernetesApi, tmp_path: Path
) -> None:
    """Helm itself, and the API server that decides what may be changed. There is no node, so no pod comes of it."""
    namespace = server.new_namespace()
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server, server.address)
    release = ["watcher", "--namespace", namespace, "--kubeconfig", str(kubeconfig)]

    def deploy(word: str, values: Mapping[str, Any], *words: str) -> None:
        (tmp_path / "values.json").write_text(json.dumps(values))
        helm(word, release[0], str(CHART), *release[1:], "--values", str(tmp_path / "values.json"), *words)

    def objects() -> dict[str, Any]:
        manifest = helm("get", "manifest", *release)
        with server.client() as client:
            return {name: read(client, namespace, each) for name, each in documents(manifest).items()}

    deploy("install", {"resources": {"requests": {"cpu": "2"}}})
    before = objects()
    deploy("upgrade", {"configuration": "version: 1\njobs: {}\n"}, "--reset-then-reuse-values")
    after = objects()
    assert {name: each["metadata"]["uid"] for name, each in after.items()} == {
        name: each["metadata"]["uid"] for name, each in before.items()
    }
    changed = {name for name, each in after.items() if {**each, "metadata": {}} != {**before[name], "metadata": {}}}
    assert changed == {"ConfigMap/watcher", "StatefulSet/watcher"}
    assert stateful_pod(after)["containers"] == stateful_pod(before)["containers"], (
        "with the values of the installation"
    )
    deploy("upgrade", {name: value for name, value in FULL.items() if name != "persistence"})
    assert {"Ingress/watcher", "NetworkPolicy/watcher", "PodDisruptionBudget/watcher"} <= objects().keys()
    with pytest.raises(HelmFailed, match="updates to statefulset spec"):
        deploy("upgrade", {"persistence": {"size": "20Gi"}}, "--reset-then-reuse-values")
    helm("rollback", *release)
    deploy("upgrade", {"replicas": 1}, "--reset-then-reuse-values")
    helm("uninstall", *release, "--wait")
    with server.client() as client:
        assert [name for name, each in after.items() if read(client, namespace, each) is not None] == []


def read(client: httpx.Client, namespace: str, document: Mapping[str, Any]) -> Any:
    """The object as the API server has it; None if there is none."""
    version, plural = document["apiVersion"], PLURALS.get(document["kind"], document["kind"].lower() + "s")
    path = f"/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/{namespace}/{plural}"
    answer = client.get(f"{path}/{document['metadata']['name']}")
    return answer.json() if answer.is_success else None
