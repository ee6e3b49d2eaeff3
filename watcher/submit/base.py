"""The submitter contract: start one try of a task instance, find it again after a crash, stop it.

The order is always: the intent is committed (try number, home, tag, token) -> `submit` -> the handle is stored. A
submitter never guesses: what it cannot find and cannot prove absent is `LOST`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeAlias

Handle: TypeAlias = Mapping[str, Any]
"""What leads back to a started try; JSON, stored with the try."""


@dataclass(frozen=True, kw_only=True)
class SparkApplication:
    """What to start, from a job's `spark` section; paths are absolute, secrets are in `TaskTry.context` only."""

    application: str
    master: str = "local[*]"
    profile: Literal["small", "large"] = "small"
    driver_memory: str = "512m"
    conf: Mapping[str, str]
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str]
    python: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskTry:
    """One attempt of one task instance. (task instance, try_number) is its identity; `tag` is unique to it."""

    task_instance_id: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    tag: str
    folder: Path
    """This try's own folder on the home's local disk; the submitter makes it (0700)."""
    log: Path
    """The try's log: the driver's stdout and stderr are appended (O_APPEND), the daemon appends records of its own."""
    application: SparkApplication
    context: Mapping[str, Any]
    """The job's private context, written 0600 to `<folder>/context.json`: api url, token, credentials."""


class Attachment(Enum):
    """Why there is nothing to attach to."""

    ABSENT = "absent"
    """It certainly never started: it may be submitted again as the same try."""
    LOST = "lost"
    """It started and is gone without a word; what was left of it has been killed and awaited."""
    RESTARTED = "restarted"
    """It is lost because its machine was restarted: nobody's fault."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """`exited` is final and comes with `exit_code`; `reason` is a sentence for people, '' when there is nothing to say."""

    phase: Literal["starting", "running", "exited"]
    exit_code: int | None = None
    reason: str = ""
    restarted: bool = False
    """It ended without a word because its machine was restarted."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Counts of the Spark application as it stands."""

    stages: int
    tasks: int
    tasks_done: int


class SubmitError(Exception):
    """The try could not be started; the sentence names the remedy. Nothing runs."""


class Submitter(ABC):
    """Starts tries. All methods may be called again after a crash at any point; none raises for a try that ended."""

    @abstractmethod
    async def submit(self, task_try: TaskTry) -> Handle:
        """Start the try; when (task instance, try_number) was started before, only lead back to it. Raises `SubmitError`."""

    @abstractmethod
    async def attach(self, task_try: TaskTry, handle: Handle | None) -> Handle | Attachment:
        """Find the try again, with or without the handle (None: the crash came before it was stored)."""

    @abstractmethod
    async def poll(self, handle: Handle) -> Status:
        """How the try is doing. Once `exited`, nothing of it is alive any more."""

    @abstractmethod
    async def cancel(self, handle: Handle, grace: float) -> None:
        """Stop the try: politely first, after `grace` seconds by force; returns when nothing of it is alive."""

    @abstractmethod
    def logs(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        """The log's bytes from `offset` on to its present end."""

    @abstractmethod
    async def progress(self, handle: Handle) -> Progress | None:
        """What Spark itself says of the application's progress; None when it cannot be asked."""
