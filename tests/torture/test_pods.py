"""Everything around drivers in pods is killed, frozen, cut off and lost: each try starts once, and nothing is left."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.databases import both_in_long_form
from tests.e2e.watching import processes_that_mention
from tests.effort import PATIENCE, SEED, effort
from tests.stand_in_kubelet import stand_in_kubelet
from tests.stand_in_kubernetes import Refusal, stand_in_kubernetes
from tests.torture.daemons import until
from tests.torture.pod_world import JOBS, Hook, PodWorld
from tests.torture.results import Result

pytestmark = [pytest.mark.service, pytest.mark.slow]
KILLS = effort(14, 200)
MOST_OPEN = 20
REQUESTS = ("GET pods", "POST secrets", "POST pods", "PATCH secrets", "PATCH pods", "DELETE pods", "DELETE secrets")


@pytest.fixture
def world(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PodWorld]:
    monkeypatch.setenv("KUBECONFIG", "")
    with stand_in_kubernetes() as kubernetes:
        namespace = kubernetes.new_namespace()
        with stand_in_kubelet(kubernetes, namespace, tmp_path / "node") as kubelet:
            made = PodWorld(tmp_path, kubernetes, kubelet, database_url)
            with made.daemons:
                yield made


class Faults:
    """What may happen. Each fault is over when its method returns, and the daemon runs again."""

    def __init__(self, world: PodWorld, dice: random.Random) -> None:
        self.world, self.dice = world, dice

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
        world.trigger_once(self.dice.choice([*JOBS]))
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
        self.world.kubelet.is_connected = False
        self.pause(6)
        self.world.kubelet.is_connected = True

    def lose_node(self) -> None:
        """The pods' objects stay. A controller marks them as failed and deletes them, which our finalizer outlives."""
        world, lost = self.world, self.world.kubelet.lose_node()
        for pod in [pod for pod in world.pods() if pod["metadata"]["uid"] in lost]:
            name = pod["metadata"]["name"]
            with suppress(Refusal):
                world.kubernetes.patch(world.kubelet.namespace, "pods", name, {"status": {"phase": "Failed"}})
                world.kubernetes.delete(world.kubelet.namespace, "pods", name, {"gracePeriodSeconds": 0})

    def _any_pod(self) -> Any:
        pods = self.world.pods()
        return self.dice.choice(pods) if pods else None

    def delete_pod(self) -> None:
        if (pod := self._any_pod()) is not None:
            with suppress(Refusal):
                grace = {"gracePeriodSeconds": self.dice.choice([1, 5])}
                self.world.kubernetes.delete(self.world.kubelet.namespace, "pods", pod["metadata"]["name"], grace)

    def remove_pod(self) -> None:
        """Take the finalizer off and delete the pod, as a person does to have it gone at any price."""
        world = self.world
        if (pod := self._any_pod()) is None:
            return
        is_cut_off = self.dice.random() < 0.5
        world.kubelet.is_connected = not is_cut_off
        name, namespace = pod["metadata"]["name"], world.kubelet.namespace
        with suppress(Refusal):
            world.kubernetes.patch(namespace, "pods", name, {"metadata": {"finalizers": None}})
            world.kubernetes.delete(namespace, "pods", name, {"gracePeriodSeconds": 0})
        self.pause(3)
        world.kubelet.is_connected = True

    def wipe_node(self) -> None:
        for uid in self.world.kubelet.running():
            self.world.kubelet.start_again(uid)

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


@pytest.mark.parametrize("dialect", both_in_long_form("postgresql"), indirect=True)
def test_drivers_in_pods_start_once_whatever_is_killed_and_nothing_is_left(
    world: PodWorld, dialect: str, record_result: Callable[[Result], None]
) -> None:
    dice = random.Random(SEED)
    faults = Faults(world, dice).all()
    stranger = {"metadata": {"name": "stranger", "labels": {"asset-watcher/installation": "another"}}, "spec": {}}
    world.kubernetes.create(world.kubelet.namespace, "pods", stranger)
    world.kubernetes.create(world.kubelet.namespace, "secrets", stranger)
    world.start()
    until(world.answers)
    names, done = decks(faults, dice), Counter[str]()
    for _ in range(KILLS):
        for job in JOBS:
            if len(world.open_runs()) < MOST_OPEN:
                world.trigger(job)
        time.sleep(dice.uniform(0, 1.5))
        name = next(names)
        faults[name]()
        done[name] += 1
    until(world.answers)
    until(lambda: not world.open_runs(), 2 * PATIENCE)
    with suppress(AssertionError):
        until(lambda: not world.left())
    findings = world.findings()
    for name, times in sorted(done.items()):
        record_result(Result(fault=f"pods: {name}", database=dialect, seed=SEED, times=times, events=findings.started))
    assert findings.faults == {}
    assert len(world.kubernetes.list(world.kubelet.namespace, "pods", "")["items"]) == 1, "the stranger's pod stays"
    for home in [*world.daemons.running]:
        assert world.daemons.stop(signal.SIGTERM, home) == 0
    until(lambda: not world.kubelet.running())
    assert processes_that_mention(world.folder / "node") == []
