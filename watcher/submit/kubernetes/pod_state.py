"""What a pod, as the API server reports it, means for its try. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from config.features.kubernetes.pod_template import DRIVER
from watcher.submit.base import Status
from watcher.submit.kubernetes.names import LATE, START_TIMEOUT, STOPPED

_NODE_LATE: Final = timedelta(seconds=30)
"""The time after the end of a deletion's grace in which a node that answers has reported the end."""
_LOST: Final = (
    "its node does not answer, and its driver has not renewed its lease with the daemon for so long that it has ended"
)
STARTED_TWICE: Final = 76
"""The wrapper's exit code if the node starts the container a second time."""
_TWICE: Final = "its node started the driver's container a second time, and what the first one did is not known"
_NO_END: Final = "its node does not know how the driver's container ended"
_OF_WRAPPER: Final = "asset-watcher: "
"""What the container's message begins with if it is the wrapper's. A job may exit with the wrapper's codes by itself."""
_REFUSED_BY_NODE: Final = frozenset(
    {
        *("OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage", "NodeAffinity", "NodeName", "NodePorts"),
        *("TaintToleration", "PodOSSelectorNodeLabelDoesNotMatch", "UnexpectedAdmissionError", "SysctlForbidden"),
    }
)
"""A kubelet's own reasons for refusing a pod before it starts any container."""
_IMAGE: Final = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
_CREATION: Final = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def status_of(pod: Mapping[str, Any]) -> Status:
    """Return the try's state.

    The try is over only when the kubelet reported that the driver's container has terminated: sidecars and the pod's
    phase decide nothing, because a controller writes the phase of pods whose node is silent. See `without_node` for those,
    and for a container of which the kubelet has lost sight: a driver that it started may still run.
    """
    state = _driver(pod).get("state") or {}
    stopped = STOPPED in (pod["metadata"].get("annotations") or {})
    if ended := state.get("terminated"):
        cost = _cost(ended)
        status = _ended(pod, ended, stopped=stopped)
        return replace(status, cpu_seconds=cost.get("cpu_seconds"), peak_memory_mb=cost.get("peak_mb"))
    if "running" in state:
        return Status(phase="running", stopped=stopped, reason=_silent_node(pod))
    if (reason := pod["status"].get("reason")) in _REFUSED_BY_NODE and not has_started(pod):
        message = pod["status"].get("message") or reason
        return Status(phase="exited", restarted=True, stopped=stopped, reason=f"its node refused the pod: {message}")
    if pod["metadata"].get("deletionTimestamp") and not pod["spec"].get("nodeName"):
        # The API server binds no pod that is being deleted.
        sentence = "the pod was deleted before a node had it"
        return Status(phase="exited", restarted=not stopped, stopped=stopped, reason=sentence)
    return Status(phase="starting", stopped=stopped, reason=next(_obstacles(pod, state), ""))


def with_start(status: Status, pod: Mapping[str, Any], now: datetime) -> Status:
    """Return the status with how long the driver has run, and as a failure if the pod was given up before it started."""
    state = _driver(pod).get("state") or {}
    times = state.get("running") or state.get("terminated") or {}
    seconds = 0.0
    if started := times.get("startedAt"):
        ended = times.get("finishedAt")
        until = now if ended is None else datetime.fromisoformat(ended)
        seconds = max((until - datetime.fromisoformat(started)).total_seconds(), 0.0)
    return _given_up(replace(status, running_for=seconds), pod)


def _given_up(status: Status, pod: Mapping[str, Any]) -> Status:
    late = (pod["metadata"].get("annotations") or {}).get(LATE)
    if late and status.phase == "exited" and status.exit_code != 0:
        return replace(status, restarted=False, reason=late)
    return status


def is_out_of_sight(status: Status, pod: Mapping[str, Any]) -> bool:
    """Whether the node has lost sight of the driver's container, which may still run."""
    return status.phase == "running" and "terminated" in (_driver(pod).get("state") or {})


def without_node(status: Status, pod: Mapping[str, Any], now: datetime, silence: float, silent_for: float) -> Status:
    """Return the status as lost if the driver cannot run any more, although its node does not report the end.

    `silence` is the number of seconds since the driver's last renewal, or since the try was submitted; `silent_for` is how
    many prove that it has ended. No container that starts later can start the driver: the wrapper asks for the lease first.
    """
    if status.phase == "exited" or silence < silent_for:
        return status
    if is_out_of_sight(status, pod):
        return _given_up(replace(status, phase="exited", restarted=not status.stopped), pod)
    leaves = pod["metadata"].get("deletionTimestamp")
    is_late = leaves is not None and now - datetime.fromisoformat(leaves) >= _NODE_LATE
    if not is_late and (status.running_for or 0) < silent_for:
        return status
    return _given_up(replace(status, phase="exited", restarted=not status.stopped, reason=_LOST), pod)


def overdue(pod: Mapping[str, Any], status: Status, now: datetime) -> str:
    """Why the try fails because its container has not started in time; '' if it may still start."""
    annotations = pod["metadata"].get("annotations") or {}
    if status.phase != "starting" or LATE in annotations or START_TIMEOUT not in annotations:
        return ""
    seconds = float(annotations[START_TIMEOUT])
    age = (now - datetime.fromisoformat(pod["metadata"]["creationTimestamp"])).total_seconds()
    if age < seconds:
        return ""
    why = f": {status.reason}" if status.reason else ""
    return f"its container did not start within {seconds:g} s (spark.kubernetes.start_timeout){why}"


def _driver(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return next((each for each in statuses if each["name"] == DRIVER), {})


def has_started(pod: Mapping[str, Any]) -> bool:
    """Whether the driver's container has started, as far as its node has reported it."""
    driver = _driver(pod)
    past = driver.get("started") or driver.get("containerID") or driver.get("lastState")
    return bool(past or (driver.get("state") or {}).keys() & {"running", "terminated"})


def _ended(pod: Mapping[str, Any], ended: Mapping[str, Any], *, stopped: bool) -> Status:
    code: int = ended["exitCode"]
    message = _wrappers_message(ended)
    if code == 0:
        return Status(phase="exited", exit_code=0, stopped=stopped)
    if ended.get("reason") == "OOMKilled":
        return Status(phase="exited", exit_code=code, stopped=stopped, reason=_out_of_memory(pod))
    if code == STARTED_TWICE and message == "started twice":
        return Status(phase="running", stopped=stopped, reason=_TWICE)
    if ended.get("reason") == "ContainerStatusUnknown":
        return Status(phase="running", stopped=stopped, reason=_NO_END)
    if (disruption := _condition(pod, "DisruptionTarget", "True")) is not None:
        message = disruption.get("message") or disruption.get("reason") or "the cluster removed it"
        return Status(
            phase="exited", restarted=not stopped, stopped=stopped, reason=f"the pod was disrupted: {message}"
        )
    return Status(phase="exited", exit_code=code, stopped=stopped, reason=message)


def _wrappers_message(ended: Mapping[str, Any]) -> str:
    message: str = ended.get("message") or ""
    return message.removeprefix(_OF_WRAPPER).partition("\n")[0] if message.startswith(_OF_WRAPPER) else ""


def _cost(ended: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the driver's processes took, as its wrapper counted it; nothing if the wrapper was killed, too."""
    message: str = ended.get("message") or ""
    try:
        cost = json.loads(message.partition("\n")[2]) if message.startswith(_OF_WRAPPER) else {}
    except ValueError:
        return {}
    return cost if isinstance(cost, dict) else {}


def _out_of_memory(pod: Mapping[str, Any]) -> str:
    containers = pod.get("spec", {}).get("containers") or []
    limits: Mapping[str, str] = next(
        (each.get("resources", {}).get("limits", {}) for each in containers if each["name"] == DRIVER), {}
    )
    memory = limits.get("memory")
    had = "its memory" if memory is None else f"its {memory} of memory"
    return f"the driver's container needed more than {had} and was killed: set spark.kubernetes.driver.memory to more"


def _condition(pod: Mapping[str, Any], kind: str, status: str) -> Mapping[str, Any] | None:
    conditions: list[Mapping[str, Any]] = pod.get("status", {}).get("conditions") or []
    return next((each for each in conditions if (each["type"], each["status"]) == (kind, status)), None)


def _silent_node(pod: Mapping[str, Any]) -> str:
    ready = _condition(pod, "Ready", "Unknown") or _condition(pod, "ContainersReady", "Unknown")
    return "" if ready is None else "the pod's node does not answer, so nothing is known of the driver now"


def _obstacles(pod: Mapping[str, Any], state: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the container has not started, the cause before its effects."""
    if (unscheduled := _condition(pod, "PodScheduled", "False")) is not None:
        yield f"waits for a node: {unscheduled.get('message') or unscheduled.get('reason')}"
    waiting = state.get("waiting") or {}
    message = waiting.get("message") or waiting.get("reason")
    if waiting.get("reason") in _IMAGE:
        yield f"waits for its image: {message}; correct spark.kubernetes.image, or give the cluster access to it"
    if waiting.get("reason") in _CREATION:
        yield f"waits for its container: {message}"
