"""The host's end of one child: its socket, what it prints, and how it ends."""

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

from config.errors import UnknownClass
from triggers.errors import ConfigurationError, SourceBusy, SourceChanged, SourceUnavailable, TriggerError
from watcher.triggerer.isolation.fork_server import Process
from watcher.triggerer.isolation.inquiries import begin_frame, ending
from watcher.triggerer.isolation.wire import BatchLimits, BrokenFrame, Decoder, Frame, Parts, encode, framed

_LONGEST_LINE: Final = 8_000
_KINDS: Final = {
    kind.__name__: kind for kind in (SourceBusy, SourceChanged, SourceUnavailable, ConfigurationError, TriggerError)
}
_OURS: Final = frozenset(
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
"""What is the host's to say of a record: above all where it belongs."""

log = structlog.get_logger()


class TriggerFailed(TriggerError):
    """What a trigger in a process of its own raised that is no `TriggerError`, or how its process ended."""


@dataclass(frozen=True, kw_only=True)
class ChildSettings:
    """What each child may take, and for how long it is waited for (seconds)."""

    memory_mb: int = 512
    limits: BatchLimits = field(default_factory=BatchLimits)
    plugins: Path | None = None
    log_level: str = "info"
    poll_timeout: timedelta = timedelta(minutes=5)
    answer_within: float = 60.0
    """Making the trigger, `check`, and everything else that is no batch."""
    grace: float = 2.0

    @property
    def batch_within(self) -> float:
        """Of the first batch. The trigger's own limit comes first, with a better sentence."""
        return self.poll_timeout.total_seconds() + self.answer_within

    @property
    def silence(self) -> float:
        """How long its event loop may be blocked: as long as one batch may take."""
        return self.batch_within

    @property
    def alive_every(self) -> float:
        return min(self.poll_timeout.total_seconds() / 10, 30.0)


@dataclass
class Allowance:
    """How much a child may say in a second: lines that are logged, bytes that are read."""

    lines: int = 100
    bytes: int = 256_000
    _second: float = field(default_factory=anyio.current_time)
    _lines: int = 0
    _bytes: int = 0
    _dropped: int = 0

    def admits(self, length: int) -> bool:
        """Whether one more line, of so many bytes, is logged."""
        if anyio.current_time() >= self._second + 1:
            self._next_second()
        self._lines += 1
        self._bytes += length
        admitted = self._lines <= self.lines
        self._dropped += not admitted
        return admitted

    async def rest(self) -> None:
        """When all is used up, until there is more: the child then waits, and not the host."""
        if self._bytes > self.bytes:
            await anyio.sleep(self._second + 1 - anyio.current_time())

    def _next_second(self) -> None:
        self.report()
        self._second, self._lines, self._bytes = anyio.current_time(), 0, 0

    def report(self) -> None:
        if self._dropped:
            log.warning("watcher.lines_dropped", lines=self._dropped, allowed_each_second=self.lines)
            self._dropped = 0


class Child:
    """One process and its socket. One task asks at a time; `over` says that nobody asks any more, or that it is lost."""

    def __init__(self, process: Process, end: socket.socket, output: int, settings: ChildSettings) -> None:
        self.process = process
        self.over = anyio.Event()
        self.finished = anyio.Event()
        self._socket = end
        self._socket.setblocking(False)
        self._output = output
        os.set_blocking(output, False)
        self._settings = settings
        self._allowance = Allowance()
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
        with suppress(OSError):  # the first request shows it
            await self._send(encode(frame))

    async def ask(self, request: Frame, what: str, *, within: float | None) -> tuple[Frame, Parts]:
        """The answer, and what came ahead of it. Raises what the trigger raised, or `TriggerFailed`.

        `what` is named when no answer came `within` so many seconds; None waits as long as the child shows life.
        """
        return await self.ask_with([encode(request)], what, within=within)

    async def ask_with(self, contents: Iterable[bytes], what: str, *, within: float | None) -> tuple[Frame, Parts]:
        """The same, with parts ahead of the request."""
        self._parts, self._answer, self._asked = Parts(limits=self._settings.limits), None, True
        deadline = anyio.current_time() + (float("inf") if within is None else within)
        with CancelScope(deadline=deadline), suppress(OSError):  # of one that ended the reason is told below
            for content in contents:
                await self._send(content)
        await self._answered(what, deadline, within)
        if self._answer is None:
            raise TriggerFailed(self._reason)
        if (fault := self._answer.get("error")) is not None:
            raise self._raised(fault)
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

    def condemn(self, reason: str) -> None:
        """It is to end, for this reason."""
        self._reason = self._reason or reason
        self.over.set()

    def finish(self, status: int | None) -> None:
        """It has ended."""
        self._reason = self._reason or f"the trigger's process {ending(status)}"
        self._allowance.report()
        self.finished.set()
        self._changed.set()

    def close(self) -> None:
        self._socket.close()
        os.close(self._output)
        os.close(self.process.handle)

    async def read(self, reader: Callable[[], Awaitable[None]]) -> None:
        """Whatever goes wrong with what a child sends is the end of that child, and of nothing else."""
        try:
            await reader()
        except ConnectionError:  # it ended in the middle of something
            self.over.set()
        except BrokenFrame as error:
            self.condemn(f"the trigger's process broke the protocol: {error}")
        except Exception as error:  # a bug of ours
            log.exception("watcher.process_not_understood", error=str(error))
            self.condemn(f"what the trigger's process sent could not be read ({error})")

    async def read_frames(self) -> None:
        """Until the child is gone. Raises `BrokenFrame` when it does not keep to the protocol."""
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
            await self._allowance.rest()

    async def read_output(self) -> None:
        """What it prints is lines of the watcher's log."""
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
                if self._allowance.admits(len(line) + 1) and line:
                    log.info("watcher.printed", line=line[:_LONGEST_LINE].decode("utf-8", "replace"))
            await self._allowance.rest()

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
            case {"error": dict(fault)}:  # between two requests: a task in the background
                self.condemn(str(self._raised(fault)))
            case _:
                raise BrokenFrame("a frame came that nobody asked for")

    def _log(self, record: Frame, length: int) -> None:
        if self._allowance.admits(length):
            level = logging.getLevelNamesMapping().get(str(record.get("level")).upper(), logging.INFO)
            fields = {name: value for name, value in record.items() if name not in _OURS}
            log.log(level, str(record.get("event")), **fields)

    async def _send(self, content: bytes) -> None:
        rest = memoryview(framed(content))
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def _answered(self, what: str, deadline: float, within: float | None) -> None:
        """Until there is an answer, or the child has ended and it is known why."""
        silence = self._settings.silence
        while self._answer is None and not self.finished.is_set():
            self._changed = anyio.Event()
            quiet = self._heard_at + silence
            with CancelScope(deadline=min(deadline, quiet)):
                await self._changed.wait()
                continue
            now = anyio.current_time()
            if now >= deadline:
                raise TriggerFailed(f"{what} took longer than {within:g} s; look why it hangs")
            if now >= self._heard_at + silence:
                raise TriggerFailed(f"{what} blocks the event loop of its process; let it await, or use a thread")

    def _raised(self, fault: Frame) -> Exception:
        text = str(fault.get("text"))
        kind = _KINDS.get(str(fault.get("kind")))
        if kind is not None or fault.get("kind") == UnknownClass.__name__:
            return (kind or ConfigurationError)(text)
        name = str(fault.get("type"))
        if name == MemoryError.__name__:
            text = f"{self._settings.memory_mb} MB is the limit, settings.triggerer.isolation.memory_mb"
        log.error("watcher.trigger_raised", kind=name, error=text, exception=fault.get("traceback"))
        return TriggerFailed(f"the trigger raised {name}: {text}".removesuffix(": "))
