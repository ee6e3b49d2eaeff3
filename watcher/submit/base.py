"""The submitter contract: start one try of a task instance, find it again after a crash, stop it, read its log.

The order is always: the intent is committed (try number, home, submitter, tag, token) -> `submit` -> the handle is
stored. A submitter never guesses: what it cannot find and cannot prove absent is `LOST`. docs/writing-a-submitter.md
tells how one is written; everything it needs is on this page and in `store.keys`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from store.keys import TryKey
from triggers.base import Finding
from watcher.submit.sdk_archive import sdk_archive

__all__ = [
    "Addresses",
    "Attachment",
    "DynamicAllocation",
    "Finding",
    "Handle",
    "Needs",
    "NoOptions",
    "Progress",
    "SparkApplication",
    "Status",
    "Submission",
    "SubmitError",
    "Submitter",
    "TryKey",
    "Workspace",
]

Handle: TypeAlias = Mapping[str, Any]
"""What leads back to a started try; JSON, stored with the try. Of any home, and of older releases of the submitter."""


class NoOptions(BaseModel):
    """The options of a submitter that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, kw_only=True)
class DynamicAllocation:
    """As many executors as there is work for, between these; `max` None: any number."""

    min: int = 0
    max: int | None = None


@dataclass(frozen=True, kw_only=True)
class SparkApplication:
    """What to start, from a job's `spark` section; paths are absolute, secrets are in `env` and in `Submission.context`."""

    application: str
    master: str = "local[*]"
    profile: Literal["small", "large"] = "small"
    driver_memory: str = "512m"
    conf: Mapping[str, str]
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    """These two with `#name` behind, where they are to have another name."""
    properties_file: str | None = None
    """Under `conf`."""
    executor_memory: str | None = None
    executor_cores: int | None = None
    num_executors: int | None = None
    dynamic_allocation: bool | DynamicAllocation = False
    args: tuple[str, ...] = ()
    """In a `Submission` they are rendered."""
    env: Mapping[str, str]
    python: str | None = None
    options: BaseModel = field(default_factory=NoOptions)
    """The submitter's own, validated by its `Options`."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One attempt of one task instance, to be started. `tag` is unique to it, among all homes of one database."""

    key: TryKey
    tag: str
    application: SparkApplication
    context: Mapping[str, Any]
    """The job's private context, JSON: api url, token, who it is, credentials. The driver reads it from the file that
    `ASSET_JOB_CONTEXT` in its environment names (0600); it belongs on no command line and in no configuration."""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """What the daemon lends its submitters on this machine."""

    home: Path
    """Local disk, kept over restarts; a submitter makes folders of its own in it."""
    logs: Path
    """`watcher.host.logs.try_log` says which file in it is a try's: the daemon appends its records there."""
    python: str
    """The daemon's interpreter, for jobs that name none."""
    environment: Mapping[str, str]
    """The daemon's, with its secrets: not for jobs."""
    driver_memory_mb: int
    """`settings.scheduler.driver_memory_mb`: what a driver on this machine takes with the usual heap of 512 MB."""
    event_logs: bool = False
    """Whether Spark shall keep an event log of each try, in the folder `watcher.host.logs.event_logs` of `logs`."""

    def sdk_archive(self) -> Path:
        """A zip from which `import asset_job` works, to be put on the driver's import path. Raises `SubmitError`."""
        try:
            return sdk_archive(self.home)
        except OSError as error:
            raise SubmitError(f"the job SDK could not be written below {self.home}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where the API is reached."""

    local: str
    """From this machine."""
    public: str | None
    """From elsewhere: `settings.api.base_url`; None when it is not set."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a driver takes of the home's machine; `memory_mb` None: nothing, only `parallelism` counts it."""

    memory_mb: int | None = None


class Attachment(Enum):
    """Why there is nothing to attach to."""

    ABSENT = "absent"
    """It certainly never started, and no submission that is still on its way will start it: it may be submitted again
    as the same try."""
    LOST = "lost"
    """It started and is gone without a word; what was left of it has been killed and awaited."""
    RESTARTED = "restarted"
    """It is lost because its machine was restarted: nobody's fault."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """`exited` is final; an `exit_code` of None then means lost. `reason` is a sentence for people, '' for nothing to say."""

    phase: Literal["starting", "running", "exited"]
    exit_code: int | None = None
    reason: str = ""
    restarted: bool = False
    """It ended without a word because its machine was restarted."""
    retryable: bool = True
    """Whether another try could end in another way."""
    stopped: bool = False
    """`cancel` had asked it to end."""
    timed_out: bool = False
    """The daemon had it stopped, because it ran for too long."""
    cpu_seconds: float | None = None
    """What all its processes have taken, once it has exited; None where that is not known."""
    peak_memory_mb: int | None = None
    """Memory of the largest of them."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Counts of the Spark application as it stands."""

    stages: int
    tasks: int
    tasks_done: int
    first_action_at: datetime | None = None
    """When its first job began, by Spark's own clock; None where that is not known."""
    application_id: str | None = None
    """Spark's name of it, by which its history server knows it."""
    rows_read: int | None = None
    """So far, as Spark counts; so the next. None where it is not known."""
    bytes_read: int | None = None
    rows_written: int | None = None
    bytes_written: int | None = None


class SubmitError(Exception):
    """The try could not be started; the sentence names the remedy. Nothing runs, and nothing will."""

    retryable: bool = True
    """False: another try would end in the same way."""


class Submitter(ABC):
    """Starts tries. All methods may be called again after a crash at any point; none raises for a try that ended.

    One instance serves all jobs of a process. What passes, as a service that does not answer, is raised as any other
    exception: the daemon logs it and asks again after some seconds. Nothing here may block the event loop.
    """

    Options: ClassVar[type[BaseModel]] = NoOptions
    """What a job's `spark` section may say beside the known keys, when it names this submitter."""
    ends_with_home: ClassVar[bool]
    """Whether drivers live and die with the home's machine. True: when their home has been silent for a lease, their
    tries are over. False: another home attaches to them, and goes on."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @abstractmethod
    async def submit(self, submission: Submission) -> Handle:
        """Start the try; when the same was started before, only lead back to it. Raises `SubmitError`."""

    @abstractmethod
    async def attach(self, key: TryKey, tag: str, handle: Handle | None) -> Handle | Attachment:
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
    def needs(self, application: SparkApplication) -> Needs:
        """What admission reckons the application with. Pure."""

    @abstractmethod
    def api_url(self, addresses: Addresses) -> str:
        """The address by which its drivers reach the API. Raises `SubmitError` when there is none."""

    async def progress(self, handle: Handle) -> Progress | None:  # noqa: ARG002
        """What Spark itself says of the application's progress; None when it cannot be asked."""
        return None

    async def check(self, application: SparkApplication) -> Sequence[Finding]:  # noqa: ARG002
        """What a run of the application would miss here; nothing is started. For `watcher check --connect`."""
        return ()
