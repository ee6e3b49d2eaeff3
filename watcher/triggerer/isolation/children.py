"""The children of a host: how they are made, how their memory is limited, and how they end.

A child is ended by `stop`, after a grace period by SIGTERM, and after another one by SIGKILL to all of its group. A task of
its own does that: only the next child of the same watcher waits for a child that does not end.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog
from anyio import CancelScope, CapacityLimiter
from anyio.abc import TaskGroup, TaskStatus

from watcher.triggerer.isolation.child_handle import Child, ChildSettings
from watcher.triggerer.isolation.fork_server import ForkServer

MEMORY_CHECK_SECONDS: Final = 1.0
KILLED_WITHIN: Final = 60.0
"""Seconds in which a process that was killed is gone; one that remains is named in the log."""
_MB: Final = 1_000_000
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

log = structlog.get_logger()


class Children:
    """Makes children. Each has a task in the group `tasks`; the task ends the child, also when the group is cancelled."""

    def __init__(self, server: ForkServer, tasks: TaskGroup, settings: ChildSettings) -> None:
        self.settings = settings
        self._server = server
        self._tasks = tasks
        self._one_thread = CapacityLimiter(1)
        self._living: set[Child] = set()
        self._newest: dict[str, Child] = {}
        self._watching = False

    @asynccontextmanager
    async def open(self, watcher: str, *, only_one: bool = True) -> AsyncIterator[Child]:
        """Keep a child of a watcher for the block. `only_one` first waits until the watcher's previous child is gone."""
        if only_one and watcher in self._newest:
            await self._newest[watcher].finished.wait()
        child: Child = await self._tasks.start(self._keep)
        if only_one:
            self._newest[watcher] = child
        if not self._watching:
            self._watching = True
            self._tasks.start_soon(self._watch_memory)
        try:
            yield child
        finally:
            child.over.set()

    def start_soon(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task that ends with the children at the latest. It must not raise."""
        self._tasks.start_soon(task)

    async def _keep(self, *, task_status: TaskStatus[Child]) -> None:
        with CancelScope(shield=True):
            child = await self._fork()
        self._living.add(child)
        task_status.started(child)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(child.read, child.read_frames)
                tasks.start_soon(child.read, child.read_output)
                try:
                    await child.over.wait()
                finally:
                    with CancelScope(shield=True):
                        await self._end(child)
                tasks.cancel_scope.cancel()
        finally:
            child.finish(None)
            child.close()

    async def _fork(self) -> Child:
        ours, theirs = socket.socketpair()
        output, theirs_output = os.pipe2(os.O_CLOEXEC)
        try:
            process = await anyio.to_thread.run_sync(self._server.fork, theirs, theirs_output, limiter=self._one_thread)
        except BaseException:
            ours.close()
            os.close(output)
            raise
        finally:
            theirs.close()
            os.close(theirs_output)
        child = Child(process, ours, output, self.settings)
        await child.begin()
        return child

    async def _end(self, child: Child) -> None:
        grace = self.settings.grace
        await child.stop()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await child.is_gone(within=grace):
                break
            child.process.signal_group(number)
        if not await child.is_gone(within=KILLED_WITHIN):
            log.error("watcher.process_remains", pid=child.process.id)
        self._living.discard(child)
        status = await anyio.to_thread.run_sync(self._server.status_of, child.process, limiter=self._one_thread)
        child.finish(status)

    async def _watch_memory(self) -> None:
        """End children that use too much memory. RLIMIT_DATA limits only what a child allocates, not shared memory."""
        limit = self.settings.memory_mb * _MB
        while True:
            await anyio.sleep(MEMORY_CHECK_SECONDS)
            for child in [*self._living]:
                if (used := _resident(child.process.id)) > limit:
                    child.fail(
                        f"the trigger's process used {used // _MB} MB of memory, and {self.settings.memory_mb} MB is the "
                        "limit; fix its leak, or raise settings.triggerer.isolation.memory_mb"
                    )
                    child.process.signal_group(signal.SIGKILL)


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
