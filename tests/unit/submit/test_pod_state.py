"""What a pod's status means for its try."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.submit.pods import RUNNING, condition, pod, terminated
from watcher.features.kubernetes.names import LATE, START_TIMEOUT
from watcher.features.kubernetes.pod_state import (
    STARTED_TWICE,
    is_out_of_sight,
    overdue,
    status_of,
    with_start,
    without_node,
)
from watcher.features.kubernetes.pod_tries import next_look

DISRUPTED = condition("DisruptionTarget", "True", reason="EvictionByEvictionAPI", message="Eviction API: evicting")


@pytest.mark.parametrize("code", [0, 1, 75, 76, 143])
def test_an_exit_code_of_the_container_is_that_of_the_try(code: int) -> None:
    status = status_of(pod(terminated(code), phase="Failed"))
    assert (status.phase, status.exit_code, status.restarted, status.reason) == ("exited", code, False, "")


def test_a_sidecar_decides_nothing() -> None:
    ended = pod(terminated(3), phase="Running")
    ended["status"]["containerStatuses"].insert(0, {"name": "proxy", "state": RUNNING})
    assert status_of(ended).exit_code == 3
    going_on = pod(RUNNING, phase="Running")
    going_on["status"]["containerStatuses"].insert(0, {"name": "proxy", "state": terminated(1)})
    assert status_of(going_on).phase == "running"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded", "Unknown"])
def test_a_phase_that_a_controller_writes_ends_nothing(phase: str) -> None:
    """The pods of a lost node are marked as failed while their containers may run on."""
    assert status_of(pod(RUNNING, phase=phase, conditions=[DISRUPTED], reason="NodeLost")).phase == "running"
    assert status_of(pod(None, phase=phase, reason="NodeLost")).phase == "starting"


def test_a_deleted_pod_is_not_over_before_its_container_is() -> None:
    deleted = pod(RUNNING, phase="Running", stopped=True)
    deleted["metadata"]["deletionTimestamp"] = "2026-11-26T12:00:00Z"
    status = status_of(deleted)
    assert (status.phase, status.stopped) == ("running", True)
    assert status_of(pod(terminated(143), stopped=True)).stopped


def test_a_pod_that_is_deleted_before_a_node_has_it_never_runs() -> None:
    waiting = pod(None, phase="Pending", stopped=True)
    waiting["metadata"]["deletionTimestamp"] = "2026-11-26T12:00:00Z"
    status = status_of(waiting)
    assert (status.phase, status.exit_code, status.stopped, status.restarted) == ("exited", None, True, False)
    waiting["spec"]["nodeName"] = "n1"
    assert status_of(waiting).phase == "starting"


def test_a_disruption_excuses_a_failure_and_never_undoes_a_success() -> None:
    evicted = status_of(pod(terminated(143), phase="Failed", conditions=[DISRUPTED]))
    assert (evicted.restarted, evicted.exit_code) == (True, None)
    assert evicted.reason == "the pod was disrupted: Eviction API: evicting"
    in_time = status_of(pod(terminated(0, "Completed"), conditions=[DISRUPTED]))
    assert (in_time.restarted, in_time.exit_code) == (False, 0)


def test_too_little_memory_names_the_memory_to_set() -> None:
    status = status_of(pod(terminated(137, "OOMKilled")))
    assert (status.exit_code, status.restarted) == (137, False)
    assert status.reason == (
        "the driver's container needed more than its 1Gi of memory and was killed: "
        "set spark.kubernetes.driver.memory to more"
    )


def test_only_the_wrapper_can_say_that_a_container_was_started_twice() -> None:
    twice = status_of(pod(terminated(STARTED_TWICE, message="asset-watcher: started twice")))
    assert (twice.phase, twice.exit_code) == ("running", None)
    assert "started the driver's container a second time" in twice.reason
    assert status_of(pod(terminated(STARTED_TWICE, message="my own"))).exit_code == STARTED_TWICE
    fenced = status_of(pod(terminated(75, message="asset-watcher: the daemon answered 409")))
    assert (fenced.exit_code, fenced.restarted, fenced.reason) == (75, False, "the daemon answered 409")


@pytest.mark.parametrize(
    ("message", "cost"),
    [
        ('asset-watcher: \n{"cpu_seconds": 1.5, "peak_mb": 300}', (1.5, 300)),
        ('asset-watcher: the daemon answered 409\n{"cpu_seconds": 1.5, "peak_mb": 300}', (1.5, 300)),
        ("asset-watcher: started twice", (None, None)),
        ('the job\'s own\n{"cpu_seconds": 1.5, "peak_mb": 300}', (None, None)),
        ("asset-watcher: \n[1]", (None, None)),
        (None, (None, None)),
    ],
)
def test_what_a_driver_took_is_what_its_wrapper_counted(message: str | None, cost: tuple[Any, Any]) -> None:
    status = status_of(pod(terminated(0, message=message)))
    assert (status.cpu_seconds, status.peak_memory_mb) == cost


UNKNOWN = terminated(137, "ContainerStatusUnknown")
TWICE = terminated(STARTED_TWICE, message="asset-watcher: started twice")


@pytest.mark.parametrize("state", [UNKNOWN, TWICE])
def test_a_container_of_which_its_node_has_lost_sight_is_lost_once_its_lease_has_ended(state: dict[str, Any]) -> None:
    """A process that the node does not know any more may still run."""
    lost = pod(state)
    status = with_start(status_of(lost), lost, NOW)
    assert is_out_of_sight(status, lost)
    assert without_node(status, lost, NOW, 119, 120).phase == "running"
    ended = without_node(status, lost, NOW, 120, 120)
    assert (ended.phase, ended.exit_code, ended.restarted, ended.reason) == ("exited", None, True, status.reason)
    assert not is_out_of_sight(ended, lost)


@pytest.mark.parametrize("state", [RUNNING, terminated(0), terminated(1), None])
def test_a_node_that_reports_a_container_sees_it(state: dict[str, Any] | None) -> None:
    seen = pod(state)
    assert not is_out_of_sight(status_of(seen), seen)


def test_a_try_that_we_stopped_is_not_excused_by_how_its_node_ended_it() -> None:
    """A driver that never started in time, and was stopped for it, has used its try: else it would be tried for ever."""
    stopped = pod(UNKNOWN, stopped=True)
    unknown = without_node(status_of(stopped), stopped, NOW, 120, 120)
    disrupted = status_of(pod(terminated(143), stopped=True, conditions=[DISRUPTED]))
    assert (unknown.restarted, unknown.stopped) == (False, True)
    assert (disrupted.restarted, disrupted.stopped) == (False, True)


def test_a_pod_that_its_node_refused_never_ran() -> None:
    status = status_of(pod(None, phase="Failed", reason="OutOfcpu", message="Node didn't have enough resource: cpu"))
    assert (status.phase, status.exit_code, status.restarted) == ("exited", None, True)
    assert status.reason == "its node refused the pod: Node didn't have enough resource: cpu"


def test_a_refusal_ends_no_container_that_has_started() -> None:
    started = pod({"waiting": {}}, phase="Failed", reason="NodeAffinity")
    started["status"]["containerStatuses"][0]["containerID"] = "containerd://1"
    assert status_of(started).phase == "starting"


@pytest.mark.parametrize(
    ("seen", "sentence"),
    [
        (
            pod(
                None,
                phase="Pending",
                conditions=[
                    condition("PodScheduled", "False", reason="Unschedulable", message="0/1 nodes: Insufficient cpu")
                ],
            ),
            "waits for a node: 0/1 nodes: Insufficient cpu",
        ),
        (
            pod({"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}}, phase="Pending"),
            'waits for its image: Back-off pulling image "x"; correct spark.kubernetes.image, or give the cluster access to it',
        ),
        (
            pod({"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}}),
            'waits for its container: secret "s" not found',
        ),
        (pod({"waiting": {"reason": "ContainerCreating"}}, phase="Pending"), ""),
        (pod(None, phase="Pending"), ""),
    ],
)
def test_what_a_pod_waits_for_is_a_sentence(seen: dict[str, object], sentence: str) -> None:
    status = status_of(seen)
    assert (status.phase, status.reason) == ("starting", sentence)


def test_a_silent_node_is_said_and_ends_nothing() -> None:
    status = status_of(pod(RUNNING, conditions=[condition("Ready", "Unknown"), condition("ContainersReady", "True")]))
    assert status.phase == "running"
    assert "does not answer" in status.reason


NOW = datetime(2026, 11, 26, 12, 5, tzinfo=UTC)


def test_only_a_driver_that_has_run_or_should_be_gone_for_long_is_lost_with_its_node() -> None:
    def phase(seen: dict[str, Any], silence: float, now: datetime = NOW) -> str:
        return without_node(with_start(status_of(seen), seen, now), seen, now, silence, silent_for=120).phase

    assert phase(pod(RUNNING), 119) == "running"
    assert phase(pod(RUNNING), 120) == "exited"
    assert phase(pod(RUNNING), 1000, NOW - timedelta(minutes=4)) == "running", "it has run for a minute"
    waits = pod(None)
    assert phase(waits, 1000) == "starting"
    waits["spec"]["nodeName"] = "n1"
    waits["metadata"]["deletionTimestamp"] = "2026-11-26T12:04:31Z"
    assert phase(waits, 1000) == "starting"
    waits["metadata"]["deletionTimestamp"] = "2026-11-26T12:04:30Z"
    assert phase(waits, 119) == "starting"
    assert phase(waits, 120) == "exited"


CREATED = "2026-11-26T11:35:00Z"


def running_for(pod: dict[str, Any]) -> float | None:
    return with_start(status_of(pod), pod, NOW).running_for


def test_the_start_is_the_containers_not_the_pods() -> None:
    assert running_for(pod(None, startTime="2026-11-26T11:00:00Z")) == 0
    assert running_for(pod(RUNNING)) == 300
    times = {"startedAt": "2026-11-26T12:00:00Z", "finishedAt": "2026-11-26T12:01:00Z"}
    assert running_for(pod(terminated(0, **times))) == 60


def waiting(seconds: str, **annotations: str) -> dict[str, Any]:
    made = pod({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}})
    made["metadata"] |= {"creationTimestamp": CREATED, "annotations": {START_TIMEOUT: seconds, **annotations}}
    return made


def test_a_container_that_does_not_start_in_time_is_overdue() -> None:
    in_time, late = waiting("1801"), waiting("1800")
    assert overdue(in_time, status_of(in_time), NOW) == ""
    sentence = overdue(late, status_of(late), NOW)
    assert "did not start within 1800 s" in sentence
    assert "Back-off" in sentence
    given_up = waiting("1800", **{LATE: sentence})
    assert overdue(given_up, status_of(given_up), NOW) == ""
    given_up["metadata"]["deletionTimestamp"] = CREATED
    status = with_start(status_of(given_up), given_up, NOW)
    assert (status.phase, status.restarted, status.reason) == ("exited", False, sentence)
    started = {**pod(RUNNING), "metadata": late["metadata"]}
    assert overdue(started, status_of(started), NOW) == ""


def test_the_database_is_asked_for_a_renewal_only_when_one_may_be_missing() -> None:
    assert [next_look(silence, 120) for silence in (0, 9, 25, 60, math.inf)] == [30, 21, 10, 10, 10]
    assert next_look(1, 12) == 11, "a short lease matters sooner"
