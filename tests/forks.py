"""`watcher`, forked from a process that has imported it: it begins to work after 0.2 seconds instead of 1.5.

From there on it is the same as an executed program (in e2e, in the demo and in containers): a process with its own files,
environment and signals. It is meant for tests that start many.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, Self

ROOT = Path(__file__).parents[1]
IMPORTED = ("watcher.app", "watcher.cli.app", "watcher.cli.run")
_PROGRAM = "import sys; from tests.forks import serve; serve(int(sys.argv[1]))"
_MESSAGE = 1 << 20


class Forked:
    """A forked program, with the methods of subprocess.Popen."""

    def __init__(
        self, words: Sequence[str], *, output: BinaryIO, environment: Mapping[str, str], folder: Path = ROOT
    ) -> None:
        """Start `watcher` with these words. It prints to `output`."""
        request = {"words": words, "environment": dict(environment), "folder": str(folder)}
        self.pid: int = _server().ask(request, output.fileno())
        self.returncode: int | None = None
        self._handle = os.pidfd_open(self.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._handle], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("watcher", timeout or 0)
            self.returncode = _server().ask({"ended": self.pid})
            os.close(self._handle)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Server:
    """The process that forks, one for all tests of a process. It ends with that process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._control, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE)
        with theirs:
            words = [sys.executable, "-c", _PROGRAM, str(theirs.fileno())]
            self._process = subprocess.Popen(words, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def ask(self, request: Mapping[str, Any], *descriptors: int) -> int:
        with self._lock:
            socket.send_fds(self._control, [json.dumps(request).encode()], descriptors)
            return int(self._control.recv(_MESSAGE))


_server = cache(_Server)


def serve(descriptor: int) -> None:
    """Fork on request until the requesting process is gone, then kill all living programs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in IMPORTED:
        import_module(module)
    gc.freeze()
    living: set[int] = set()
    with socket.socket(fileno=descriptor) as control:
        while True:
            message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE, 1)
            if not message:
                break
            request = json.loads(message)
            if "ended" in request:
                _, status = os.waitpid(request["ended"], 0)
                living.discard(request["ended"])
                control.send(str(os.waitstatus_to_exitcode(status)).encode())
            elif process := os.fork():
                os.close(*descriptors)
                living.add(process)
                control.send(str(process).encode())
            else:
                control.close()
                _become(request, *descriptors)
                import_module("watcher.guard").main()
                return
    for process in living:
        os.kill(process, signal.SIGKILL)


def _become(request: Mapping[str, Any], output: int) -> None:
    """Turn this process into the requested program, as if it were executed."""
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["watcher", *request["words"]]
