"""The process that forks children. It has one thread, no locks, no sockets but its own, and the imports of every child.

Forking the host itself would copy its threads' locks, its sockets and its secrets. So the host starts this program by exec,
without the environment's secrets, and requests children over a socket. A child's process id is not reused until the host
asks for its status; until then a signal to its group cannot hit another process.

When the host is gone, its socket is closed, and this process and every child end.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Self

from watcher.host.lean_imports import import_leanly

PRELOADED: Final = ("anyio._backends._asyncio", "pydantic", "triggers.base", "watcher.features.isolation.child")
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from watcher.features.isolation.fork_server import serve; serve(int(sys.argv[2]))"
)
_MESSAGE: Final = 4096
_ANSWER_WITHIN: Final = 60.0
"""Seconds in which the fork server answers, however busy the machine is."""
_HIDDEN_PREFIX: Final = "WATCHER_"


class NoForkServer(OSError):
    """The fork server ended or does not answer; the next child gets a new one."""


@dataclass(frozen=True, kw_only=True)
class ChildProcess:
    """A child's process. `handle` is its pidfd, which becomes readable when the process ends."""

    id: int
    handle: int

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and all that it started. Call it only before `ForkServer.status_of`."""
        signal.pidfd_send_signal(self.handle, number)  # the child may not lead its group yet
        with suppress(ProcessLookupError):
            os.killpg(self.id, number)


class ForkServer:
    """The host's side: starts the program when the first child is requested. Its methods block; any thread may call them."""

    def __init__(self, hidden: frozenset[str] = frozenset()) -> None:
        """`hidden` are variables of the environment that no child sees, nor any whose name begins with WATCHER_."""
        self._hidden = hidden
        self._lock = threading.Lock()
        self._programs: list[_Program] = []
        """The last one forks. Those before it had another environment, and end when their last child has ended."""
        self._is_current = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            while self._programs:
                self._programs.pop().close()

    def hide(self, names: frozenset[str]) -> None:
        """Hide these variables of the environment from new children. Living children are not affected."""
        with self._lock:
            self._is_current &= names == self._hidden
            self._hidden = names
            self._close_idle()

    def fork(self, end: socket.socket, output: int) -> ChildProcess:
        """Make a child that uses the socket `end` and prints to `output`. Raise `NoForkServer`."""
        with self._lock:
            program = self._current()
            answer, descriptors = self._ask(program, {"fork": True}, [end.fileno(), output])
            program.children.add(answer["id"])
        return ChildProcess(id=answer["id"], handle=descriptors[0])

    def status_of(self, process: ChildProcess) -> int | None:
        """Return how a process ended, as `os.waitpid` reports it, and kill what is left of its group. Call it once.

        None means that the status is lost.
        """
        with self._lock:
            program = next((each for each in self._programs if process.id in each.children), None)
            if program is None:
                return None
            program.children.discard(process.id)
            try:
                answer, _ = self._ask(program, {"status": process.id}, [])
            except NoForkServer:
                return None
            self._close_idle()
        status: int | None = answer["status"]
        return status

    def _ask(
        self, program: _Program, request: Mapping[str, Any], descriptors: list[int]
    ) -> tuple[dict[str, Any], list[int]]:
        try:
            socket.send_fds(program.control, [json.dumps(request).encode()], descriptors)
            message, received, _, _ = socket.recv_fds(program.control, _MESSAGE, 1)
        except OSError as error:
            self._close(program)
            raise NoForkServer(f"the fork server does not answer ({error})") from error
        if not message:
            self._close(program)
            raise NoForkServer("the fork server ended; the next child gets a new one")
        answer: dict[str, Any] = json.loads(message)
        if "error" in answer:
            raise NoForkServer(f"no process could be made ({answer['error']})")
        return answer, received

    def _current(self) -> _Program:
        if not self._is_current or not self._programs:
            self._programs.append(_Program.start(self._environment()))
            self._is_current = True
        return self._programs[-1]

    def _close_idle(self) -> None:
        """Close programs that have an old environment and no children."""
        current = self._programs[-1:] if self._is_current else []
        for program in [each for each in self._programs if not each.children and each not in current]:
            self._close(program)

    def _close(self, program: _Program) -> None:
        if program in self._programs:
            self._is_current &= program is not self._programs[-1]
            self._programs.remove(program)
        program.close()

    def _environment(self) -> dict[str, str]:
        return {
            name: value
            for name, value in os.environ.items()
            if name not in self._hidden and not name.startswith(_HIDDEN_PREFIX)
        }


@dataclass(eq=False)
class _Program:
    """The fork server's process, the socket to it, and those of its children whose status was not requested yet."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    children: set[int] = field(default_factory=set)

    @classmethod
    def start(cls, environment: Mapping[str, str]) -> Self:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.settimeout(_ANSWER_WITHIN)
        with theirs:
            process = subprocess.Popen(  # noqa: S603  our own interpreter and program
                [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # only the host handles a Ctrl-C at the terminal
            )
        return cls(process, control)

    def close(self) -> None:
        self.control.close()
        try:
            self.process.wait(_ANSWER_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve(descriptor: int) -> None:
    """Run the program until the host is gone. Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    gc.disable()
    import_leanly()
    for module in PRELOADED:
        import_module(module)
    gc.enable()
    gc.freeze()  # a collection in a child then does not touch the pages that all children share
    living: set[int] = set()
    with socket.socket(fileno=descriptor) as control:
        try:
            while _answer(control, living):
                pass
        finally:
            for process in living:
                os.kill(process, signal.SIGKILL)  # their ids are still their own: no status was taken
                with suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGKILL)
            os._exit(0)


def _answer(control: socket.socket, living: set[int]) -> bool:
    """Handle the next message. Return False when the host is gone."""
    message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE, 2)
    if not message:
        return False
    request = json.loads(message)
    if "status" in request:
        control.send(json.dumps({"status": _reap(request["status"], living)}).encode())
        return True
    try:
        process = _fork(control, *descriptors)
    except OSError as error:
        control.send(json.dumps({"error": str(error)}).encode())
    else:
        living.add(process)
        handle = os.pidfd_open(process)
        socket.send_fds(control, [json.dumps({"id": process}).encode()], [handle])
        os.close(handle)
    finally:
        for each in descriptors:
            os.close(each)
    return True


def _reap(process: int, living: set[int]) -> int | None:
    if process not in living:  # a child of an earlier fork server; its id may be another process's by now
        return None
    living.discard(process)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)  # what it started; until `waitpid`, the id is its own
    try:
        reaped, status = os.waitpid(process, os.WNOHANG)
    except ChildProcessError:
        return None
    return status if reaped else None


def _fork(control: socket.socket, end: int, output: int) -> int:
    host = os.getpid()
    process = os.fork()
    if process == 0:
        try:
            from watcher.features.isolation import child  # noqa: PLC0415  the host imports this module too, and does not need it

            os.setsid()
            control.close()
            child.run(end, output, parent=host)
        except BaseException:  # noqa: BLE001  no code of the fork server may run on in the child
            traceback.print_exc()
        finally:
            os._exit(1)
    return process
