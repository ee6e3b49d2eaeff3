"""Tries as pods: whatever request a daemon dies at, the try gets one driver, and nothing is left after its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx
import pytest

from config.features.kubernetes.settings import DriverPod
from tests.service.kubernetes.conftest import RunningApi, bind, namespace_of
from tests.unit.submit.plain import make_submission
from watcher.submit.base import Attachment, Handle, NotYet, Submission, SubmitError
from watcher.submit.kubernetes import executors, manifest, names
from watcher.submit.kubernetes.api import PodApi
from watcher.submit.kubernetes.connection import ApiConnection
from watcher.submit.kubernetes.manifest import DriverCommand, Place
from watcher.submit.kubernetes.pod_tries import PodTries
from watcher.submit.kubernetes.refusals import ApiRefused
from watcher.submit.kubernetes.removal import remove_all, sweep

JOB = DriverPod(image="watcher:1")
WITH_EXECUTORS = DriverPod.model_validate({"image": "watcher:1", "executor": {}})
COMMAND = DriverCommand(argv=["spark-submit"], environment={})


class Died(Exception):
    """The daemon died at a request."""


@dataclass
class Mortal(ApiConnection):
    """Sends requests until the daemon dies at the one of this number, before it is sent or before it is answered."""

    inner: ApiConnection
    dies_at: int | None = None
    before: bool = True
    meanwhile: tuple[int, Callable[[], object]] = (0, lambda: None)
    """What another does just before the request of this number is sent."""
    sent: int = 0

    async def send(self, method: str, path: str, **request: Any) -> bytes:
        self.sent += 1
        number, happens = self.meanwhile
        if self.sent == number:
            happens()
        dies = self.sent == self.dies_at
        if dies and self.before:
            raise Died
        try:
            return await self.inner.send(method, path, **request)
        finally:
            if dies:
                raise Died


@dataclass
class World:
    """A namespace, the daemons that work in it, and the kubelet that a test plays."""

    api: httpx.Client
    connection: ApiConnection
    installation: str = field(default_factory=lambda: str(uuid4()))
    task: str = field(default_factory=lambda: str(uuid4()))
    silent_for: float = 0.0
    is_ours: bool = True
    was_renewed: bool = False

    def daemon(
        self,
        *,
        dies_at: int | None = None,
        before: bool = True,
        meanwhile: tuple[int, Callable[[], object]] = (0, lambda: None),
        installation: str | None = None,
    ) -> PodTries:
        place = Place(namespace=namespace_of(self.api), installation=installation or self.installation)
        return PodTries(
            api=PodApi(Mortal(self.connection, dies_at, before, meanwhile), place.namespace),
            place=place,
            silence=self._silence,
            was_renewed=self._was_renewed,
            is_ours=self._is_ours,
        )

    async def _silence(self, tag: str) -> float:
        assert tag == self.submission().tag
        return self.silent_for

    async def _was_renewed(self, tag: str) -> bool:
        assert tag == self.submission().tag
        return self.was_renewed

    async def _is_ours(self, tag: str) -> bool:
        assert tag == self.submission().tag
        return self.is_ours

    def submission(self, token: str = "token-1") -> Submission:
        return make_submission(self.task, Path("/load.py"), context={"token": token})

    @property
    def name(self) -> str:
        return names.pod_name(self.submission().tag)

    def pods(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.get("/pods").json()["items"]
        return items

    def secrets(self) -> set[str]:
        return {each["metadata"]["name"] for each in self.api.get("/secrets").json()["items"]}

    def may_start(self) -> list[dict[str, Any]]:
        """The pods whose Secret exists: only these could ever run a driver."""
        secrets = self.secrets()
        named = [
            (pod, each["secret"]["secretName"])
            for pod in self.pods()
            for each in pod["spec"]["volumes"]
            if "secret" in each
        ]
        return [pod for pod, secret in named if secret in secrets]

    def post_late(self) -> None:
        """Post the pod of the first submission, as a daemon that was frozen behind its Secret does."""
        body = manifest.pod(self.submission(), self.daemon().place, JOB)
        self.api.post("/pods", json=body).raise_for_status()

    def kubelet(self, state: Mapping[str, Any], phase: str = "Running", name: str = "") -> None:
        container = {
            "name": "driver",
            "image": "x",
            "imageID": "x",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        change = {"status": {"phase": phase, "containerStatuses": [container]}}
        merge = {"Content-Type": "application/merge-patch+json"}
        self.api.patch(f"/pods/{name or self.name}/status", json=change, headers=merge).raise_for_status()

    def ends(self, code: int) -> None:
        self.kubelet({"terminated": {"exitCode": code, "reason": "Completed"}}, "Failed" if code else "Succeeded")

    def binds(self) -> None:
        bind(self.api, self.name)


@pytest.fixture
def world(api: httpx.Client, connection: ApiConnection) -> World:
    return World(api, connection)


async def settled(world: World, token: str = "token-2") -> Handle:
    """What a home does with the try of a daemon that died before it stored the handle."""
    daemon = world.daemon()
    attached = await daemon.attach(world.submission().tag, None)
    if attached is Attachment.ABSENT:
        return await daemon.submit(world.submission(token), JOB, COMMAND, {})
    assert not isinstance(attached, Attachment)
    return attached


@pytest.mark.parametrize("before", [True, False], ids=["not sent", "answer lost"])
@pytest.mark.parametrize("request_number", range(1, 6))
async def test_whatever_request_of_a_submission_a_daemon_dies_at_one_pod_can_start(
    world: World, request_number: int, before: bool
) -> None:
    daemon = world.daemon(dies_at=request_number, before=before)
    try:
        await daemon.submit(world.submission(), JOB, COMMAND, {})
    except Died:
        died = True
    else:
        died = False
    assert died == (request_number <= 4), "read, Secret, pod, owner: a further request would need a case here"
    handle = await settled(world)
    [pod] = world.may_start()
    assert pod["metadata"]["uid"] == handle["uid"]
    assert len(world.secrets()) == 1
    world.ends(0)
    assert (await world.daemon().poll(handle)).exit_code == 0
    await world.daemon().forget(handle["tag"], handle)
    assert (world.pods(), world.secrets()) == ([], set())


@pytest.mark.parametrize("before", [True, False], ids=["not sent", "answer lost"])
@pytest.mark.parametrize("request_number", range(1, 5))
async def test_a_second_daemon_may_die_while_it_settles_what_the_first_one_left(
    world: World, request_number: int, before: bool
) -> None:
    with pytest.raises(Died):
        await world.daemon(dies_at=3, before=True).submit(world.submission(), JOB, COMMAND, {})
    second = world.daemon(dies_at=request_number, before=before)
    try:
        if await second.attach(world.submission().tag, None) is Attachment.ABSENT:
            await second.submit(world.submission("token-2"), JOB, COMMAND, {})
    except Died:
        pass
    handle = await settled(world, "token-3")
    assert [pod["metadata"]["uid"] for pod in world.may_start()] == [handle["uid"]]
    assert len(world.secrets()) == 1


async def test_two_daemons_that_submit_at_once_make_one_pod(world: World) -> None:
    handles: list[Handle] = []

    async def submit() -> None:
        handles.append(await world.daemon().submit(world.submission(), JOB, COMMAND, {}))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(submit)
    assert len({handle["uid"] for handle in handles}) == 1
    assert len(world.may_start()) == 1


async def test_a_pod_that_a_frozen_daemon_posts_after_the_answer_absent_cannot_start(world: World) -> None:
    submission, daemon = world.submission(), world.daemon()
    secret = manifest.secret(submission, daemon.place, COMMAND, {})
    await daemon.api.create("secrets", secret)  # and here the daemon freezes
    assert await world.daemon().attach(submission.tag, None) is Attachment.ABSENT
    world.post_late()
    assert world.may_start() == []
    handle = await world.daemon().submit(world.submission("token-2"), JOB, COMMAND, {})
    assert [pod["metadata"]["uid"] for pod in world.may_start()] == [handle["uid"]]


async def test_a_late_pod_that_starts_before_its_secret_is_deleted_is_the_try(world: World) -> None:
    daemon = world.daemon()
    await daemon.api.create("secrets", manifest.secret(world.submission(), daemon.place, COMMAND, {}))

    def happens() -> None:
        world.post_late()
        world.kubelet({"running": {"startedAt": "2026-11-26T12:00:00Z"}})

    attached = await world.daemon(meanwhile=(2, happens)).attach(world.submission().tag, None)
    [pod] = world.pods()
    assert not isinstance(attached, Attachment)
    assert attached["uid"] == pod["metadata"]["uid"]


async def test_a_late_pod_that_comes_between_the_requests_of_a_submission_is_replaced(world: World) -> None:
    """Read, Secret, and here the late pod takes the name of the one that is to be created."""
    late = world.daemon(meanwhile=(3, world.post_late))
    handle = await late.submit(world.submission("token-2"), JOB, COMMAND, {})
    assert [pod["metadata"]["uid"] for pod in world.may_start()] == [handle["uid"]]


async def test_a_daemon_that_wakes_after_the_try_was_taken_over_starts_nothing(world: World) -> None:
    """It was frozen before its first request, so nothing of its submission could be deleted before the answer absent."""
    assert await world.daemon().attach(world.submission().tag, None) is Attachment.ABSENT
    world.is_ours = False
    with pytest.raises(SubmitError, match="another home"):
        await world.daemon().submit(world.submission(), JOB, COMMAND, {})
    assert (world.pods(), world.secrets()) == ([], set())


async def test_a_late_pod_that_a_node_has_is_not_absent(world: World) -> None:
    """Its node may have read the Secret in time: the end that the node reports decides."""
    submission, daemon = world.submission(), world.daemon()
    await daemon.submit(submission, JOB, COMMAND, {})
    world.binds()
    world.api.delete(f"/secrets/{names.secret_name(world.name, 'token-1')}").raise_for_status()
    handle = await daemon.attach(submission.tag, None)
    assert not isinstance(handle, Attachment)
    assert (await daemon.poll(handle)).phase == "starting"
    assert await daemon.submit(world.submission("token-2"), JOB, COMMAND, {}) == handle
    assert world.pods()[0]["metadata"]["deletionTimestamp"], "it is asked to end all the same"
    world.kubelet({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}, "Failed")
    assert (await daemon.poll(handle)).restarted, "none of its drivers was granted its lease"


async def test_a_driver_of_which_its_node_has_lost_sight_is_over_once_its_lease_has_ended(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    world.binds()
    message = "asset-watcher: started twice"
    world.kubelet({"terminated": {"exitCode": 76, "reason": "Error", "message": message}}, "Failed")
    world.was_renewed, world.silent_for = True, 119.0
    status = await daemon.poll(handle)
    assert (status.phase, "a second time" in status.reason) == ("running", True)
    world.silent_for = 120.0
    status = await daemon.poll(handle)
    assert (status.phase, status.restarted, status.exit_code) == ("exited", True, None)
    assert world.secrets() == set()


async def test_a_strangers_pod_of_our_name_is_no_try(world: World) -> None:
    await world.daemon(installation="another").submit(world.submission(), JOB, COMMAND, {})
    with pytest.raises(SubmitError, match="is not this try's") as refused:
        await world.daemon().submit(world.submission(), JOB, COMMAND, {})
    assert not refused.value.retryable
    with pytest.raises(SubmitError):
        await world.daemon().attach(world.submission().tag, None)
    await world.daemon().forget(world.submission().tag, None)
    assert len(world.may_start()) == 1, "the other installation's pod and Secret stay"


async def test_a_pod_that_is_deleted_by_hand_keeps_its_end(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    world.binds()
    world.kubelet({"running": {"startedAt": "2026-11-26T12:00:00Z"}})
    world.api.delete(f"/pods/{world.name}").raise_for_status()
    assert (await daemon.poll(handle)).phase == "running"
    world.ends(7)
    assert (await daemon.poll(handle)).exit_code == 7
    assert await daemon.attach(handle["tag"], handle) == handle


async def test_the_secret_is_gone_when_the_end_is_known_and_the_pod_when_it_is_forgotten(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    assert len(world.secrets()) == 1
    world.ends(0)
    assert (await daemon.poll(handle)).phase == "exited"
    assert (len(world.pods()), world.secrets()) == (1, set())
    for _ in range(2):
        await daemon.forget(handle["tag"], handle)
        assert world.pods() == []


async def test_a_pod_that_was_removed_by_force_is_lost_only_after_its_driver_must_have_ended(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    merge = {"Content-Type": "application/merge-patch+json"}
    world.api.patch(f"/pods/{world.name}", json={"metadata": {"finalizers": None}}, headers=merge).raise_for_status()
    world.api.request("DELETE", f"/pods/{world.name}", json={"gracePeriodSeconds": 0}).raise_for_status()
    world.silent_for = 119.0
    status = await daemon.poll(handle)
    assert (status.phase, "deleted by force" in status.reason) == ("running", True)
    assert await daemon.attach(handle["tag"], handle) == handle
    world.silent_for = 120.0
    status = await daemon.poll(handle)
    assert (status.phase, status.restarted, status.exit_code) == ("exited", True, None)
    assert await daemon.attach(handle["tag"], handle) is Attachment.RESTARTED


async def test_a_driver_whose_pod_was_removed_by_force_before_its_daemon_noted_it_does_not_start_again(
    world: World,
) -> None:
    """The daemon died after it had created the pod. The driver started, and a person took the finalizer off and deleted it."""
    await world.daemon().submit(world.submission(), JOB, COMMAND, {})
    merge = {"Content-Type": "application/merge-patch+json"}
    world.api.patch(f"/pods/{world.name}", json={"metadata": {"finalizers": None}}, headers=merge).raise_for_status()
    world.api.request("DELETE", f"/pods/{world.name}", json={"gracePeriodSeconds": 0}).raise_for_status()
    world.was_renewed, world.silent_for = True, 119.0
    with pytest.raises(NotYet, match="waits until the driver has certainly ended"):
        await world.daemon().attach(world.submission().tag, None)
    world.silent_for = 120.0
    assert await world.daemon().attach(world.submission().tag, None) is Attachment.RESTARTED
    world.was_renewed = False
    assert await world.daemon().attach(world.submission().tag, None) is Attachment.ABSENT


async def test_a_driver_whose_node_is_gone_is_lost_once_it_must_have_ended(world: World) -> None:
    """The pod stays, because of our finalizer, and says for ever that its container runs."""
    handle = await world.daemon().submit(world.submission(), JOB, COMMAND, {})
    world.binds()
    world.kubelet({"running": {"startedAt": "2026-11-26T12:00:00Z"}}, "Failed")  # the phase is the pod collector's
    world.silent_for = 119.0
    assert (await world.daemon().poll(handle)).phase == "running"
    world.silent_for = 120.0
    status = await world.daemon().poll(handle)
    assert (status.phase, status.restarted, status.exit_code) == ("exited", True, None)
    assert "has not renewed its lease" in status.reason
    assert world.secrets() == set()
    await world.daemon().cancel(handle, 1)
    assert (await world.daemon().poll(handle)).stopped


async def test_a_driver_that_has_just_started_is_not_lost_because_its_image_took_long(world: World) -> None:
    handle = await world.daemon().submit(world.submission(), JOB, COMMAND, {})
    world.binds()
    world.silent_for = 1000.0
    assert (await world.daemon().poll(handle)).phase == "starting"
    world.kubelet({"running": {"startedAt": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}})
    assert (await world.daemon().poll(handle)).phase == "running"


async def test_an_end_that_a_broken_watch_has_not_heard_of_is_read(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    world.binds()
    world.kubelet({"running": {"startedAt": "2026-11-26T12:00:00Z"}})
    [seen] = world.pods()
    world.ends(0)
    world.silent_for = 1000.0
    assert (await daemon.poll(handle, seen)).exit_code == 0


async def test_a_pod_that_its_node_changes_meanwhile_is_forgotten_all_the_same(world: World) -> None:
    handle = await world.daemon().submit(world.submission(), JOB, COMMAND, {})
    world.binds()
    world.ends(0)
    daemon = world.daemon(meanwhile=(2, lambda: world.ends(3)))
    await daemon.forget(handle["tag"], handle)
    assert world.pods() == []


def executor(world: World, number: int, task: str = "") -> None:
    """Make a pod as Spark makes an executor's."""
    submission = make_submission(task or world.task, Path("/load.py"))
    template = executors.template(WITH_EXECUTORS, "python3", submission.tag, world.daemon().place)
    [container] = template["spec"]["containers"]
    labels = {**template["metadata"]["labels"], "spark-role": "executor"}
    body = {
        "metadata": {"name": f"load-{uuid4().hex[:8]}-exec-{number}", "labels": labels},
        "spec": {**template["spec"], "containers": [{**container, "image": "watcher:1"}], "restartPolicy": "Never"},
    }
    answer = world.api.post("/pods", json=body)
    assert answer.status_code == 201, answer.text


async def test_what_spark_left_of_its_executors_goes_with_the_end_of_the_driver(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), WITH_EXECUTORS, COMMAND, {})
    for number in (1, 2):
        executor(world, number)
    executor(world, 1, task="another")
    assert (await daemon.poll(handle)).phase == "starting"
    assert len(world.pods()) == 4
    world.ends(137)
    assert (await daemon.poll(handle)).phase == "exited"
    left = [names.is_executor(pod) for pod in world.pods()]
    assert sorted(left) == [False, True], "the driver stays for its end, and another try's executor"


async def test_executors_of_a_driver_that_was_lost_with_its_node_are_deleted(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), WITH_EXECUTORS, COMMAND, {})
    merge = {"Content-Type": "application/merge-patch+json"}
    world.api.patch(f"/pods/{world.name}", json={"metadata": {"finalizers": None}}, headers=merge).raise_for_status()
    world.api.request("DELETE", f"/pods/{world.name}", json={"gracePeriodSeconds": 0}).raise_for_status()
    executor(world, 1)
    world.silent_for = 119.0
    assert (await daemon.poll(handle)).phase == "running"
    assert len(world.pods()) == 1, "its driver may run"
    world.silent_for = 120.0
    assert await world.daemon().attach(handle["tag"], handle) is Attachment.RESTARTED
    assert world.pods() == []


async def test_forgetting_an_installation_takes_its_executors_and_counts_its_drivers(world: World) -> None:
    daemon = world.daemon()
    await daemon.submit(world.submission(), WITH_EXECUTORS, COMMAND, {})
    executor(world, 1)
    assert await remove_all(daemon.api, world.installation) == 1
    assert (world.pods(), world.secrets()) == ([], set())


async def test_another_pod_of_the_name_is_not_the_handles(world: World) -> None:
    daemon = world.daemon()
    world.silent_for = 1000.0
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    other = {**handle, "uid": str(uuid4())}
    assert await daemon.attach(handle["tag"], other) is Attachment.RESTARTED
    await daemon.cancel(other, 1)
    await daemon.forget(handle["tag"], other)
    [pod] = world.pods()
    assert "deletionTimestamp" not in pod["metadata"]
    assert names.STOPPED not in pod["metadata"]["annotations"]


async def test_a_pod_that_waits_for_a_node_is_over_as_soon_as_it_is_stopped(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    await daemon.cancel(handle, 10)
    status = await daemon.poll(handle)
    assert (status.phase, status.stopped, status.exit_code) == ("exited", True, None)


async def test_that_it_was_stopped_survives_the_daemon_that_stopped_it(world: World) -> None:
    daemon = world.daemon()
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    world.binds()
    world.kubelet({"running": {"startedAt": "2026-11-26T12:00:00Z"}})
    with pytest.raises(Died):  # it annotates, and dies before it deletes
        await world.daemon(dies_at=2, before=True).cancel(handle, 10)
    assert (await daemon.poll(handle)).stopped
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.cancel, handle, 10)
        with anyio.fail_after(60):
            while "deletionTimestamp" not in world.pods()[0]["metadata"]:
                await anyio.sleep(0.05)
        world.ends(143)
    status = await daemon.poll(handle)
    assert (status.exit_code, status.stopped) == (143, True)


async def test_refusals_of_reads_prove_nothing(world: World, running: RunningApi) -> None:
    handle = await world.daemon().submit(world.submission(), JOB, COMMAND, {})
    async with running.cluster(token="another").connection() as world.connection:
        daemon = world.daemon()
        for request in (daemon.attach(handle["tag"], None), daemon.attach(handle["tag"], handle), daemon.poll(handle)):
            with pytest.raises(ApiRefused):
                await request


async def test_a_sweep_takes_what_no_try_has_any_more_and_nothing_of_another_installation(world: World) -> None:
    daemon = world.daemon()
    await daemon.submit(world.submission(), JOB, COMMAND, {})
    world.task = str(uuid4())
    stranger = await world.daemon(installation="another").submit(world.submission(), JOB, COMMAND, {})
    world.task = str(uuid4())
    submission = world.submission()
    handle = await daemon.submit(submission, JOB, COMMAND, {})
    # A daemon that was frozen is killed before it asks whether the try is still its own.
    late = make_submission(str(uuid4()), Path("/load.py"), context={"token": "token-1"})
    await daemon.api.create("secrets", manifest.secret(late, daemon.place, COMMAND, {}))

    async def tags() -> Collection[str]:
        return {submission.tag}

    assert await sweep(daemon.api, world.installation, tags) == 3
    assert {pod["metadata"]["name"] for pod in world.pods()} == {handle["pod"], stranger["pod"]}
    assert len(world.secrets()) == 2
    assert await sweep(daemon.api, world.installation, tags) == 0


async def test_a_sweep_takes_executors_of_tries_that_are_forgotten_where_the_cluster_follows_no_owner_references(
    world: World,
) -> None:
    """Their driver is gone, and Spark did not delete them. They name no owner, so only their labels say whose they are."""
    for number in (1, 2):
        executor(world, number)
    executor(world, 1, task="open")
    assert not any("ownerReferences" in pod["metadata"] for pod in world.pods())
    kept = make_submission("open", Path("/load.py")).tag

    async def tags() -> Collection[str]:
        return {kept}

    assert await sweep(world.daemon().api, world.installation, tags) == 2
    assert [pod["metadata"]["labels"][names.TRY] for pod in world.pods()] == [names.pod_name(kept)]


async def test_a_try_that_is_recorded_while_a_sweep_lists_is_kept(world: World) -> None:
    daemon = world.daemon()
    tags: set[str] = set()

    async def recorded() -> Collection[str]:
        return tags

    def happens() -> None:
        tags.add(world.submission().tag)

    await daemon.submit(world.submission(), JOB, COMMAND, {})
    assert await sweep(world.daemon(meanwhile=(2, happens)).api, world.installation, recorded) == 0
    assert len(world.may_start()) == 1


async def test_what_events_say_of_a_pod_that_waits_is_a_sentence(world: World) -> None:
    daemon = replace(world.daemon(), warning=lambda uid: f"MountVolume.SetUp failed for {uid}")
    handle = await daemon.submit(world.submission(), JOB, COMMAND, {})
    status = await daemon.poll(handle)
    assert status.reason == f"waits for its container: MountVolume.SetUp failed for {handle['uid']}"
    world.binds()
    world.kubelet({"running": {"startedAt": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}})
    assert (await daemon.poll(handle)).reason == ""


async def test_what_no_later_request_could_change_is_a_final_error(world: World) -> None:
    bad = DriverPod.model_validate({"image": "x", "template": {"spec": {"nodeSelector": {"a b": "c"}}}})
    if world.api.base_url.scheme == "http":
        pytest.skip("the stand-in validates no pods")
    with pytest.raises(SubmitError, match=r"spark\.kubernetes") as refused:
        await world.daemon().submit(world.submission(), bad, COMMAND, {})
    assert not refused.value.retryable
