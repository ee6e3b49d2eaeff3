"""Everything around drivers in pods is killed, frozen, cut off and lost: each try starts once, and nothing is left."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.databases import both_in_long_form
from tests.e2e.watching import processes_that_mention
from tests.effort import SEED, effort
from tests.stand_in_kubelet import StandInKubelet, stand_in_kubelet
from tests.stand_in_kubernetes import TOKEN, stand_in_kubernetes
from tests.stand_in_spark import stand_in_spark
from tests.torture.daemons import until
from tests.torture.pod_faults import Faults, torture
from tests.torture.pod_world import DriverPlace, PodWorld
from tests.torture.results import Result

pytestmark = [pytest.mark.service, pytest.mark.slow]
KILLS = effort(9, 200)
MOST_OPEN = 20


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[StandInKubelet]:
    with stand_in_kubernetes() as kubernetes:
        namespace = kubernetes.new_namespace()
        with stand_in_kubelet(kubernetes, namespace, tmp_path / "node") as kubelet:
            yield kubelet


@pytest.fixture
def world(
    kubelet: StandInKubelet, tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PodWorld]:
    monkeypatch.setenv("KUBECONFIG", "")
    place = DriverPlace(
        namespace=kubelet.namespace,
        token=TOKEN,
        python=sys.executable,
        spark_home=str(stand_in_spark(tmp_path)),
        here=tmp_path,
        there=str(tmp_path),
        pod={"image": "driver:1"},
    )
    made = PodWorld(tmp_path, kubelet.kubernetes, place, database_url)
    with made.daemons:
        yield made


@pytest.mark.parametrize("dialect", both_in_long_form("postgresql"), indirect=True)
def test_drivers_in_pods_start_once_whatever_is_killed_and_nothing_is_left(
    world: PodWorld, kubelet: StandInKubelet, dialect: str, record_result: Callable[[Result], None]
) -> None:
    stranger = {"metadata": {"name": "stranger", "labels": {"asset-watcher/installation": "another"}}, "spec": {}}
    world.kubernetes.create(world.place.namespace, "pods", stranger)
    world.kubernetes.create(world.place.namespace, "secrets", stranger)
    world.start()
    until(world.answers)
    done = torture(world, Faults(world, kubelet, random.Random(SEED)), KILLS, MOST_OPEN)
    findings = world.findings()
    for name, times in sorted(done.items()):
        record_result(Result(fault=f"pods: {name}", database=dialect, seed=SEED, times=times, events=findings.started))
    assert findings.faults == {}
    assert len(world.kubernetes.list(world.place.namespace, "pods", "")["items"]) == 1, "the stranger's pod stays"
    for home in [*world.daemons.running]:
        assert world.daemons.stop(signal.SIGTERM, home) == 0
    until(lambda: not kubelet.running())
    assert processes_that_mention(world.folder / "node") == []
