"""What code of others raises is theirs to answer for, whatever it is; only our own cancellation ends what we run.

anyio takes a `CancelledError` that a task lets out for its scope's own, and ends the task quietly; asyncio ends the
process at a `SystemExit`. Both are things that a library in a trigger may raise at any time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

from watcher.errors import PartEnded


def is_cancelled() -> bool:
    """Whether the calling task is to end: a scope around it was cancelled by us, or its time is over.

    What else cancelled the task, code of others by asyncio's `Task.cancel`, is taken back.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
    return False


def sentence(error: BaseException) -> str:
    """What a person is told of it: its text, those of a group's members, or its kind. Raises nothing."""
    if isinstance(error, BaseExceptionGroup):
        return " · ".join(map(sentence, leaves(error)))
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  its author's code
        text = ""
    kind = type(error).__name__
    if isinstance(error, Exception):
        return text or kind
    return f"{kind} was raised, which is for whoever runs this program to raise" + (f" ({text})" if text else "")


def leaves(error: BaseException) -> list[BaseException]:
    """The errors of a group and of the groups in it; of anything else itself."""
    within = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [leaf for each in within for leaf in leaves(each)] or [error]


Part = Callable[..., Awaitable[None]]
"""Runs until it is cancelled, and calls `task_status.started()` once it does its work."""


async def run_part(name: str, run: Part, *arguments: object, task_status: TaskStatus[None]) -> None:
    """Run a part of the daemon until it is cancelled. However else it ends, `PartEnded` is raised and names it."""
    try:
        await run(*arguments, task_status=task_status)
    except BaseException as error:
        if is_cancelled():
            raise
        raise PartEnded(f"the {name} ended by itself: {sentence(error)}; this process ends, start it again") from error
    if not is_cancelled():
        raise PartEnded(f"the {name} ended by itself, without an error; this process ends, start it again")
