"""Test applications call in here and wait to be released: a test knows which are alive, and none outlives its test."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from tests.effort import PATIENCE

CALL = """
import os, signal, socket, subprocess, sys

def call(port, name):
    line = socket.create_connection(("127.0.0.1", int(port)))
    line.sendall(f"{name} {os.getpid()}\\n".encode())
    line.recv(1)
    return line

def child(name, **how):
    program = PROGRAM + f"call({sys.argv[1]!r}, {name!r})"
    return subprocess.Popen([sys.executable, "-c", program], **how)
"""
"""The start of every test application, whose first argument is the switchboard's port.

`call` returns when the test releases it or ends; `child` starts another process that calls.
"""


def program(text: str) -> str:
    return f"PROGRAM = {CALL!r}\n{CALL}\n{text}"


@dataclass
class Caller:
    """A process that called, pinned by a descriptor."""

    name: str
    process: int
    line: socket.socket
    descriptor: int

    def release(self) -> None:
        self.line.sendall(b".")

    def kill(self) -> None:
        signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def wait_gone(self) -> None:
        """Wait until the process is gone, and with it whatever it held."""
        assert select.select([self.descriptor], [], [], PATIENCE)[0]

    def lives(self) -> bool:
        return not select.select([self.descriptor], [], [], 0)[0]


@dataclass
class Switchboard:
    listener: socket.socket
    stack: contextlib.ExitStack

    @property
    def port(self) -> str:
        return str(self.listener.getsockname()[1])

    def next_caller(self) -> Caller:
        line = self.stack.enter_context(self.listener.accept()[0])
        line.settimeout(PATIENCE)
        with line.makefile("r") as file:
            name, process = file.readline().split()
        descriptor = os.pidfd_open(int(process))  # it waits for us, so the number still belongs to it
        self.stack.callback(os.close, descriptor)
        return Caller(name=name, process=int(process), line=line, descriptor=descriptor)

    def callers(self, *names: str) -> list[Caller]:
        """The next callers, in the given order of their names, whichever calls first."""
        callers = {caller.name: caller for caller in (self.next_caller() for _ in names)}
        return [callers[name] for name in names]

    def nobody_waits(self) -> bool:
        return not select.select([self.listener], [], [], 0)[0]


@contextlib.contextmanager
def open_switchboard() -> Iterator[Switchboard]:
    with contextlib.ExitStack() as stack, socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.settimeout(PATIENCE)
        yield Switchboard(listener=listener, stack=stack)
