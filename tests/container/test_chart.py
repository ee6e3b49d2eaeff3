"""The page about Kubernetes, typed on a real node: from an empty cluster to a run's log, with Spark itself in a pod."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from ruamel.yaml import YAML
from sqlalchemy import make_url

from tests.container.engine import ROOT, podman
from tests.kubernetes_api import GATEWAY, KubernetesApi, programs
from tests.kubernetes_node import local_volume, running_node
from tests.kubernetes_services import running_services
from tests.pages import run_block, shell_blocks
from tests.servers import running_postgres
from watcher.host.machine import program_version

pytestmark = [pytest.mark.container, pytest.mark.kubernetes, pytest.mark.slow]
IMAGE = "localhost/asset-watcher"
DRIVERS = "app.kubernetes.io/managed-by=asset-watcher"
UIDS = f"kubectl --namespace spark get pods --selector {DRIVERS} --output jsonpath='{{.items[*].metadata.uid}}'"
READY = "kubectl --namespace spark rollout status statefulset watcher --timeout 300s"
PROCESS = "kubectl --namespace spark get pod watcher-0 --output jsonpath='{.metadata.uid}'"
LOADED = "3 rows of 1 files loaded"


@pytest.fixture(scope="module")
def node(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    """A node with Services and the image."""
    folder, name = tmp_path_factory.mktemp("node"), f"{IMAGE}:{program_version()}"
    archive = folder / "image.tar"
    with running_node(folder) as api, running_services(api):
        podman("tag", image, name)
        try:
            podman("save", "--format=docker-archive", f"--output={archive}", name)
        finally:
            podman("untag", image, name, code=None)
        api.load(archive)
        archive.unlink()
        yield api


class Reader:
    """Somebody who has cloned the project, changes the image's name and values of the example, and types the page's blocks."""

    def __init__(self, api: KubernetesApi, folder: Path) -> None:
        self._folder = folder / "clone"
        for name in ("deploy/helm", "examples/kubernetes", "examples/quickstart/inbox"):
            shutil.copytree(ROOT / name, self._folder / name)
        example = self._folder / "examples" / "kubernetes"
        self._values, self._configuration = example / "values.yaml", example / "watchers.yaml"
        self.changes("image: asset-watcher:", f"image: {IMAGE}:")
        self.gives({"image": {"repository": IMAGE}})
        path = f"{programs()}:{os.environ['PATH']}"
        self._environment = {"PATH": path, "KUBECONFIG": str(api.folder / "kubeconfig"), "HOME": str(folder)}

    def changes(self, before: str, after: str) -> None:
        """Change the example's configuration."""
        text = self._configuration.read_text(encoding="utf-8")
        assert before in text
        self._configuration.write_text(text.replace(before, after), encoding="utf-8")

    def gives(self, values: Mapping[str, Any]) -> None:
        with self._values.open("a", encoding="utf-8") as file:
            YAML().dump(values, file)

    def types(self, block: str) -> str:
        return run_block(block, self._folder, self._environment)

    def names(self, kinds: str, *words: str) -> list[str]:
        listed = self.types(f"kubectl --namespace spark get {kinds} --output name {' '.join(words)}")
        return listed.split()


@pytest.fixture
def reader(node: KubernetesApi, tmp_path: Path) -> Iterator[Reader]:
    """A reader whose cluster has volumes that nobody has claimed, and no namespace `spark`."""
    with node.client() as client:
        for name in ("lake", "one", "two"):
            folder = tmp_path / f"{name}-{uuid4().hex[:8]}"
            folder.mkdir()
            client.post("/api/v1/persistentvolumes", json=local_volume(folder)).raise_for_status()
        yield Reader(node, tmp_path)
        client.delete("/api/v1/persistentvolumes").raise_for_status()


@pytest.fixture
def metadata_url() -> Iterator[str]:
    """The address of a PostgreSQL as pods reach it."""
    with running_postgres(listen_addresses="*") as server, server.database() as database:
        with psycopg.connect(server.dsn()) as connection:
            row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        with Path(row[0]).open("a", encoding="utf-8") as rules:
            rules.write(f"host all all {GATEWAY}/24 trust\n")
        server.execute("SELECT pg_reload_conf()")
        yield make_url(database.sqlalchemy_url).set(host=GATEWAY).render_as_string(hide_password=False)


INSTALL, PUT_FILE, READ_LOG, UPGRADE, REMOVE = shell_blocks("docs/kubernetes.md")


def commands(block: str) -> list[str]:
    return re.findall(r"(?:.*\\\n)*.*\n", block)


def test_the_page_leads_from_an_empty_cluster_to_the_log_of_a_run(
    node: KubernetesApi, reader: Reader, tmp_path: Path
) -> None:
    assert "load_orders: can start" in reader.types(INSTALL)
    reader.types(PUT_FILE)
    [pod] = reader.names("pods", "--selector", DRIVERS)
    assert LOADED in reader.types(f"kubectl --namespace spark logs {pod}")
    log = reader.types(READ_LOG)
    assert LOADED in log
    assert "run.ended state=success" in log
    assert len(list(tmp_path.glob("*/orders/run=*/*.parquet"))) == 1
    assert reader.names("secrets", "--selector", DRIVERS) == [], "the Secret goes when the container has ended"

    reader.changes("retries: 3", "retries: 4")
    before = reader.types(PROCESS)
    reader.types(UPGRADE + READY)
    assert reader.types(PROCESS) != before, "a change of the configuration restarts the process"
    assert LOADED in reader.types(READ_LOG), "the home is on its volume, and is taken again"

    reader.types(REMOVE)
    with node.client() as client:
        assert client.get("/api/v1/namespaces/spark").status_code == 404


def test_a_driver_outlives_the_process_that_started_it(reader: Reader, metadata_url: str) -> None:
    """Two processes share a PostgreSQL and the logs. The one that leads is killed while Spark runs in its pod."""
    reader.gives(
        {
            "replicas": 2,
            "database": {"secret": "database"},
            "apiSecret": {"secret": "api"},
            "env": [{"name": "WATCHER_SETTINGS__LOGS__DIRECTORY", "value": "/lake/logs"}],
        }
    )
    namespace, *install = commands(INSTALL)
    reader.types(namespace)
    reader.types(f"kubectl --namespace spark create secret generic database --from-literal=url={metadata_url}")
    reader.types(f"kubectl --namespace spark create secret generic api --from-literal=secret={'s' * 32}")
    assert "load_orders: can start" in reader.types("".join(install))
    copy, created, *ended = commands(PUT_FILE)
    reader.types(copy + created)
    reader.types(f"kubectl --namespace spark wait --for=condition=Ready --timeout=300s pod --selector {DRIVERS}")
    drivers = reader.types(UIDS)
    processes = [f"watcher-{number}" for number in range(2)]
    [leader] = [each for each in processes if "run.submitted" in reader.types(f"kubectl --namespace spark logs {each}")]
    reader.types(f"kubectl --namespace spark delete pod {leader} --now")
    reader.types("".join(ended))
    assert reader.types(UIDS) == drivers, "the same pod, once"
    reader.types(READY)
    for process in processes:
        log = reader.types(READ_LOG.replace("watcher-0", process))
        assert (log.count(LOADED), log.count("try_number=2")) == (1, 0)
    reader.types(REMOVE)
