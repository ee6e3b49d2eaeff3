"""The host's end of one child: its socket, its output, and how it ends."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import anyio
import structlog
from anyio import CancelScope

from triggers.shared.delays import sleep_for
from watcher.features.isolation.batch_frames import Parts
from watcher.features.isolation.errors import TriggerFailed, error_from_json
from watcher.features.isolation.fork_server import ChildProcess
from watcher.features.isolation.inquiries import begin_frame, ending
from watcher.features.isolation.wire import BrokenFrame, Decoder, Frame, encode, framed
from watcher.triggerer.limits import LATER, BatchLimits

_LONGEST_LINE: Final = 8_000
_READ_WITHIN: Final = 0.1
"""Seconds in which what has come is read before the child is judged: it may be the host that was suspended."""
_HOST_FIELDS: Final = frozenset(
    [
        "watcher",
        "asset",
        "poll_id",
        "dag_id",
        "run_id",
        "task_id",
        "map_index",
        "try_number",
        "level",
        "event",
        "timestamp",
        "exc_info",
        "stack_info",
    ]
)
"""Fields of a record that only the host sets, above all where the record belongs. A child's values are dropped."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class ChildSettings:
    """The limits of each child, and how long the host waits for it. Numbers of time are seconds."""

    memory_mb: int = 512
    limits: BatchLimits = field(default_factory=BatchLimits)
    plugins: Path | None = None
    log_level: str = "info"
    poll_timeout: timedelta = timedelta(minutes=5)
    grace: float = 2.0
    """Between `stop` and SIGTERM, and between SIGTERM and SIGKILL."""

    @property
    def answer_within(self) -> float:
        """The limit for making the trigger, for `check`, for the first batch, and for every other answer.

        The child's event loop may be blocked for so long, too.
        """
        return self.poll_timeout.total_seconds() * LATER

    @property
    def alive_every(self) -> float:
        return min(self.poll_timeout.total_seconds() / 10, 30.0)


@dataclass
class OutputLimit:
    """How much of a child's output is taken in a second: lines that are logged, bytes that are read."""

    lines: int = 100
    bytes: int = 256_000
    _second: float = field(default_factory=anyio.current_time)
    _lines: int = 0
    _bytes: int = 0
    _dropped: int = 0

    def admits(self, length: int) -> bool:
        """Count one more line of `length` bytes. Return whether it is logged."""
        if anyio.current_time() >= self._second + 1:
            self._next_second()
        self._lines += 1
        self._bytes += length
        admitted = self._lines <= self.lines
        self._dropped += not admitted
        return admitted

    async def wait(self) -> None:
        """Wait until the next second if this one's bytes are used up. The child then waits too, and the host does not."""
        if self._bytes > self.bytes:
            await sleep_for(self._second + 1 - anyio.current_time())

    def _next_second(self) -> None:
        self.report()
        self._second, self._lines, self._bytes = anyio.current_time(), 0, 0

    def report(self) -> None:
        if self._dropped:
            log.warning("watcher.lines_dropped", lines=self._dropped, allowed_each_second=self.lines)
            self._dropped = 0


class Child:
    """One process and its socket. Only one task may send requests at a time.

    `over` is set when nobody needs the child any more, or when it failed; `finished` when its process has ended.
    """

    def __init__(self, process: ChildProcess, end: socket.socket, output: int, settings: ChildSettings) -> None:
        self.process = process
        self.over = anyio.Event()
        self.finished = anyio.Event()
        self._socket = end
        self._socket.setblocking(False)
        self._output = output
        os.set_blocking(output, False)
        self._settings = settings
        self._output_limit = OutputLimit()
        self._parts = Parts(limits=settings.limits)
        self._answer: Frame | None = None
        self._changed = anyio.Event()
        self._asked = False
        self._heard_at = anyio.current_time()
        self._reason = ""

    async def begin(self) -> None:
        settings = self._settings
        frame = begin_frame(
            memory_mb=settings.memory_mb,
            plugins=settings.plugins,
            limits=settings.limits,
            log_level=settings.log_level,
            alive_every=settings.alive_every,
        )
        with suppress(OSError):  # the first request reports it
            await self._send(encode(frame))

    async def ask(self, request: Frame, what: str, *, within: float | None) -> tuple[Frame, Parts]:
        """Send a request. Return the answer and the parts that came before it.

        Raise what the trigger raised, or `TriggerFailed`, which names `what` if no answer came `within` this many seconds.
        None waits as long as the child shows signs of life.
        """
        return await self.ask_in_parts([encode(request)], what, within=within)

    async def ask_in_parts(self, contents: Iterable[bytes], what: str, *, within: float | None) -> tuple[Frame, Parts]:
        """Send a request that follows parts. Return and raise the same as `ask`."""
        self._parts, self._answer, self._asked = Parts(limits=self._settings.limits), None, True
        deadline = anyio.current_time() + (float("inf") if within is None else within)
        with CancelScope(deadline=deadline), suppress(OSError):  # if the child ended, the reason is raised below
            for content in contents:
                await self._send(content)
        await self._wait_for_answer(what, deadline, within)
        if self._answer is None:
            raise TriggerFailed(self._reason)
        if (fault := self._answer.get("error")) is not None:
            raise error_from_json(fault, self._settings.memory_mb)
        return self._answer["answer"], self._parts

    async def wake(self) -> None:
        with suppress(OSError):
            await self._send(encode({"do": "wake"}))

    async def stop(self) -> None:
        with suppress(OSError), anyio.move_on_after(self._settings.grace):
            await self._send(encode({"do": "stop"}))

    async def is_gone(self, *, within: float) -> bool:
        with anyio.move_on_after(within):
            await anyio.wait_readable(self.process.handle)
            return True
        return False

    def fail(self, reason: str) -> None:
        """Have the child ended. The first `reason` is what its requests raise from now on."""
        self._reason = self._reason or reason
        self.over.set()

    def finish(self, status: int | None) -> None:
        """Note that the process has ended; `status` is what `os.waitpid` returned, None if it is unknown."""
        self._reason = self._reason or f"the trigger's process {ending(status)}"
        self._output_limit.report()
        self.finished.set()
        self._changed.set()

    def close(self) -> None:
        self._socket.close()
        os.close(self._output)
        os.close(self.process.handle)

    async def read(self, reader: Callable[[], Awaitable[None]]) -> None:
        """Run one of the two readers. Whatever goes wrong with what a child sends ends that child, and nothing else."""
        try:
            await reader()
        except ConnectionError:  # the child ended in the middle of something
            self.over.set()
        except BrokenFrame as error:
            self.fail(f"the trigger's process broke the protocol: {error}")
        except Exception as error:  # a bug in this program
            log.exception("watcher.process_not_understood", error=str(error))
            self.fail(f"what the trigger's process sent could not be read ({error})")

    async def read_frames(self) -> None:
        """Read frames until the child is gone. Raise `BrokenFrame` when it does not keep to the protocol."""
        decoder = Decoder(self._settings.limits.frame_bytes)
        while True:
            await anyio.wait_readable(self._socket)
            with suppress(BlockingIOError):
                data = self._socket.recv(1 << 18)
                if not data:
                    self.over.set()
                    return
                for frame, length in decoder.feed(data):
                    self._take(frame, length)
            await self._output_limit.wait()

    async def read_output(self) -> None:
        """Read what the child prints: lines of the watcher's log."""
        rest = b""
        while True:
            await anyio.wait_readable(self._output)
            data = b""
            with suppress(BlockingIOError):
                data = os.read(self._output, 1 << 16)
                if not data:
                    return
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                if self._output_limit.admits(len(line) + 1) and line:
                    log.info("watcher.printed", line=line[:_LONGEST_LINE].decode("utf-8", "replace"))
            await self._output_limit.wait()

    def _take(self, frame: Frame, length: int) -> None:
        self._heard_at = anyio.current_time()
        match frame:
            case {"alive": _}:
                pass
            case {"log": dict(record)}:
                self._log(record, length)
            case {"part": dict(part)} if self._asked:
                self._parts.add(part, length)
            case {"answer": dict()} | {"error": dict()} if self._asked:
                self._answer, self._asked = frame, False
                self._changed.set()
            case {"error": dict(fault)}:  # between two requests: a task in the background failed
                self.fail(str(error_from_json(fault, self._settings.memory_mb)))
            case _:
                raise BrokenFrame("a frame came that is not an answer to a request")

    def _log(self, record: Frame, length: int) -> None:
        if self._output_limit.admits(length):
            level = logging.getLevelNamesMapping().get(str(record.get("level")).upper(), logging.INFO)
            fields = {name: value for name, value in record.items() if name not in _HOST_FIELDS}
            log.log(level, str(record.get("event")), **fields)

    async def _send(self, content: bytes) -> None:
        rest = memoryview(framed(content))
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def _wait_for_answer(self, what: str, deadline: float, within: float | None) -> None:
        """Wait until there is an answer, or until the child has ended and the reason is known."""
        silence = self._settings.answer_within
        while self._answer is None and not self.finished.is_set():
            self._changed = anyio.Event()
            quiet = self._heard_at + silence
            with CancelScope(deadline=min(deadline, quiet)):
                await self._changed.wait()
                continue
            with anyio.move_on_after(_READ_WITHIN):
                await self._changed.wait()
                continue
            now = anyio.current_time()
            if now >= deadline:
                raise TriggerFailed(f"{what} took longer than {within:g} s; find out why it hangs")
            if now >= self._heard_at + silence:
                raise TriggerFailed(
                    f"{what} does not answer and keeps its process busy; correct the trigger, which must not block"
                )
