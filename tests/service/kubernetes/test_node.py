"""Tries on a real node, with the printed Roles' rights: what kubelet and controllers make of our pods, and the wrapper in one."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from config.features.kubernetes.settings import DriverPod
from tests.effort import PATIENCE
from tests.kubernetes_accounts import daemon_token
from tests.kubernetes_api import GATEWAY, KubernetesApi
from tests.kubernetes_images import IMAGE, SPARK_HOME
from tests.kubernetes_node import running_node
from tests.unit.submit.kubernetes_pods import NAMESPACE, kubernetes_pods, write_kubeconfig
from tests.unit.submit.plain import make_submission
from tests.unit.submit.test_pod_wrapper import Renewals
from watcher.submit.base import Handle, NotYet, Status, Submission
from watcher.submit.kubernetes import manifest, names, wrapper
from watcher.submit.kubernetes.api import PodApi
from watcher.submit.kubernetes.cluster import Cluster
from watcher.submit.kubernetes.manifest import DriverCommand, LeaseTimes, Place
from watcher.submit.kubernetes.options import KubernetesOptions
from watcher.submit.kubernetes.pod_tries import PodTries
from watcher.submit.kubernetes.pod_watch import EventWatch
from watcher.submit.local import shim

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
FILES = {
    f"{module.__name__.rpartition('.')[2]}.py": Path(str(module.__file__)).read_bytes() for module in (wrapper, shim)
}
SLEEPS = "import time; time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"


def driver_pod(**more: Any) -> DriverPod:
    template = {"spec": {"containers": [{"name": "driver", "imagePullPolicy": "IfNotPresent"}]}}
    keys = {"image": IMAGE, "driver": {"cpu": "100m"}, "template": template, **more}
    return DriverPod.model_validate(keys)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesApi]:
    with running_node(tmp_path_factory.mktemp("node")) as api:
        yield api


@pytest.fixture
def renewals() -> Iterator[Renewals]:
    """The daemon's API, as far as wrappers need it."""
    with Renewals("0.0.0.0") as server:  # noqa: S104  pods reach it by the bridge
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class Daemon:
    """A daemon with this node's cluster."""

    def __init__(self, pods: PodApi, renewals: Renewals) -> None:
        async def silence(_tag: str) -> float:
            return 1000.0

        async def was_renewed(_tag: str) -> bool:
            return False

        async def is_ours(_tag: str) -> bool:
            return True

        place = Place(namespace=pods.namespace, installation=str(uuid4()))
        self.pods = pods
        self.tries = PodTries(api=pods, place=place, silence=silence, was_renewed=was_renewed, is_ours=is_ours)
        self._api = f"http://{GATEWAY}:{renewals.server_port}"
        self._task = str(uuid4())

    def submission(self, token: str = "token-1") -> Submission:
        return make_submission(self._task, Path("/x.py"), context={"token": token, "api": self._api})

    async def submit(self, program: str, job: DriverPod, *, token: str = "token-1", lease: float = 60.0) -> Handle:
        times = LeaseTimes(renew_every=0.5, ends_after=lease)
        command = DriverCommand(argv=["/usr/bin/python3", "-c", program], environment={}, lease=times)
        return await self.tries.submit(self.submission(token), job, command, FILES)

    async def until(self, handle: Handle, condition: Callable[[Status], object]) -> Status:
        with anyio.fail_after(PATIENCE):
            while not condition(status := await self.tries.poll(handle)):
                await anyio.sleep(0.2)
        return status

    async def forget(self, handle: Handle) -> None:
        """Forget the try, and wait until neither its pod nor a Secret is left."""
        await self.tries.forget(handle["tag"], handle)
        with anyio.fail_after(PATIENCE):
            while await self.pods.read("pods", handle["pod"]) is not None:
                await anyio.sleep(0.2)
        assert await self.secrets(handle) == []

    async def secrets(self, handle: Handle) -> Sequence[Mapping[str, Any]]:
        return await self.pods.list_metadata("secrets", f"{names.TRY}={handle['pod']}")


@pytest.fixture
async def daemon(node: KubernetesApi, renewals: Renewals) -> AsyncIterator[Daemon]:
    namespace = node.new_namespace()
    with node.client() as administrator:
        token = daemon_token(administrator, namespace)
    cluster = Cluster(server=node.address, authority=node.authority.read_bytes(), token=token)
    async with cluster.connection() as connection:
        yield Daemon(PodApi(connection, namespace), renewals)


async def until_renewed(renewals: Renewals) -> None:
    """Wait until the driver has run for a second and more: the wrapper renews its lease twice a second."""
    for _ in range(4):
        assert await anyio.to_thread.run_sync(renewals.renewed.acquire, True, PATIENCE)


def is_running(status: Status) -> bool:
    return status.phase == "running"


def is_over(status: Status) -> bool:
    return status.phase == "exited"


async def test_the_driver_has_its_context_alone_and_ends_with_its_own_code(daemon: Daemon) -> None:
    program = """
import os, stat, sys
context = os.stat(os.environ["ASSET_JOB_CONTEXT"])
sys.exit(5 if (stat.S_IMODE(context.st_mode), context.st_uid, os.getppid()) == (0o600, os.getuid(), 1) else 6)
"""
    handle = await daemon.submit(program, driver_pod())
    assert (await daemon.until(handle, is_over)).exit_code == 5
    assert await daemon.secrets(handle) == [], "the pod is kept, the Secret is not"
    await daemon.forget(handle)


@pytest.mark.parametrize(("program", "code"), [(SLEEPS, 143), (STUBBORN, 137)], ids=["in time", "killed"])
async def test_a_driver_is_stopped_within_its_grace(
    daemon: Daemon, renewals: Renewals, program: str, code: int
) -> None:
    handle = await daemon.submit(program, driver_pod())
    await until_renewed(renewals)
    await daemon.tries.cancel(handle, 3)
    status = await daemon.until(handle, is_over)
    assert (status.exit_code, status.stopped, status.restarted) == (code, True, False)
    await daemon.forget(handle)


async def test_a_pod_that_a_person_deletes_keeps_its_end(daemon: Daemon, renewals: Renewals) -> None:
    handle = await daemon.submit(SLEEPS, driver_pod())
    await until_renewed(renewals)
    await daemon.pods.delete("pods", handle["pod"], uid=handle["uid"], grace=2)
    status = await daemon.until(handle, is_over)
    assert (status.exit_code, status.stopped) == (143, False)
    await daemon.forget(handle)


async def test_an_image_that_cannot_be_pulled_is_said_and_can_be_stopped(daemon: Daemon) -> None:
    handle = await daemon.submit("", driver_pod(image="localhost/missing:1"))
    status = await daemon.until(handle, lambda status: status.reason)
    assert status.reason.startswith("waits for its image: ")
    await daemon.tries.cancel(handle, 2)
    status = await daemon.until(handle, is_over)
    assert (status.exit_code, status.stopped, status.restarted) == (None, True, False)
    await daemon.forget(handle)


async def test_a_pod_that_fits_no_node_is_said_and_can_be_stopped(daemon: Daemon) -> None:
    handle = await daemon.submit("", driver_pod(driver={"memory": "50Ti"}))
    status = await daemon.until(handle, lambda status: status.reason)
    assert "Insufficient memory" in status.reason
    await daemon.tries.cancel(handle, 2)
    assert (await daemon.until(handle, is_over)).stopped
    await daemon.forget(handle)


async def test_a_volume_that_cannot_be_mounted_is_said_by_the_clusters_events(daemon: Daemon) -> None:
    mounts = [{"name": "lake", "mountPath": "/lake"}]
    container = {"name": "driver", "imagePullPolicy": "IfNotPresent", "volumeMounts": mounts}
    volume = {"name": "lake", "configMap": {"name": "missing"}}
    events = EventWatch(daemon.pods)
    daemon.tries = replace(daemon.tries, warning=events.warning)
    async with anyio.create_task_group() as tasks:
        await tasks.start(events.run)
        job = driver_pod(template={"spec": {"containers": [container], "volumes": [volume]}})
        handle = await daemon.submit("", job)
        status = await daemon.until(handle, lambda status: status.reason)
        assert 'configmap "missing" not found' in status.reason
        tasks.cancel_scope.cancel()
    await daemon.tries.cancel(handle, 2)
    await daemon.forget(handle)


async def test_a_quota_is_waited_for_with_its_sentence(daemon: Daemon, node: KubernetesApi) -> None:
    path = f"/api/v1/namespaces/{daemon.pods.namespace}/resourcequotas"
    with node.client() as client:
        client.post(path, json={"metadata": {"name": "team"}, "spec": {"hard": {"pods": "0"}}}).raise_for_status()
        with anyio.fail_after(PATIENCE):
            while "hard" not in client.get(f"{path}/team").json().get("status", {}):
                await anyio.sleep(0.1)
        with pytest.raises(NotYet, match=r"quota: .*exceeded quota: team"):
            await daemon.submit("", driver_pod())
        client.delete(f"{path}/team").raise_for_status()
    handle = await daemon.submit("", driver_pod())
    assert (await daemon.until(handle, is_over)).exit_code == 0
    await daemon.forget(handle)


async def test_a_driver_that_takes_too_much_memory_is_told_what_to_set(daemon: Daemon) -> None:
    handle = await daemon.submit("x = [bytearray(50_000_000) for _ in range(60)]", driver_pod())
    status = await daemon.until(handle, is_over)
    assert status.exit_code == 137
    assert "set spark.kubernetes.driver.memory" in status.reason
    await daemon.forget(handle)


@pytest.mark.parametrize(("answer", "reason"), [(409, "superseded"), (503, "did not answer")])
async def test_a_driver_without_its_lease_ends(daemon: Daemon, renewals: Renewals, answer: int, reason: str) -> None:
    handle = await daemon.submit(SLEEPS, driver_pod(), lease=3.0)
    await daemon.until(handle, is_running)
    renewals.status = answer
    status = await daemon.until(handle, is_over)
    assert status.exit_code == wrapper.FENCED
    assert reason in status.reason
    await daemon.forget(handle)


async def test_a_late_pod_that_a_node_has_never_starts_and_is_tried_again(daemon: Daemon) -> None:
    """Its Secret is gone, so its container cannot start, and its node reports that it does not know how it ended."""
    name = names.pod_name(daemon.submission().tag)
    await daemon.pods.create("pods", manifest.pod(daemon.submission(), daemon.tries.place, driver_pod()))
    with anyio.fail_after(PATIENCE):
        while not (await daemon.pods.read("pods", name) or {})["spec"].get("nodeName"):
            await anyio.sleep(0.1)
    handle = await daemon.submit("", driver_pod(), token="token-2")
    status = await daemon.until(handle, is_over)
    assert (status.exit_code, status.restarted) == (None, True)
    await daemon.forget(handle)


APPLICATION = """
import asset_job, os, sys, time
print("argument:", sys.argv[1], flush=True)
print("context:", oct(os.stat(os.environ["ASSET_JOB_CONTEXT"]).st_mode & 0o777), flush=True)
time.sleep(3)
raise RuntimeError("on purpose")
"""


async def test_the_submitter_itself_runs_an_application_of_this_machine_in_a_pod(
    node: KubernetesApi, renewals: Renewals, tmp_path: Path
) -> None:
    namespace, authority = node.new_namespace(), {"certificate-authority": str(node.authority)}
    with node.client() as administrator:
        token = daemon_token(administrator, namespace)
    config = write_kubeconfig(tmp_path, node.address, token, **authority)
    environment = {"KUBECONFIG": str(config), NAMESPACE: namespace}
    pods, other = (kubernetes_pods(tmp_path / home, environment) for home in ("one", "two"))
    (tmp_path / "job.py").write_text(APPLICATION)
    submission = make_submission(
        str(uuid4()),
        tmp_path / "job.py",
        "hello",
        context={"token": "t", "api": f"http://{GATEWAY}:{renewals.server_port}"},
        options=KubernetesOptions(kubernetes=driver_pod(delete_after="0s")),
        env={"SPARK_HOME": SPARK_HOME},
        python="/usr/bin/python3",
    )
    handle = await pods.submit(submission)
    with anyio.fail_after(PATIENCE):
        while (await pods.poll(handle)).phase != "running":
            await anyio.sleep(0.2)
    attached = await other.attach(submission.key, submission.tag, None)
    assert attached == handle
    with anyio.fail_after(PATIENCE):
        while not is_over(status := await other.poll(handle)):
            await anyio.sleep(0.2)
    log = b"".join([chunk async for chunk in other.logs(handle, 0)]).decode()
    assert (status.exit_code, log.count("argument: hello"), log.count("context: 0o600")) == (1, 1, 1), log
    assert "RuntimeError: on purpose" in status.reason
    assert status.running_for is not None
    assert status.running_for >= 2
    assert status.cpu_seconds is not None
    assert status.peak_memory_mb is not None
    assert (status.cpu_seconds > 0, status.peak_memory_mb > 0) == (True, True), "as its wrapper counted it"
    await other.forget(submission.key, submission.tag, handle)
    await pods.close()
    await other.close()
