"""Questions about classes that this process does not import. A child imports them and answers, within a time limit.

All of it blocks, as the reading of a configuration does: never call it in the event loop.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from config.errors import UnknownClass
from watcher.features.isolation.fork_server import ChildProcess, ForkServer, NoForkServer
from watcher.features.isolation.wire import BrokenFrame, Frame, Wire
from watcher.host.plugins import not_imported
from watcher.triggerer.limits import BatchLimits

PATIENCE: Final = 60.0
_GRACE: Final = 2.0
_MEMORY_MB: Final = 1024
_LIMIT: Final = 16_000_000


class Inquirer:
    """Asks children, one for each module. They end with the `with` block.

    Outside of a block, each question has a child and a fork server of its own, which is slow and leaves nothing behind.
    """

    def __init__(self, server: ForkServer | None = None, *, patience: float = PATIENCE) -> None:
        """`patience` is the number of seconds in which a class must be imported, or answer."""
        self._given_server = server
        self._server = server
        self._patience = patience
        self._lock = threading.Lock()
        self._stack: ExitStack | None = None
        self._plugins: Path | None = None
        self._hidden: frozenset[str] = frozenset()
        self._children: dict[str, _Child] = {}

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_children()
        if self._stack is not None:
            self._stack.close()
        self._stack, self._server = None, self._given_server

    def prepare(self, plugins: Path, hidden: frozenset[str]) -> None:
        """Set where plug-ins are, and the variables of the environment that they do not see."""
        with self._lock:
            if (plugins, hidden) != (self._plugins, self._hidden):
                self._end_children()
            self._plugins, self._hidden = plugins, hidden
            if self._server is not None:
                self._server.hide(hidden)

    def ask(self, name: str, question: str, registered: Sequence[str] = (), **details: Any) -> Frame:
        """Return the answer of the class `name`. Raise `UnknownClass`; `registered` are names that were perhaps meant."""
        if self._stack is None:
            with Inquirer(self._given_server, patience=self._patience) as inquirer:
                inquirer.prepare(self._plugins or Path("plugins"), self._hidden)
                return inquirer.ask(name, question, registered, **details)
        request = {"do": "ask", "class": name, "question": question, "registered": [*registered], **details}
        with self._lock:
            return self._ask(name, request, registered)

    def _ask(self, name: str, request: Frame, registered: Sequence[str]) -> Frame:
        module = name.rpartition(".")[0]
        try:
            if module not in self._children:
                self._children[module] = self._child()
            frame = self._children[module].ask(request, self._patience)
        except (EOFError, OSError, BrokenFrame) as error:
            ended = self._children.pop(module, None)
            raise not_imported(name, str(error) if ended is None else ended.end(error), registered) from error
        if (fault := frame.get("error")) is not None:
            raise _unknown(name, fault, registered)
        answer: Frame = frame["answer"]
        return answer

    def _child(self) -> _Child:
        assert self._stack is not None  # noqa: S101  `ask` has checked it
        if self._server is None:
            self._server = self._stack.enter_context(ForkServer(self._hidden))
        return _Child.start(self._server, self._plugins)

    def _end_children(self) -> None:
        while self._children:
            self._children.popitem()[1].end()


def _unknown(name: str, fault: Mapping[str, Any], registered: Sequence[str]) -> UnknownClass:
    if fault["kind"] == UnknownClass.__name__:
        return UnknownClass(fault["text"], fault["suggestions"])
    return not_imported(name, f"{fault['type']}: {fault['text']}", registered)


@dataclass(eq=False)
class _Child:
    server: ForkServer
    process: ChildProcess
    wire: Wire

    @classmethod
    def start(cls, server: ForkServer, plugins: Path | None) -> Self:
        ours, theirs = socket.socketpair()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            process = server.fork(theirs, nowhere)
        except NoForkServer:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(nowhere)
        wire = Wire(ours, _LIMIT)
        begin = begin_frame(
            memory_mb=_MEMORY_MB, plugins=plugins, limits=BatchLimits(), log_level="error", alive_every=60
        )
        with suppress(OSError):  # then the first answer does not come either, and that is reported
            wire.send(begin)
        return cls(server, process, wire)

    def ask(self, request: Mapping[str, Any], patience: float) -> Frame:
        end = time.monotonic() + patience
        self.wire.send(request)
        while (left := end - time.monotonic()) > 0 and _is_readable(self.wire.socket.fileno(), left):
            for frame in self.wire.receive(socket.MSG_DONTWAIT):
                if frame.keys() & {"answer", "error"}:
                    return frame
        raise TimeoutError(f"it did not answer within {patience:g} s")

    def end(self, error: Exception | None = None) -> str:
        """Kill the child. Return why it gave no answer."""
        is_ending = isinstance(error, EOFError | ConnectionError)
        if not (is_ending and _is_readable(self.process.handle, _GRACE)):
            self.process.signal_group(signal.SIGKILL)
        _is_readable(self.process.handle, PATIENCE)
        status = self.server.status_of(self.process)
        os.close(self.process.handle)
        self.wire.socket.close()
        return f"its process {ending(status)}" if is_ending else str(error)


def _is_readable(descriptor: int, within: float) -> bool:
    poll = select.poll()  # a daemon may have more descriptors than `select` can name
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(within * 1000))


def begin_frame(
    *, memory_mb: int, plugins: Path | None, limits: BatchLimits, log_level: str, alive_every: float
) -> Frame:
    """Return the first frame to a child: its settings."""
    return {
        "do": "begin",
        "memory_mb": memory_mb,
        "plugins": None if plugins is None else str(plugins),
        "limits": {"max_events": limits.max_events, "max_bytes": limits.max_bytes},
        "log_level": log_level,
        "alive_every": alive_every,
    }


def ending(status: int | None) -> str:
    """Return how a process ended, as words that follow its name. `status` is what `os.waitpid` returned."""
    if status is None:
        return "ended"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
