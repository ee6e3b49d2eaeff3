"""Faults of a real node, in place of those of the stand-in, and some that only happen there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import select

from store.database.schema import run
from tests.kubernetes_door import KubernetesDoor
from tests.kubernetes_node import KubernetesNode
from tests.stand_in_kubernetes import Refusal
from tests.torture.daemons import until
from tests.torture.pod_faults import Faults
from tests.torture.pod_world import PodWorld
from tests.torture.world import engine_beside
from watcher.features.kubernetes.manifest import POD_SECURITY, RESTRICTED

_TRYS_POD = re.compile("GET [^?]*/pods/(aw-[0-9a-f]{24})$")
_STRANGERS = {
    "securityContext": {**POD_SECURITY, "runAsUser": 10001},
    "containers": [{"name": "other", "image": "localhost/missing:1", "securityContext": RESTRICTED}],
}


@dataclass
class NodeOfWorld:
    """The node, as far as faults need it."""

    node: KubernetesNode
    door: KubernetesDoor
    namespace: str

    @property
    def is_connected(self) -> bool:
        return not self.node.link.is_cut

    @is_connected.setter
    def is_connected(self, value: bool) -> None:
        self.node.link.is_cut = not value

    def lose_node(self) -> list[str]:
        pods = self.door.list(self.namespace, "pods", "")["items"]
        lost = [pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"]
        self.node.kubelet.kill()
        self.node.kill_containers()
        return lost

    def come_back(self) -> None:
        """Start the kubelet on a machine that knows of no container before: another one, under the same name."""
        self.node.forget_containers()
        self.node.kubelet.start()
        until(self._is_ready)

    def wipe(self) -> None:
        self.node.kubelet.kill()
        self.node.forget_containers()
        self.node.kubelet.start()

    def _is_ready(self) -> bool:
        with self.node.client() as client, suppress(KeyError):
            nodes = client.get("/api/v1/nodes").json()["items"]
            return any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for each in nodes
                for condition in each["status"]["conditions"]
            )
        return False


class NodeFaults(Faults):
    """Faults around a real node."""

    node: NodeOfWorld

    def all(self) -> Mapping[str, Callable[[], None]]:
        return {
            **super().all(),
            "kubelet killed": self.kill_kubelet,
            "kubelet cut off for long": self.cut_off_for_long,
            "containerd's state wiped, cut off, wiped": self.wipe_twice,
            "pod of our name by a stranger": self.be_a_stranger,
        }

    def restart_api_server(self) -> None:
        kubernetes = self.world.kubernetes
        assert isinstance(kubernetes, KubernetesDoor)
        kubernetes.restart(down_for=self.dice.uniform(0, 3))

    def kill_kubelet(self) -> None:
        self.node.node.kubelet.kill()
        self.pause(6)
        self.node.node.kubelet.start()

    def cut_off_for_long(self) -> None:
        """Until the cluster says that nothing is known of the node; its containers run on, and renew their leases."""
        self.node.is_connected = False
        time.sleep(self.dice.uniform(45, 60))
        self.node.is_connected = True

    def wipe_twice(self) -> None:
        """The node starts its containers again, removes their folders, and can report neither before it forgets that, too."""
        self.node.wipe()
        time.sleep(self.dice.uniform(1, 4))
        self.node.is_connected = False
        time.sleep(self.dice.uniform(12, 20))
        self.node.wipe()
        self.node.is_connected = True

    def lose_node(self) -> None:
        """The node's object is deleted, so the cluster's collector of pods deletes by force what our finalizer lets it."""
        lost = self.node.lose_node()
        with self.node.node.client() as client:
            client.delete("/api/v1/nodes/localhost")
        for pod in [pod for pod in self.world.pods() if pod["metadata"]["uid"] in lost]:
            with suppress(Refusal):
                name, grace = pod["metadata"]["name"], {"gracePeriodSeconds": 0}
                self.world.kubernetes.delete(self.world.place.namespace, "pods", name, grace)
        self.pause(5)
        self.node.come_back()

    def be_a_stranger(self) -> None:
        """Make a pod of the name of a try before the daemon does. The run fails, and the pod stays until its owner deletes it."""
        names: list[str] = []
        world, before = self.world, set(refused_runs(self.world))

        def drop(request: str, *, is_done: bool) -> bool:
            match = _TRYS_POD.search(request)
            if match is None or is_done or names:
                return False
            pod = {"metadata": {"name": match[1]}, "spec": _STRANGERS}
            with suppress(Refusal):
                world.kubernetes.create(world.place.namespace, "pods", pod)
                names.append(match[1])
            return False

        world.kubernetes.drop = drop
        world.trigger(self.dice.choice(world.jobs))
        with suppress(AssertionError):
            until(lambda: refused_runs(world) - before, 40)
        world.kubernetes.drop = lambda _request, **_: False
        for name in names:
            with suppress(Refusal):
                world.kubernetes.delete(world.place.namespace, "pods", name, {"gracePeriodSeconds": 0})
        world.cancelled |= refused_runs(world)


def refused_runs(world: PodWorld) -> set[str]:
    """The runs that failed because a stranger has the name of their pod."""
    query = select(run.c.run_id).where(run.c.state == "failed", run.c.reason.like("%is not this try's%"))
    with engine_beside(world.database).connect() as connection:
        return set(connection.scalars(query).all())
