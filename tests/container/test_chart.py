"""The page about Kubernetes, typed on a real node: from an empty cluster to a run's log, with Spark itself in a pod."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from ruamel.yaml import YAML

from tests.container.engine import ROOT, podman
from tests.effort import PATIENCE
from tests.kubernetes_api import GATEWAY, KubernetesApi, programs
from tests.kubernetes_node import load_image, running_node
from tests.pages import run_block, shell_blocks
from watcher.host.machine import program_version

pytestmark = [pytest.mark.container, pytest.mark.kubernetes, pytest.mark.slow]
IMAGE = "localhost/asset-watcher"
DRIVERS = "app.kubernetes.io/managed-by=asset-watcher"


@pytest.fixture
def node(image: str, tmp_path: Path) -> Iterator[KubernetesApi]:
    """A node with the image, and with two volumes that nobody has claimed."""
    archive = tmp_path / "image.tar"
    with running_node(tmp_path) as api:
        podman("tag", image, f"{IMAGE}:{program_version()}")
        try:
            podman("save", "--format=docker-archive", f"--output={archive}", f"{IMAGE}:{program_version()}")
        finally:
            podman("untag", image, f"{IMAGE}:{program_version()}", code=None)
        load_image(tmp_path, archive)
        archive.unlink()
        with api.client() as client:
            for volume in ("lake", "state"):
                (tmp_path / volume).mkdir()
                client.post("/api/v1/persistentvolumes", json=persistent_volume(tmp_path / volume)).raise_for_status()
        yield api


def persistent_volume(folder: Path) -> Mapping[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["localhost"]}
    return {
        "metadata": {"name": folder.name},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def addresses(api: KubernetesApi) -> Mapping[str, Any]:
    """The values that stand in for what this node lacks: kube-proxy, which Services need, and DNS."""
    variables = {"KUBERNETES_SERVICE_HOST": GATEWAY, "KUBERNETES_SERVICE_PORT": api.address.rpartition(":")[2]}
    own_address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return {
        "env": [*({"name": name, "value": value} for name, value in variables.items()), own_address],
        "driverPods": {"apiUrl": "http://$(POD_IP):8795"},
    }


class Reader:
    """Somebody who has cloned the project, changes the name of the image and values of the example, and types the page's blocks."""

    def __init__(self, api: KubernetesApi, folder: Path) -> None:
        self._folder = folder / "clone"
        for name in ("deploy/helm", "examples/kubernetes", "examples/quickstart/inbox"):
            shutil.copytree(ROOT / name, self._folder / name)
        example = self._folder / "examples" / "kubernetes"
        text = (example / "watchers.yaml").read_text(encoding="utf-8")
        (example / "watchers.yaml").write_text(text.replace("image: asset-watcher:", f"image: {IMAGE}:"))
        with (example / "values.yaml").open("a", encoding="utf-8") as values:
            YAML().dump({"image": {"repository": IMAGE}, **addresses(api)}, values)
        path = f"{programs()}:{os.environ['PATH']}"
        self._environment = {"PATH": path, "KUBECONFIG": str(api.folder / "kubeconfig"), "HOME": str(folder)}

    def types(self, block: str) -> str:
        return run_block(block, self._folder, self._environment)

    def names(self, kinds: str, *words: str) -> list[str]:
        listed = self.types(f"kubectl --namespace spark get {kinds} --output name {' '.join(words)}")
        return listed.split()


async def until_empty(reader: Reader, kinds: str, *words: str) -> None:
    with anyio.fail_after(PATIENCE):
        while await anyio.to_thread.run_sync(reader.names, kinds, *words):
            await anyio.sleep(0.5)


def test_the_page_leads_from_an_empty_cluster_to_the_log_of_a_run(node: KubernetesApi, tmp_path: Path) -> None:
    reader = Reader(node, tmp_path)
    install, put_file, read_log, remove = shell_blocks("docs/kubernetes.md")
    checked = reader.types(install)
    assert "load_orders: can start" in checked
    reader.types(put_file)
    [pod] = reader.names("pods", "--selector", DRIVERS)
    assert "3 rows of 1 files loaded" in reader.types(f"kubectl --namespace spark logs {pod}")
    log = reader.types(read_log)
    assert "3 rows of 1 files loaded" in log
    assert "run.ended state=success" in log
    assert len(list((tmp_path / "lake" / "orders").glob("run=*/*.parquet"))) == 1
    assert reader.names("secrets", "--selector", DRIVERS) == [], "the Secret goes when the container has ended"

    reader.types("kubectl --namespace spark delete pod watcher-0")
    reader.types("kubectl --namespace spark rollout status statefulset watcher --timeout 300s")
    assert "3 rows of 1 files loaded" in reader.types(read_log), "the home is on its volume, and is taken again"

    reader.types(remove)
    anyio.run(until_empty, reader, "persistentvolumeclaims,pods,secrets,statefulsets")
    with node.client() as client:
        assert client.get("/api/v1/namespaces/spark").status_code == 404
