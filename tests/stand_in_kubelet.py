"""A node for the stand-in of Kubernetes: it runs the wrapper of each pod in a namespace as a process of this machine."""

from __future__ import annotations

import base64
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.stand_in_kubernetes import Refusal, StandInKubernetes

_BOOT = """
import sys
from pathlib import Path
root = Path(sys.argv[1])
sys.path.insert(0, str(root / "secret"))
import wrapper
wrapper.end(wrapper.main(root / "work", root / "private", root / "message"))
"""


@dataclass
class StandInKubelet:
    """Pods of one namespace. `binds` False: no pod gets a node, as in a cluster without room.

    `is_connected` False: it hears and reports nothing, and the containers run on.
    """

    kubernetes: StandInKubernetes
    namespace: str
    folder: Path
    binds: bool = True
    is_connected: bool = True
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _followers: list[threading.Thread] = field(default_factory=list)
    _stopping: set[str] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)
    _reports: queue.SimpleQueue[tuple[str, str, dict[str, Any]]] = field(default_factory=queue.SimpleQueue)
    _ended: threading.Event = field(default_factory=threading.Event)
    _wipes: int = 0

    def run(self) -> None:
        """Start what was created, and stop what is being deleted, until `end`."""
        while not self._ended.wait(0.05):
            if self.is_connected:
                self._send_reports()
                pods = self.kubernetes.list(self.namespace, "pods", "")["items"]
                for pod in pods:
                    with contextlib.suppress(Refusal):  # it was removed meanwhile
                        self._look_after(pod)
                for uid in self._processes.keys() - {pod["metadata"]["uid"] for pod in pods}:
                    _kill(self._processes[uid])

    def end(self) -> None:
        self._ended.set()
        for process in self._processes.values():
            _kill(process)
        for follower in self._followers:
            follower.join()

    def running(self) -> list[str]:
        """The uids of the pods whose container runs."""
        return [uid for uid, process in [*self._processes.items()] if process.poll() is None]

    def lose_node(self) -> list[str]:
        """End all containers together with their node, of which nothing is heard any more. Return the uids of their pods."""
        lost = self.running()
        self._lost.update(lost)
        for uid in lost:
            _kill(self._processes[uid])
        return lost

    def wipe(self) -> None:
        """End all containers, and start them once more, as a node does that has forgotten that they ran.

        Every other time their folders are empty: a node that has ended a container removes its folders, and starts it anew
        if it is wiped before it could report the end.
        """
        self._wipes += 1
        for uid in self.running():
            self._start_again(uid, is_emptied=self._wipes % 2 == 1)

    def _start_again(self, uid: str, *, is_emptied: bool) -> None:
        self._lost.add(uid)
        _kill(self._processes[uid])
        self._processes[uid].wait()
        self._lost.remove(uid)
        root = self.folder / uid
        for part in ("work", "private") if is_emptied else ():
            shutil.rmtree(root / part)
            (root / part).mkdir()
        self._run_container(uid, root)

    def _look_after(self, pod: dict[str, Any]) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        is_leaving = "deletionTimestamp" in pod["metadata"]
        if uid not in self._processes and self.binds and not is_leaving and pod["status"]["phase"] == "Pending":
            volumes = pod["spec"].get("volumes", ())
            secrets = [each["secret"]["secretName"] for each in volumes if "secret" in each]
            if not secrets:
                return  # a stranger's pod
            data = self.kubernetes.read(self.namespace, "secrets", secrets[0])["data"]  # without it, it cannot start
            self.kubernetes.patch(self.namespace, "pods", name, {"spec": {"nodeName": "n1"}})
            self._start(uid, data)
        elif is_leaving and pod["status"]["phase"] in {"Succeeded", "Failed"}:
            if pod["metadata"]["deletionGracePeriodSeconds"]:
                self.kubernetes.delete(self.namespace, "pods", name, {"gracePeriodSeconds": 0})
        elif is_leaving and pod["spec"].get("nodeName") and uid not in self._stopping | self._lost:
            self._stopping.add(uid)
            if (process := self._processes.get(uid)) is None:
                self._reports.put(
                    (uid, "Failed", {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}})
                )
            else:
                threading.Thread(target=self._stop, args=(pod, process), daemon=True).start()

    def _start(self, uid: str, data: dict[str, str]) -> None:
        root = self.folder / uid
        for part in ("secret", "work", "private"):
            (root / part).mkdir(parents=True)
        for key, content in data.items():
            here = base64.b64decode(content)
            if not key.endswith((".py", ".zip")):
                here = here.replace(b"/asset-watcher/", f"{root}/".encode())
            (root / "secret" / key).write_bytes(here)
        self._run_container(uid, root)

    def _run_container(self, uid: str, root: Path) -> None:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, str(root)],
            env={"PATH": os.environ["PATH"], "POD_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._processes[uid] = process
        self._reports.put((uid, "Running", {"running": {"startedAt": _now()}}))
        follower = threading.Thread(target=self._follow, args=(uid, process, root), daemon=True)
        self._followers.append(follower)
        follower.start()

    def _follow(self, uid: str, process: subprocess.Popen[bytes], root: Path) -> None:
        assert process.stdout is not None
        started, name = _now(), self._name(uid)
        with process.stdout as output:
            for line in output:
                logged = self.kubernetes.logs.get(name, b"")
                self.kubernetes.logs[name] = logged + f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() + line
        code = process.wait()
        message = (root / "message").read_text() if (root / "message").exists() else ""
        ended = {
            "exitCode": 128 - code if code < 0 else code,
            "reason": "Error" if code else "Completed",
            "message": message,
            "startedAt": started,
            "finishedAt": _now(),
        }
        if uid not in self._lost:
            self._reports.put((uid, "Failed" if code else "Succeeded", {"terminated": ended}))

    def _name(self, uid: str) -> str:
        pods = self.kubernetes.list(self.namespace, "pods", "")["items"]
        return next((pod["metadata"]["name"] for pod in pods if pod["metadata"]["uid"] == uid), uid)

    def _stop(self, pod: dict[str, Any], process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(pod["metadata"]["deletionGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            _kill(process)

    def _send_reports(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                uid, phase, state = self._reports.get_nowait()
                if uid in self._lost:
                    continue
                container = {"name": "driver", "state": state, "ready": False, "restartCount": 0}
                container["started"] = "running" in state
                status = {"phase": phase, "containerStatuses": [container]}
                with contextlib.suppress(Refusal):  # the pod was removed
                    change = {"metadata": {"uid": uid}, "status": status}
                    self.kubernetes.patch(self.namespace, "pods", self._name(uid), change)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the whole container: a process that left the group is of the same cgroup there."""
    for number in (signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL):
        for each in _descendants(process.pid) if process.poll() is None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _descendants(process: int) -> list[int]:
    """The process and all below it."""
    below = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            below += [each for child in task.read_text().split() for each in _descendants(int(child))]
    return [*below, process]


@contextlib.contextmanager
def stand_in_kubelet(kubernetes: StandInKubernetes, namespace: str, folder: Path) -> Iterator[StandInKubelet]:
    kubelet = StandInKubelet(kubernetes, namespace, folder)
    thread = threading.Thread(target=kubelet.run, daemon=True)
    thread.start()
    try:
        yield kubelet
    finally:
        kubelet.end()
        thread.join()
