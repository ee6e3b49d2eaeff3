"""The same torture of drivers in pods with a real node, the printed Roles' rights, and a second installation in the namespace."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url

from tests.databases import migrate
from tests.effort import LONG, SEED, effort
from tests.kubernetes_accounts import daemon_token
from tests.kubernetes_api import GATEWAY
from tests.kubernetes_door import kubernetes_door
from tests.kubernetes_images import IMAGE, SPARK_HOME
from tests.kubernetes_node import KubernetesNode, local_volume, running_node
from tests.network_link import network_link
from tests.torture.daemons import until
from tests.torture.node_faults import NodeFaults, NodeOfWorld, refused_runs
from tests.torture.pod_faults import torture
from tests.torture.pod_world import DriverPlace, PodWorld
from tests.torture.results import Result

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.service,
    pytest.mark.slow,
    pytest.mark.skipif(not LONG, reason="WATCHER_TEST_LONG kills on a real node; test_pods.py does on a stand-in"),
]
KILLS = effort(3, 200)
MOST_OPEN = 6
UNDISTURBED = effort(1, 10)


@pytest.fixture
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesNode]:
    with running_node(
        tmp_path_factory.mktemp("node")
    ) as node:  # the address of a socket in it has at most 107 characters
        yield node


@pytest.fixture
def place(node: KubernetesNode, tmp_path: Path) -> Iterator[DriverPlace]:
    """A namespace with a volume that is a folder of this machine, for what drivers write down."""
    namespace, here = node.new_namespace(), tmp_path / "witnesses"
    here.mkdir()
    here.chmod(0o777)
    with node.client() as client:
        token = daemon_token(client, namespace)
        for path, body in witness_volume(here, namespace).items():
            client.post(path, json=body).raise_for_status()
    mounts = [{"name": "witness", "mountPath": "/witness"}]
    spec = {
        "containers": [{"name": "driver", "imagePullPolicy": "Never", "volumeMounts": mounts}],
        "volumes": [{"name": "witness", "persistentVolumeClaim": {"claimName": "witness"}}],
    }
    with ExitStack() as links:

        def reached_by_pods(address: str) -> str:
            link = network_link("127.0.0.1", make_url(address).port or 0, local_host="0.0.0.0")  # noqa: S104  pods reach it
            return f"http://{GATEWAY}:{links.enter_context(link).port}"

        yield DriverPlace(
            namespace=namespace,
            token=token,
            python="/usr/bin/python3",
            spark_home=SPARK_HOME,
            here=here,
            there="/witness",
            pod={"image": IMAGE, "driver": {"cpu": "20m", "memory": "896Mi"}, "template": {"spec": spec}},
            api=reached_by_pods,
        )


def witness_volume(folder: Path, namespace: str) -> Mapping[str, Any]:
    """Return what to create, by path: a volume that is a folder of the node, and the claim of it."""
    size = {"requests": {"storage": "1Gi"}}
    claim = {
        "metadata": {"name": "witness"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "witness", "resources": size},
    }
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    return {"/api/v1/persistentvolumes": local_volume(folder, "witness"), path: claim}


class SecretsAfterTheEnd:
    """Looks twice a second how long the Secret of a driver outlives the driver's container."""

    def __init__(self, node: KubernetesNode, namespace: str) -> None:
        self.longest: dict[str, float] = {}
        self._node, self._path = node, f"/api/v1/namespaces/{namespace}"
        self._ended = threading.Event()

    def run(self) -> None:
        with self._node.client() as client:
            while not self._ended.wait(0.5):
                with suppress(httpx.HTTPError, KeyError):
                    self._look(client)

    def end(self) -> None:
        self._ended.set()

    def _look(self, client: httpx.Client) -> None:
        pods, secrets = (client.get(f"{self._path}/{kind}").json()["items"] for kind in ("pods", "secrets"))
        kept = {each["metadata"].get("labels", {}).get("asset-watcher/try") for each in secrets}
        for pod in pods:
            name = pod["metadata"]["name"]
            for container in pod["status"].get("containerStatuses", ()):
                ended = container["state"].get("terminated")
                if container["name"] == "driver" and ended and name in kept:
                    age = (datetime.now(UTC) - datetime.fromisoformat(ended["finishedAt"])).total_seconds()
                    self.longest[name] = max(age, self.longest.get(name, 0.0))


@contextmanager
def steady_runs(world: PodWorld) -> Iterator[None]:
    """Have a run of the second installation started now and then."""
    ended = threading.Event()

    def start() -> None:
        while not ended.wait(8):
            if len(world.open_runs()) < 2:
                world.trigger_once("without_sdk")

    thread = threading.Thread(target=start)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_drivers_on_a_real_node_start_once_whatever_is_killed_and_nothing_is_left(
    node: KubernetesNode,
    place: DriverPlace,
    tmp_path: Path,
    database_url: str,
    dialect: str,
    record_result: Callable[[Result], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", "")
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    migrate(second_url := f"sqlite+aiosqlite:///{folders[1]}/second.db")
    with kubernetes_door(node) as door, ExitStack() as daemons:
        world = PodWorld(folders[0], door, place, database_url, sidecars=True)
        second = PodWorld(folders[1], door, place, second_url)
        for each in (world, second):
            daemons.enter_context(each.daemons)
            each.start()
            until(each.answers)
        faults = NodeFaults(world, NodeOfWorld(node, door, place.namespace), random.Random(SEED))
        with steady_runs(second):
            done = torture(world, faults, KILLS, MOST_OPEN)
        until(lambda: not second.open_runs())
        secrets = SecretsAfterTheEnd(node, place.namespace)
        clock = threading.Thread(target=secrets.run, daemon=True)
        clock.start()
        for _ in range(UNDISTURBED):
            world.trigger("without_sdk")
        until(lambda: not world.open_runs())
        until(lambda: not world.left())
        secrets.end()
        clock.join()
        for each in (world, second):  # a stranger may have taken several names, and one of the second installation
            each.cancelled |= refused_runs(each)
        findings = [each.findings() for each in (world, second)]
        gap = f"{max(secrets.longest.values(), default=0):.1f}"
        for name, times in sorted(done.items()):
            started = sum(each.started for each in findings)
            result = Result(fault=f"node: {name}", database=dialect, seed=SEED, times=times, events=started, gap=gap)
            record_result(result)
        assert [each.faults for each in findings] == [{}, {}]
        for each in (world, second):
            for home in [*each.daemons.running]:
                assert each.daemons.stop(signal.SIGTERM, home) == 0
