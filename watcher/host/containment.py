"""Contains whatever third-party code raises: only our own cancellation ends what we run.

anyio takes a `CancelledError` that leaves a task for its scope's own and ends the task silently. asyncio ends the process
at a `SystemExit`. A library in a trigger may raise either at any time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskStatus

from watcher.errors import ServiceEnded


def is_cancelled() -> bool:
    """Return whether the calling task is to end: we cancelled a scope around it, or its deadline has passed.

    Any other cancellation, by third-party code that calls asyncio's `Task.cancel`, is taken back.
    """
    if anyio.current_effective_deadline() == -math.inf:
        return True
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
    return False


def sentence(error: BaseException) -> str:
    """Return an error as a sentence for people: its text, the texts of a group's members, or its kind. Never raises."""
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
    """Return the errors of a group and of the groups in it, or the error itself."""
    within = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [leaf for each in within for leaf in leaves(each)] or [error]


Service = Callable[..., Awaitable[None]]
"""Something that a process runs until it is cancelled. It calls `task_status.started()` once it does its work."""


async def run_service(name: str, run: Service, *arguments: object, task_status: TaskStatus[None]) -> None:
    """Run a service until it is cancelled. Raises `ServiceEnded`, which names it, if it ends otherwise."""
    try:
        await run(*arguments, task_status=task_status)
    except BaseException as error:
        if is_cancelled():
            raise
        raise ServiceEnded(
            f"the {name} ended by itself: {sentence(error)}; this process ends, start it again"
        ) from error
    if not is_cancelled():
        raise ServiceEnded(f"the {name} ended by itself, without an error; this process ends, start it again")
