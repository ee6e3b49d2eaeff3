"""A node for the stand-in of Kubernetes: it runs the wrapper of each pod in a namespace as a process of this machine."""

from __future__ import annotations

import base64
import contextlib
import os
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
    """Pods of one namespace. `binds` False: no pod gets a node, as in a cluster without room."""

    kubernetes: StandInKubernetes
    namespace: str
    folder: Path
    binds: bool = True
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _followers: list[threading.Thread] = field(default_factory=list)
    _stopping: set[str] = field(default_factory=set)
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Start what was created, and stop what is being deleted, until `end`."""
        while not self._ended.wait(0.05):
            for pod in self.kubernetes.list(self.namespace, "pods", "")["items"]:
                with contextlib.suppress(Refusal):  # it was removed meanwhile
                    self._look_after(pod)

    def end(self) -> None:
        self._ended.set()
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                for each in _descendants(process.pid):
                    os.kill(each, signal.SIGKILL)
        for follower in self._followers:
            follower.join()

    def _look_after(self, pod: dict[str, Any]) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        is_leaving = "deletionTimestamp" in pod["metadata"]
        if uid not in self._processes and self.binds and not is_leaving and pod["status"]["phase"] == "Pending":
            secret = next(each["secret"] for each in pod["spec"]["volumes"] if "secret" in each)["secretName"]
            data = self.kubernetes.read(self.namespace, "secrets", secret)["data"]  # without it, it cannot start
            self.kubernetes.patch(self.namespace, "pods", name, {"spec": {"nodeName": "n1"}})
            self._start(name, uid, data)
        elif uid in self._processes and is_leaving and uid not in self._stopping:
            self._stopping.add(uid)
            threading.Thread(target=self._stop, args=(pod, self._processes[uid]), daemon=True).start()

    def _start(self, name: str, uid: str, data: dict[str, str]) -> None:
        root = self.folder / uid
        for part in ("secret", "work", "private"):
            (root / part).mkdir(parents=True)
        for key, content in data.items():
            here = base64.b64decode(content)
            if not key.endswith((".py", ".zip")):
                here = here.replace(b"/asset-watcher/", f"{root}/".encode())
            (root / "secret" / key).write_bytes(here)
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _BOOT, str(root)],
            env={"PATH": os.environ["PATH"], "POD_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._processes[uid] = process
        self._report(name, "Running", {"running": {"startedAt": _now()}})
        follower = threading.Thread(target=self._follow, args=(name, process, root), daemon=True)
        self._followers.append(follower)
        follower.start()

    def _follow(self, name: str, process: subprocess.Popen[bytes], root: Path) -> None:
        assert process.stdout is not None
        started = _now()
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
        with contextlib.suppress(Refusal):
            self._report(name, "Failed" if code else "Succeeded", {"terminated": ended})

    def _stop(self, pod: dict[str, Any], process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(pod["metadata"]["deletionGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            # The whole container ends: a process that left the group is of the same cgroup there.
            for child in _descendants(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    def _report(self, name: str, phase: str, state: dict[str, Any]) -> None:
        container = {"name": "driver", "state": state, "ready": False, "restartCount": 0, "started": "running" in state}
        self.kubernetes.patch(
            self.namespace, "pods", name, {"status": {"phase": phase, "containerStatuses": [container]}}
        )


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
