"""A host that was suspended reads what its child has sent meanwhile before it judges the child."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator

import anyio
import pytest

from tests.effort import PATIENCE
from watcher.features.isolation.child_handle import Child, ChildSettings
from watcher.features.isolation.errors import TriggerFailed
from watcher.features.isolation.fork_server import ChildProcess
from watcher.features.isolation.wire import encode, framed

WITHIN = 0.5


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Child, socket.socket]]:
    """A child's two ends. Its process is this one."""
    ours, theirs = socket.socketpair()
    output, theirs_output = os.pipe()
    child = Child(ChildProcess(id=os.getpid(), handle=os.pidfd_open(os.getpid())), ours, output, ChildSettings())
    with theirs:
        yield child, theirs
    child.close()
    os.close(theirs_output)


async def ask(child: Child, theirs: socket.socket, answer: bytes) -> None:
    """Ask the child, which answers while this process does nothing until the deadline has long passed."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(child.read, child.read_frames)

        async def suspend() -> None:
            await anyio.wait_readable(theirs)
            theirs.sendall(answer)
            time.sleep(2 * WITHIN)  # noqa: ASYNC251  nothing else runs meanwhile, as in a suspended process

        tasks.start_soon(suspend)
        try:
            with anyio.fail_after(PATIENCE):
                assert await child.ask({"do": "check"}, "the check", within=WITHIN) == ({"fine": True}, child._parts)
        finally:
            tasks.cancel_scope.cancel()


async def test_an_answer_that_lies_there_is_read_although_its_deadline_has_passed(
    ends: tuple[Child, socket.socket],
) -> None:
    await ask(*ends, framed(encode({"answer": {"fine": True}})))


async def test_without_an_answer_the_deadline_holds(ends: tuple[Child, socket.socket]) -> None:
    with pytest.raises(ExceptionGroup) as failed:
        await ask(*ends, framed(encode({"alive": True})))
    assert failed.group_contains(TriggerFailed, match="the check took longer than 0.5 s")
