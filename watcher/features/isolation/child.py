"""The program of a child: it runs one trigger and answers the host's requests one after the other.

Whatever the trigger raises becomes the answer to the request, BaseException included. The host may be gone at any time.
The child then ends, even while its event loop is blocked.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio
import structlog
from anyio.abc import TaskGroup

from triggers.base import Finding, Position, StoredPosition, TriggerBatch, TriggerContext
from triggers.errors import ConfigurationError
from triggers.explanations import Explains, Explanation
from triggers.hosting import Surveys
from triggers.shared.delays import sleep_for
from watcher.features.isolation import classes
from watcher.features.isolation.batch_frames import Parts, batch_contents, check_type, rewound_contents
from watcher.features.isolation.child_log import forward_records
from watcher.features.isolation.errors import error_json
from watcher.features.isolation.wire import Frame, Wire, encode
from watcher.host.plugins import add_to_import_path
from watcher.triggerer.limits import BatchLimits
from watcher.triggerer.open_triggers import TriggerHere

WIRE: Final = 3
"""The descriptor of the socket to the host. It follows the three standard ones; all others are closed."""
ABILITIES: Final = (Explains, Surveys)
"""The abilities that the answer to `start` names, as far as the trigger has them."""
_NO_LIMIT: Final = 1 << 31
_MB: Final = 1_000_000
_PR_SET_PDEATHSIG: Final = 1


def run(end: int, output: int, *, parent: int) -> NoReturn:
    """Run the child after the fork, until the host sends `stop` or is gone. Never returns."""
    _become_child(end, output, parent)
    wire = Wire(socket.socket(fileno=WIRE), _NO_LIMIT)
    conversation = Conversation(wire)
    error: BaseException | None = None
    try:
        anyio.run(conversation.run)
    except BaseException as raised:  # noqa: BLE001  also a SystemExit that a task raised
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
    """Kill this process and all that it started when the host is gone. What was not committed is polled again later."""
    poll = select.poll()
    poll.register(WIRE, select.POLLRDHUP)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def _wake(trigger: TriggerHere | None) -> None:
    try:
        if trigger is not None:
            trigger.wake()
    except Exception as error:  # noqa: BLE001  a lost hint only delays the poll by an interval
        structlog.get_logger().warning("watcher.wake_failed", error=str(error))


class Conversation:
    """Answers the requests of one host. `stopping`: the host sent `stop` and needs no answer any more."""

    def __init__(self, wire: Wire) -> None:
        self.stopping = False
        self._wire = wire
        self._limits = BatchLimits()
        self._parts = Parts()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup
        self._trigger: TriggerHere
        self._batches: AsyncGenerator[TriggerBatch, None]
        self._fault: BaseException | None = None
        self._kept: StoredPosition | None = None
        """The position to which an undo of the last rewind returns."""
        self._requests: Mapping[str, Callable[[Frame], Awaitable[Frame | Iterator[bytes]]]] = {
            "ask": self._ask_class,
            "start": self._start,
            "check": self._check,
            "rewound": self._rewound,
            "explain": self._explain,
            "survey": self._survey,
            "keep": self._keep,
            "decisions": self._decisions,
            "recognizes": self._recognizes,
            "reselects": self._recognizes,
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
        """Send the error as the answer to the request that waits for one."""
        with suppress(OSError):
            self._wire.send({"error": error_json(error)})

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
                        _wake(getattr(self, "_trigger", None))
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
        except (
            asyncio.CancelledError
        ):  # ours, a failed task's beside the client, or the trigger's: `run` tells them apart
            raise
        except BaseException as error:  # noqa: BLE001  whatever it is, it is this watcher's failure
            self.report(error)

    def _begin(self, frame: Frame) -> None:
        """Apply the settings of this child, before anything of a plug-in is imported."""
        memory = frame["memory_mb"] * _MB
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        limits = frame["limits"]
        self._limits = BatchLimits(max_events=limits["max_events"], max_bytes=limits["max_bytes"])
        forward_records(self._wire, frame["log_level"])
        if frame["plugins"] is not None:
            add_to_import_path(Path(frame["plugins"]))
        self._tasks.start_soon(self._show_life, frame["alive_every"])

    async def _show_life(self, seconds: float) -> None:
        """Send signs of life: the host ends a child whose event loop is silent."""
        while True:
            self._wire.send({"alive": True})
            await sleep_for(seconds)

    def _on_lost_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """End the child if a task that nobody awaits died: what it did for the trigger is not done any more."""
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
            has_position=request["has_position"],
            poll_timeout=timedelta(seconds=request["poll_timeout"]),
            is_alone=True,
            max_batch_bytes=self._limits.max_bytes,
            installation=request["installation"],
            manifests=request["manifests"],
        )
        self._trigger = TriggerHere(trigger(options, client, context))
        return {"abilities": [each.__name__ for each in ABILITIES if self._trigger.ability(each) is not None]}

    async def _check(self, _request: Frame) -> Frame:
        findings = list(await self._trigger.check())
        for finding in findings:
            check_type(finding, Finding, "what `check` returns")
        has_errors = any(finding.level == "error" for finding in findings)
        identity = None if has_errors else self._trigger.source_identity()
        return {"findings": [asdict(finding) for finding in findings], "identity": identity}

    async def _recognizes(self, request: Frame) -> Frame:
        """Answer whether the trigger `recognizes` a stored identity, or `reselects` it."""
        judge = self._trigger.reselects if request["do"] == "reselects" else self._trigger.recognizes
        return {request["do"]: await judge(request["identity"])}

    async def _decisions(self, request: Frame) -> Frame:
        return {"decisions": await self._trigger.decisions(self._stored_position(request))}

    async def _rewound(self, request: Frame) -> Iterator[bytes]:
        position = await self._trigger.rewound(self._stored_position(request), request["to"])
        check_type(position, Position, "what `rewound` returns")
        return rewound_contents(position)

    async def _explain(self, request: Frame) -> Frame:
        explains = self._trigger.ability(Explains)
        assert explains is not None  # noqa: S101  the host asks for those abilities only that `start` named
        explanation = await explains.explain(request["item"], self._stored_position(request))
        check_type(explanation, Explanation, "what `explain` returns")
        return {"explanation": vars(explanation)}

    async def _survey(self, _request: Frame) -> Frame:
        surveys = self._trigger.ability(Surveys)
        finding = None if surveys is None else await surveys.survey()
        check_type(finding, Finding | None, "what `survey` returns")
        return {"findings": [] if finding is None else [asdict(finding)]}

    async def _keep(self, request: Frame) -> Frame:
        self._kept = self._stored_position(request)
        return {}

    async def _events(self, request: Frame) -> Frame:
        return await self._begin_batches(self._trigger.events(self._stored_position(request)))

    async def _poll(self, request: Frame) -> Frame:
        if (batches := self._trigger.poll_once(self._stored_position(request))) is None:
            raise ConfigurationError(
                "only a polling trigger can be asked what it would find; this one waits for its source"
            )
        return await self._begin_batches(batches)

    async def _begin_batches(self, batches: AsyncGenerator[TriggerBatch, None]) -> Frame:
        self._batches = await self._stack.enter_async_context(aclosing(batches))
        return {}

    async def _next(self, _request: Frame) -> Frame | Iterator[bytes]:
        try:
            batch = await anext(self._batches)
        except StopAsyncIteration:
            return {"end": True}
        if self._kept is None or not (batch.events or batch.rejected):
            return batch_contents(batch, self._limits)
        return batch_contents(batch, self._limits, retold=self._trigger.retold(self._kept, batch))

    async def _ask_class(self, request: Frame) -> Frame:
        """Answer a question about a class. It may block: the host sends one request at a time, and waits with a limit."""
        return classes.QUESTIONS[request["question"]](request)

    def _stored_position(self, request: Frame) -> Any:
        parts, self._parts = self._parts, Parts()
        return parts.stored(request["position"])
