"""What may happen around drivers in pods: everything is killed, frozen, cut off and lost, in a random order."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Protocol

from tests.effort import PATIENCE
from tests.stand_in_kubernetes import Refusal, StandInKubernetes
from tests.torture.daemons import until
from tests.torture.pod_world import Hook, PodWorld

REQUESTS = ("GET pods", "POST secrets", "POST pods", "PATCH secrets", "PATCH pods", "DELETE pods", "DELETE secrets")


class Node(Protocol):
    """The only node of the cluster."""

    is_connected: bool
    """False: it hears and reports nothing, and its containers run on."""

    def lose_node(self) -> list[str]:
        """End all containers together with their node, of which nothing is heard any more. Return the uids of their pods."""
        ...

    def wipe(self) -> None:
        """End all containers, and have the node forget that they ran."""
        ...


class Faults:
    """What may happen. Each fault is over when its method returns, and the daemon runs again."""

    def __init__(self, world: PodWorld, node: Node, dice: random.Random) -> None:
        self.world, self.node, self.dice = world, node, dice

    def all(self) -> Mapping[str, Callable[[], None]]:
        faults = {
            "daemon killed at any moment": self.kill_daemon,
            "daemon killed at a request": self.kill_at_request,
            "daemon killed at the next request": self.kill_at_request,
            "answer lost": self.lose_answers,
            "daemon frozen": self.freeze,
            "API server restarted": self.restart_api_server,
            "kubelet stopped": self.stop_kubelet,
            "node gone": self.lose_node,
            "pod deleted by hand": self.delete_pod,
            "pod removed by force": self.remove_pod,
            "containerd's state wiped": self.wipe_node,
            "run cancelled": self.cancel,
            "run cancelled, daemon frozen": self.cancel_while_frozen,
        }
        if self.world.is_shared:
            faults |= {"daemon on another machine": self.move, "process of the API killed": self.kill_api}
        return faults

    def pause(self, longest: float) -> None:
        time.sleep(self.dice.uniform(0, longest))

    def kill_daemon(self) -> None:
        self.world.kill()
        self.world.start()
        if self.dice.random() < 0.7:
            until(self.world.answers)

    def kill_at_request(self) -> None:
        world, (method, kind) = self.world, self.dice.choice(REQUESTS).split()
        process = world.daemons.running[world.home]
        is_done = self.dice.random() < 0.5
        hook = Hook(world.kubernetes, method, kind, is_done=is_done, then=lambda: process.send_signal(signal.SIGKILL))
        world.trigger_once(self.dice.choice(self.world.jobs))
        hook.happened.wait(5)
        hook.remove()
        self.kill_daemon()

    def lose_answers(self) -> None:
        chance = self.dice.choice([0.2, 0.5])
        seed = random.Random(self.dice.random())
        self.world.kubernetes.drop = lambda _request, **_: seed.random() < chance
        self.pause(4)
        self.world.kubernetes.drop = lambda _request, **_: False

    def restart_api_server(self) -> None:
        kubernetes = self.world.kubernetes
        assert isinstance(kubernetes, StandInKubernetes)
        kubernetes.drop = lambda _request, **_: True
        kubernetes.restart()
        self.pause(3)
        kubernetes.restart(compacts=self.dice.random() < 0.5)
        kubernetes.drop = lambda _request, **_: False

    def freeze(self) -> None:
        """Freeze the daemon. Where another home can, it takes over meanwhile, and the frozen one wakes as a zombie."""
        world, frozen = self.world, self.world.home
        world.daemons.send(signal.SIGSTOP, frozen)
        if world.is_shared:
            world.home = world.other_home
            world.start()
        self.pause(9 if world.is_shared else 3)
        world.daemons.send(signal.SIGCONT, frozen)
        if world.is_shared:
            self.pause(3)
            world.kill(frozen)

    def move(self) -> None:
        self.world.kill()
        self.world.home = self.world.other_home
        self.world.start()

    def kill_api(self) -> None:
        self.world.kill("api")
        self.pause(3)
        self.world.daemons.start("api", "--roles", "api")

    def stop_kubelet(self) -> None:
        self.node.is_connected = False
        self.pause(6)
        self.node.is_connected = True

    def lose_node(self) -> None:
        """The pods' objects stay. A controller marks them as failed and deletes them, which our finalizer outlives."""
        world, lost = self.world, self.node.lose_node()
        for pod in [pod for pod in world.pods() if pod["metadata"]["uid"] in lost]:
            name = pod["metadata"]["name"]
            with suppress(Refusal):
                world.kubernetes.patch(world.place.namespace, "pods", name, {"status": {"phase": "Failed"}})
                world.kubernetes.delete(world.place.namespace, "pods", name, {"gracePeriodSeconds": 0})

    def _any_pod(self) -> Any:
        pods = self.world.pods()
        return self.dice.choice(pods) if pods else None

    def delete_pod(self) -> None:
        if (pod := self._any_pod()) is not None:
            with suppress(Refusal):
                grace = {"gracePeriodSeconds": self.dice.choice([1, 5])}
                self.world.kubernetes.delete(self.world.place.namespace, "pods", pod["metadata"]["name"], grace)

    def remove_pod(self) -> None:
        """Take the finalizer off and delete the pod, as a person does to have it gone at any price."""
        world = self.world
        if (pod := self._any_pod()) is None:
            return
        is_cut_off = self.dice.random() < 0.5
        self.node.is_connected = not is_cut_off
        name, namespace = pod["metadata"]["name"], world.place.namespace
        with suppress(Refusal):
            world.kubernetes.patch(namespace, "pods", name, {"metadata": {"finalizers": None}})
            world.kubernetes.delete(namespace, "pods", name, {"gracePeriodSeconds": 0})
        self.pause(3)
        self.node.is_connected = True

    def wipe_node(self) -> None:
        self.node.wipe()

    def cancel(self) -> None:
        if runs := self.world.open_runs():
            run = self.dice.choice([*runs])
            self.world.cancel(runs[run], run)

    def cancel_while_frozen(self) -> None:
        """The daemon freezes at a request, which takes effect once it is no longer wanted."""
        world, frozen = self.world, self.world.home
        if not world.is_shared:  # the process that is frozen is that of the API, too
            return self.cancel()
        process = world.daemons.running[frozen]
        request, is_done = self.dice.choice(["POST secrets", "POST pods"]).split(), self.dice.random() < 0.5
        before = world.runs().keys()
        hook = Hook(world.kubernetes, *request, is_done=is_done, then=lambda: process.send_signal(signal.SIGSTOP))
        world.trigger("without_sdk")
        hook.happened.wait(5)
        for run in world.runs().keys() - before:
            world.cancel("without_sdk", run)
        hook.remove()
        process.send_signal(signal.SIGSTOP)
        world.home = world.other_home
        world.start()
        self.pause(9)
        process.send_signal(signal.SIGCONT)
        self.pause(2)
        world.kill(frozen)
        return None


def decks(faults: Mapping[str, Callable[[], None]], dice: random.Random) -> Iterator[str]:
    """Yield each fault once in a random order, again and again."""
    while True:
        yield from dice.sample([*faults], len(faults))


def torture(world: PodWorld, faults: Faults, kills: int, most_open: int) -> Mapping[str, int]:
    """Have runs started while faults happen, up to so many open ones; return how often each fault happened.

    At the end no run is open, and there was time for whatever is left to be removed.
    """
    methods, done = faults.all(), Counter[str]()
    names = decks(methods, faults.dice)
    for _ in range(kills):
        for job in world.jobs:
            if len(world.open_runs()) < most_open:
                world.trigger(job)
        faults.pause(1.5)
        name = next(names)
        methods[name]()
        done[name] += 1
    until(world.answers)
    until(lambda: not world.open_runs(), 2 * PATIENCE)
    with suppress(AssertionError):
        until(lambda: not world.left())
    return done
