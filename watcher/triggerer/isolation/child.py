"""The child's program: runs one trigger, and answers the host's requests one after the other.

Whatever the trigger raises becomes the answer to the request, BaseException included. The host may be gone at any time:
then the child ends, also while its event loop is blocked.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import os
import resource
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio
import structlog
from anyio.abc import TaskGroup

from config.errors import UnknownClass
from triggers.base import (
    BaseEventTrigger,
    Finding,
    IncrementalTrigger,
    Position,
    StoredPosition,
    TriggerBatch,
    TriggerContext,
)
from triggers.errors import ConfigurationError, SourceBusy, SourceChanged, SourceUnavailable, TriggerError
from watcher.host.plugins import add_to_import_path
from watcher.triggerer.isolation import classes
from watcher.triggerer.isolation.wire import (
    BatchLimits,
    Frame,
    Parts,
    Wire,
    batch_contents,
    check_type,
    encode,
    rewound_contents,
)

WIRE: Final = 3
"""The descriptor of the socket to the host; the first three are as everywhere, all others are closed."""
_NO_LIMIT: Final = 1 << 31
_MB: Final = 1_000_000
_LONGEST_TEXT: Final = 4_000
_LONGEST_RECORD: Final = 16_000
_LONGEST_EVENT: Final = 1_000
"""Characters of a longer record's event, which is then all that is left of it."""
_PR_SET_PDEATHSIG: Final = 1
_KINDS: Final = (SourceBusy, SourceChanged, SourceUnavailable, ConfigurationError, TriggerError, UnknownClass)


def run(end: int, output: int, *, parent: int) -> NoReturn:
    """After the fork: until the host says stop, or is gone."""
    _become_child(end, output, parent)
    wire = Wire(socket.socket(fileno=WIRE), _NO_LIMIT)
    conversation = Conversation(wire)
    error: BaseException | None = None
    try:
        anyio.run(conversation.run)
    except BaseException as raised:  # noqa: BLE001  a SystemExit of a task comes out here
        error = raised
    if not conversation.stopping:
        conversation.report(error or asyncio.CancelledError("the trigger let a cancellation out"))
    with suppress(BaseException):
        sys.stdout.flush()
    os._exit(0 if conversation.stopping else 1)


def _become_child(end: int, output: int, parent: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for standard in (1, 2):
        os.dup2(output, standard)
    os.dup2(end, WIRE)
    os.closerange(WIRE + 1, os.sysconf("SC_OPEN_MAX"))
    sys.stdout, sys.stderr = (
        os.fdopen(standard, "w", buffering=1, errors="backslashreplace", closefd=False) for standard in (1, 2)
    )
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    threading.stack_size(1 << 18)
    threading.Thread(target=_end_with_host, name="end with host", daemon=True).start()
    threading.stack_size(0)


def _end_with_host() -> None:
    """Nobody is told: whatever was not committed is found again."""
    poll = select.poll()
    poll.register(WIRE, select.POLLRDHUP)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


class Conversation:
    """The requests of one host. `stopping`: the host has said so, and needs no answer any more."""

    def __init__(self, wire: Wire) -> None:
        self.stopping = False
        self._wire = wire
        self._limits = BatchLimits()
        self._level = logging.WARNING
        self._parts = Parts()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup
        self._trigger: BaseEventTrigger[Any, Any]
        self._batches: AsyncGenerator[TriggerBatch, None]
        self._fault: BaseException | None = None
        self._kept: StoredPosition | None = None
        """What an undo of the last rewind goes back to."""
        self._requests: Mapping[str, Callable[[Frame], Awaitable[Frame | Iterator[bytes]]]] = {
            "ask": self._ask_class,
            "start": self._start,
            "check": self._check,
            "rewound": self._rewound,
            "keep": self._keep,
            "events": self._events,
            "poll": self._poll,
            "next": self._next,
        }

    async def run(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._on_lost_error)
        send, receive = anyio.create_memory_object_stream[Frame](1)
        with send, receive:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._read, send.send)
                async with self._stack:
                    async for request in receive:
                        await self._respond(request)
        if self._fault is not None:
            raise self._fault

    def report(self, error: BaseException) -> None:
        """The answer to the request that waits for one."""
        with suppress(OSError):
            self._wire.send({"error": _described(error)})

    async def _read(self, respond: Callable[[Frame], Any]) -> None:
        while True:
            await anyio.wait_readable(self._wire.socket)
            for frame in self._wire.receive(socket.MSG_DONTWAIT):
                match frame:
                    case {"part": part}:
                        self._parts.add(part, 0)
                    case {"do": "begin"}:
                        self._begin(frame)
                    case {"do": "wake"}:
                        self._wake()
                    case {"do": "stop"}:
                        self.stopping = True
                        self._tasks.cancel_scope.cancel()
                    case _:
                        await respond(frame)

    async def _respond(self, request: Frame) -> None:
        try:
            answer = await self._requests[request["do"]](request)
            for content in answer if isinstance(answer, Iterator) else [encode({"answer": answer})]:
                self._wire.send_content(content)
        except asyncio.CancelledError:  # of ours, of a failed task beside the client, or of the trigger: the end shows
            raise
        except BaseException as error:  # noqa: BLE001  whatever it is, it is this watcher's
            self.report(error)

    def _begin(self, frame: Frame) -> None:
        """What holds for this child, before anything of a plug-in is imported."""
        memory = frame["memory_mb"] * _MB
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        self._limits = BatchLimits(**frame["limits"])
        self._forward_records(frame["log_level"])
        if frame["plugins"] is not None:
            add_to_import_path(Path(frame["plugins"]))
        self._tasks.start_soon(self._show_life, frame["alive_every"])

    async def _show_life(self, seconds: float) -> None:
        """The host ends a child whose event loop is silent."""
        while True:
            self._wire.send({"alive": True})
            await anyio.sleep(seconds)

    def _wake(self) -> None:
        trigger = getattr(self, "_trigger", None)
        if isinstance(trigger, IncrementalTrigger):
            try:
                trigger.wake()
            except Exception as error:  # noqa: BLE001  a hint that is lost costs an interval
                structlog.get_logger().warning("watcher.wake_failed", error=str(error))

    def _on_lost_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """A task that nobody waits for died: what it did for the trigger is not done any more."""
        loop.default_exception_handler(dict(context))
        if isinstance(context.get("future"), asyncio.Task) and "exception" in context:
            self._fault = context["exception"]
            self._tasks.cancel_scope.cancel()

    async def _start(self, request: Frame) -> Frame:
        trigger = classes.trigger_class(request["trigger"])
        scope = classes.scope(request["folder"])
        options = classes.validated(trigger.Options, request["options"], scope)
        client = None
        if (given := request["connection"]) is not None:
            connection = classes.connection(given["class"], given["options"], scope)
            client = await self._stack.enter_async_context(connection.open())
        context = TriggerContext(
            watcher=request["watcher"],
            dry_run=request["dry_run"],
            poll_timeout=timedelta(seconds=request["poll_timeout"]),
            is_alone=True,
            max_batch_bytes=self._limits.max_bytes,
        )
        self._trigger = trigger(options, client, context)
        return {}

    async def _check(self, _request: Frame) -> Frame:
        findings = list(await self._trigger.check())
        for finding in findings:
            check_type(finding, Finding, "what `check` gives")
        refused = any(finding.level == "error" for finding in findings)
        identity = None if refused else self._trigger.source_identity()
        return {"findings": [asdict(finding) for finding in findings], "identity": identity}

    async def _rewound(self, request: Frame) -> Iterator[bytes]:
        position = self._trigger.rewound(self._taken(request), request["to"])
        check_type(position, Position, "what `rewound` gives")
        return rewound_contents(position)

    async def _keep(self, request: Frame) -> Frame:
        self._kept = self._taken(request)
        return {}

    async def _events(self, request: Frame) -> Frame:
        return await self._begin_batches(self._trigger.events(self._taken(request)))

    async def _poll(self, request: Frame) -> Frame:
        if not isinstance(self._trigger, IncrementalTrigger):
            raise ConfigurationError(
                "only a polling trigger can be asked what it would find; this one waits for its source"
            )
        return await self._begin_batches(self._trigger.poll(self._taken(request)))

    async def _begin_batches(self, batches: AsyncGenerator[TriggerBatch, None]) -> Frame:
        self._batches = await self._stack.enter_async_context(aclosing(batches))
        return {}

    async def _next(self, _request: Frame) -> Frame | Iterator[bytes]:
        try:
            batch = await anext(self._batches)
        except StopAsyncIteration:
            return {"end": True}
        if self._kept is None or not (batch.events or batch.rejected) or not self._trigger.knows_what_is_retold:
            return batch_contents(batch, self._limits)
        return batch_contents(batch, self._limits, retold=bool(self._trigger.retold(self._kept, batch)))

    async def _ask_class(self, request: Frame) -> Frame:
        """What blocks here hurts nobody: the host asks one thing at a time, and waits for so long."""
        return classes.QUESTIONS[request["question"]](request)

    def _taken(self, request: Frame) -> Any:
        parts, self._parts = self._parts, Parts()
        return parts.stored(request["position"])

    def _forward_records(self, level: str) -> None:
        """Records of structlog and of `logging` go to the host; of libraries from warnings up."""
        threshold = logging.getLevelNamesMapping()[level.upper()]
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.format_exc_info,
                self._send_record,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(threshold),
            logger_factory=structlog.ReturnLoggerFactory(),
        )
        logging.basicConfig(handlers=[_Forward(self._send)], level=max(threshold, logging.WARNING), force=True)

    def _send_record(self, _logger: Any, _method: str, record: Mapping[str, Any]) -> NoReturn:
        self._send({name: value if _is_plain(value) else str(value) for name, value in record.items()})
        raise structlog.DropEvent

    def _send(self, record: Mapping[str, Any]) -> None:
        content = encode({"log": record})
        if len(content) > _LONGEST_RECORD:
            content = encode({"log": {"level": record["level"], "event": record["event"][:_LONGEST_EVENT]}})
        self._wire.send_content(content)


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int | None) or (isinstance(value, float) and math.isfinite(value))


class _Forward(logging.Handler):
    def __init__(self, send: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        shown = {"level": record.levelname.lower(), "event": record.getMessage(), "logger": record.name}
        if record.exc_info:
            shown["exception"] = logging.Formatter().formatException(record.exc_info)
        self._send(shown)


def _described(error: BaseException) -> Frame:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return {
        "suggestions": error.suggestions if isinstance(error, UnknownClass) else (),
        "kind": next((kind.__name__ for kind in _KINDS if isinstance(error, kind)), None),
        "type": type(error).__name__,
        "text": _text(error),
        "traceback": "".join(traceback.format_exception(error))[-_LONGEST_TEXT:],
    }


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST_TEXT]
    except Exception:  # noqa: BLE001  an error may have no text either
        return ""
