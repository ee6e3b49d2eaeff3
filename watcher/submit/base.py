"""The submitter contract: start one try of a task instance, find it again after a crash, stop it, read its log.

The order is always: the intent is committed (try number, home, submitter, tag, token) -> `submit` -> the handle is
stored. A submitter never guesses: a try that it cannot find and cannot prove absent is `LOST`.
docs/writing-a-submitter.md explains how to write one. All that a submitter needs is on this page, in `watcher.submit.workspace` and in `store.keys`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias

from anyio.abc import TaskStatus
from pydantic import BaseModel, ConfigDict, SerializeAsAny

from config.models import SparkParameters
from config.models.spark import DynamicAllocation
from store.keys import TaskInstanceId, TaskInstanceKey, TryKey
from triggers.base import Finding
from watcher.submit.workspace import Addresses, NotYet, SubmitError, TryRecords, Workspace

__all__ = [
    "Addresses",
    "Attachment",
    "DynamicAllocation",
    "Finding",
    "Handle",
    "Needs",
    "NoOptions",
    "NotYet",
    "Progress",
    "SparkApplication",
    "Status",
    "Submission",
    "SubmitError",
    "Submitter",
    "TryKey",
    "TryRecords",
    "WarmConditions",
    "WarmDrivers",
    "WarmRequest",
    "Workspace",
]

Handle: TypeAlias = Mapping[str, Any]
"""The JSON that leads back to a started try. It is stored; any home, or a later release of the submitter, may be given it."""


class NoOptions(BaseModel):
    """The options of a submitter that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SparkApplication(SparkParameters):
    """What to start: the keys of a job's `spark` section, as docs/configuration.md explains them, and those below.

    Paths are absolute. Secrets are in `env` and in `Submission.context`.
    """

    application: str
    """The file of the program; that of a built-in application, too."""
    args: tuple[str, ...] = ()
    """The application's arguments. In a `Submission` their templates are rendered."""
    env: Mapping[str, str]
    """The driver's environment, beside what the submitter itself sets."""
    options: SerializeAsAny[BaseModel] = NoOptions()
    """The submitter's own options, validated by its `Options`."""

    @classmethod
    def of(cls, spark: SparkParameters, *, application: str, env: Mapping[str, str], options: BaseModel) -> Self:
        """Return the application of a validated `spark` section. A key added to `SparkParameters` needs no line here."""
        parameters = {name: value for name, value in spark if name in SparkParameters.model_fields}
        return cls.model_validate({**parameters, "application": application, "env": env, "options": options})

    def running(self, application: str, args: Sequence[str]) -> Self:
        """Return a copy that runs this program with these arguments."""
        return self.model_copy(update={"application": application, "args": tuple(args)})

    def with_conf(self, conf: Mapping[str, str]) -> Self:
        """Return a copy with these Spark properties in place of its own."""
        return self.model_copy(update={"conf": dict(conf)})


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One attempt of one task instance, to be started. `tag` is unique to it, among all homes of one database."""

    key: TryKey
    tag: str
    application: SparkApplication
    context: Mapping[str, Any]
    """The job's private context, JSON: API url, token, the try's key, credentials. The driver reads it from the file that
    `ASSET_JOB_CONTEXT` in its environment names (0600). It belongs on no command line and in no configuration."""

    @classmethod
    def without_try(cls, name: str, application: SparkApplication, context: Mapping[str, Any] | None = None) -> Self:
        """Return a submission that belongs to no try, for programs that are started for other reasons."""
        instance = TaskInstanceKey(dag_id=name, run_id="", task_id="")
        key = TryKey(instance=instance, task_instance_id=TaskInstanceId(""), try_number=0)
        return cls(key=key, tag=name, application=application, context=context or {})


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a driver takes of the home's machine. With `memory_mb` None it takes no memory, and only `parallelism` counts it."""

    memory_mb: int | None = None


class Attachment(Enum):
    """The reason why there is nothing to attach to."""

    ABSENT = "absent"
    """It certainly never started, and no submission under way will start it: it may be submitted again as the same try."""
    LOST = "lost"
    """It was started and is gone without an exit code; what was left of it has been killed and awaited."""
    RESTARTED = "restarted"
    """It is lost because its machine was restarted, which is not the job's fault."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of a try. `exited` is final; it is lost if `exit_code` is None."""

    phase: Literal["starting", "running", "exited"]
    exit_code: int | None = None
    reason: str = ""
    """A sentence for people, or ''. Before the end it is shown on the run, such as what the driver waits for."""
    restarted: bool = False
    """The try ended without an exit code because its machine was restarted."""
    retryable: bool = True
    """Whether another try could end differently."""
    stopped: bool = False
    """`cancel` had asked it to end."""
    timed_out: bool = False
    """The daemon stopped it because it ran too long."""
    running_for: float | None = None
    """Seconds since its driver started, 0 before; the job's timeout is counted from then. None: from the submission."""
    cpu_seconds: float | None = None
    """CPU time of all its processes, once it has exited; None if unknown."""
    peak_memory_mb: int | None = None
    """Memory of its largest process; None if unknown."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Current counts of the Spark application. A count that is not known is None."""

    stages: int
    tasks: int
    tasks_done: int
    first_action_at: datetime | None = None
    """When its first job began, by Spark's own clock; None if unknown."""
    application_id: str | None = None
    """Spark's id of it, by which its history server knows it."""
    rows_read: int | None = None
    """Rows read so far, as Spark counts them, like the three counts below."""
    bytes_read: int | None = None
    rows_written: int | None = None
    bytes_written: int | None = None


@dataclass(frozen=True, kw_only=True)
class WarmRequest:
    """How many warm drivers a job is configured with, and what they have to be ready for."""

    dag_id: str
    count: int
    application: SparkApplication
    connections: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class WarmConditions:
    """What limits warm drivers in this home: the memory they may take, and when one may be started."""

    memory_mb: int
    """`settings.scheduler.memory_mb`: what all drivers of this home may take together."""
    warm_memory_mb: int
    """`settings.scheduler.warm_memory_mb`: what waiting drivers may take of it."""
    running_mb: Callable[[], int] = lambda: 0
    """Returns what this home's tries take, including those that are being submitted."""
    may_start: Callable[[], bool] = lambda: True
    """Returns False while a run is being started, and in a process that starts none."""


class WarmDrivers(Protocol):
    """Drivers that a submitter starts ahead of the tries that use them."""

    @property
    def waiting(self) -> Mapping[str, object]:
        """The drivers that no try has yet, by their tags."""

    @property
    def states(self) -> Mapping[str, int]:
        """The number of drivers that no try has yet, by state: `starting` and `ready`."""

    def adopt(self, requests: Sequence[WarmRequest]) -> None:
        """Keep drivers for these jobs, in the configuration's order, from now on; end those of other jobs."""

    async def hand_over(self, submission: Submission) -> Handle | None:
        """Return a driver that waited for the try and has it now. None: there is room to `submit` the try instead."""

    async def run(self, conditions: WarmConditions, *, task_status: TaskStatus[None]) -> None:
        """Start, replace and end drivers until cancelled; afterwards none is waiting.

        Reports started once drivers that an earlier daemon of this home left behind are gone.
        """


class Submitter(ABC):
    """Starts tries. All methods may be called again after a crash at any point; none raises for a try that ended.

    One instance serves all jobs of a process. A temporary failure, such as a service that does not answer, is raised as
    any other exception: the daemon logs it and asks again after some seconds. Nothing here may block the event loop.
    """

    Options: ClassVar[type[BaseModel]] = NoOptions
    """The model of the keys that a job's `spark` section may have besides the known ones, if it names this submitter."""
    ends_with_home: ClassVar[bool]
    """Whether drivers die with the home's machine. True: their tries are over when their home has been silent for a lease.
    False: another home attaches to them and continues."""
    poll_every: ClassVar[timedelta] = timedelta(milliseconds=300)
    """The time between two calls of `poll` for a try."""
    warm: WarmDrivers | None = None
    """Its warm drivers, if it has any. The configuration accepts a job's `warm` for `spark-submit` only."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @classmethod
    def refusals(cls, spark: SparkParameters, options: BaseModel) -> Iterable[tuple[str, str]]:  # noqa: ARG003
        """Yield each key of a job's `spark` section that its drivers could not honour, and a sentence. Pure."""
        return ()

    @classmethod
    def lacks_here(cls, environment: Mapping[str, str]) -> str | None:  # noqa: ARG003
        """Return what drivers with this environment would lack on this machine, with the remedy; None: nothing that is quickly seen.

        For `watcher check` without --connect. It may read files, and starts nothing.
        """
        return None

    async def run(self) -> None:  # noqa: B027
        """Work in the background of a daemon until cancelled, such as by watching a cluster, or return."""

    @abstractmethod
    async def submit(self, submission: Submission) -> Handle:
        """Start the try; if the same try was started before, return its handle. Raises `SubmitError`."""

    @abstractmethod
    async def attach(self, key: TryKey, tag: str, handle: Handle | None) -> Handle | Attachment:
        """Find the try again, with or without the handle (None: the crash came before it was stored)."""

    @abstractmethod
    async def poll(self, handle: Handle) -> Status:
        """Return the try's state. Once it is `exited`, nothing of the try is alive."""

    @abstractmethod
    async def cancel(self, handle: Handle, grace: float) -> None:
        """Ask the try to stop, and kill it after `grace` seconds. Returns when nothing of it is alive."""

    @abstractmethod
    def logs(self, handle: Handle, offset: int) -> AsyncIterator[bytes]:
        """Yield the log's bytes from `offset` to its present end."""

    @abstractmethod
    def needs(self, application: SparkApplication) -> Needs:
        """Return what admission has to reserve for the application. Pure."""

    @abstractmethod
    def api_url(self, addresses: Addresses) -> str:
        """Return the address at which its drivers reach the API. Raises `SubmitError` if there is none."""

    async def progress(self, handle: Handle) -> Progress | None:  # noqa: ARG002
        """Ask Spark for the application's progress; None when Spark cannot be asked."""
        return None

    def kept_for(self, handle: Handle | None) -> timedelta | None:  # noqa: ARG002
        """Return how long what an ended try leaves is kept until `forget` removes it. None: it leaves nothing. Pure."""
        return None

    async def forget(self, key: TryKey, tag: str, handle: Handle | None) -> None:  # noqa: B027
        """Remove what is left of a try whose end is committed. The home that leads calls it, again until it succeeds."""

    async def check(self, application: SparkApplication) -> Sequence[Finding]:  # noqa: ARG002
        """Return what a run of the application would lack here, without starting it. For `watcher check --connect`."""
        return ()


async def start(submitter: Submitter, submission: Submission) -> Handle:
    """Hand the try to a driver that waits for it, or submit it if there is none. Raises as `Submitter.submit` does."""
    warm = submitter.warm
    handle = await warm.hand_over(submission) if warm is not None and warm.waiting else None
    return await submitter.submit(submission) if handle is None else handle
