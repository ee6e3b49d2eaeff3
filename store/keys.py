"""The names of things, and a job's definition: what every room and the daemon's pure cores may import.

Each key defines once how it becomes columns and log bindings (the same names), the parts of a path, and JSON. It uses
the standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Literal, NewType, Self, TypeAlias, get_args

from store.partition_keys import Completeness

AssetId = NewType("AssetId", int)
EventId = NewType("EventId", int)
DagId = NewType("DagId", str)
RunId = NewType("RunId", str)
TaskInstanceId = NewType("TaskInstanceId", str)
"""A UUID in its usual form: the subject of a try's token, as in Airflow."""
WatcherName = NewType("WatcherName", str)
Wake = NewType("Wake", str)
"""The word of the hint that wakes whoever goes on with what a feature has written."""

LONGEST_PARTITION_KEY: Final = 250
"""The most characters of a partition key, as in Airflow."""
UNMAPPED: Final = -1
"""The `map_index` of a task instance that is not mapped."""

Role: TypeAlias = Literal["schedule", "inlet", "outlet"]
"""How a job names an asset or an alias."""
ROLES: Final[tuple[Role, ...]] = get_args(Role)

Condition: TypeAlias = str | Mapping[str, Any]
"""An asset's name, `{"asset": name, "where": {path: value}}`, `{"alias": name}` (also with `where`), `{"all": [condition, …]}`
or `{"any": [condition, …]}`."""


@dataclass(frozen=True, kw_only=True)
class AssetRef:
    """An existing asset with all its names."""

    id: AssetId
    name: str
    uri: str


@dataclass(frozen=True, kw_only=True)
class TaskInstanceKey:
    """One task of one run; an unmapped task has `map_index` -1."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = UNMAPPED

    @classmethod
    def of(cls, row: Any) -> TaskInstanceKey:
        """Return the key of a row or an object that has these columns."""
        return cls(dag_id=row.dag_id, run_id=row.run_id, task_id=row.task_id, map_index=row.map_index)

    @property
    def columns(self) -> dict[str, Any]:
        """The values by column; log records bind the same names."""
        return dict(vars(self))

    @property
    def path(self) -> tuple[str, ...]:
        """The folders below which its logs are filed. The names are unchecked."""
        return (self.dag_id, self.run_id, self.task_id, str(self.map_index))


@dataclass(frozen=True, kw_only=True)
class TryRef:
    """A try by its task instance's id and its number, as a token names it. `try_number` counts from 1."""

    task_instance_id: TaskInstanceId
    try_number: int


@dataclass(frozen=True, kw_only=True)
class TryKey(TryRef):
    """One attempt of a task instance, with the names by which its logs are filed."""

    instance: TaskInstanceKey

    @classmethod
    def of_columns(
        cls,
        *,
        dag_id: str,
        run_id: str,
        task_id: str,
        map_index: int,
        task_instance_id: TaskInstanceId,
        try_number: int,
    ) -> Self:
        """Return the key of a try from the columns of its task instance and its own."""
        instance = TaskInstanceKey(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
        return cls(instance=instance, task_instance_id=task_instance_id, try_number=try_number)

    @property
    def dag_id(self) -> str:
        return self.instance.dag_id

    @property
    def run_id(self) -> str:
        return self.instance.run_id

    @property
    def task_id(self) -> str:
        return self.instance.task_id

    @property
    def map_index(self) -> int:
        return self.instance.map_index

    @property
    def bindings(self) -> dict[str, Any]:
        """The log bindings that send a record to the try's own log."""
        return {**self.instance.columns, "try_number": self.try_number}

    @property
    def path(self) -> tuple[str, ...]:
        """The folders and the stem of its log. The names are unchecked."""
        return (*self.instance.path, str(self.try_number))

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object that tells a job which try it is."""
        return {"task_instance_id": self.task_instance_id, **self.bindings}


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How queued events become runs; see `batch` in the configuration."""

    mode: str = "coalesce"
    debounce: timedelta = timedelta(0)
    max_wait: timedelta = timedelta(minutes=5)
    max_events: int = 1000
    by: tuple[str, ...] | None = None
    """The parts of partition keys by which `per_partition` groups events; None: all."""
    complete: Completeness | None = None
    """What a partition waits for; None: for its condition alone."""
    run_after: timedelta | None = None
    """How long after its first event an incomplete partition is run as it is; None: not by itself."""

    @property
    def is_plain(self) -> bool:
        """Whether the scheduler plans its runs by itself. A job of another mode needs that mode's planner."""
        return self.mode in {"coalesce", "each"}

    @property
    def is_partitioned(self) -> bool:
        return self.mode == "per_partition"

    @property
    def takes_no_ticks(self) -> bool:
        """Whether a tick has a run of its own, without events."""
        return self.mode in {"each", "per_partition"}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Batching:
        """Return the batching that is stored as this JSON object; durations are seconds."""
        debounce, max_wait = _seconds(stored.get("debounce")), _seconds(stored.get("max_wait"))
        by, complete = stored.get("by"), stored.get("complete")
        return cls(
            mode=stored.get("mode", "coalesce"),
            debounce=timedelta(0) if debounce is None else debounce,
            max_wait=timedelta(minutes=5) if max_wait is None else max_wait,
            max_events=stored.get("max_events", 1000),
            run_after=_seconds(stored.get("run_after")),
            by=None if by is None else tuple(by),
            complete=None if complete is None else Completeness.of(complete),
        )


@dataclass(frozen=True, kw_only=True)
class CronSchedule:
    """Five fields or an `@…` word, checked by the configuration, and the name of an IANA time zone."""

    expression: str
    timezone: str

    def __str__(self) -> str:
        return f"{self.expression} {self.timezone}"


@dataclass(frozen=True, kw_only=True)
class ClockDeadline:
    """Times by which something must have happened: the ticks of `cron`, each at most `since` after it."""

    cron: CronSchedule
    since: timedelta

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> ClockDeadline:
        """Return the deadline that is stored as this JSON object."""
        cron = CronSchedule(expression=stored["cron"]["expression"], timezone=stored["cron"]["timezone"])
        return cls(cron=cron, since=timedelta(seconds=stored["since"]))

    @classmethod
    def from_json(cls, text: str) -> ClockDeadline:
        """Return the deadline that a stored text holds."""
        return cls.of(json.loads(text))

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        return json.dumps(asdict(self), default=timedelta.total_seconds)


@dataclass(frozen=True, kw_only=True)
class JobDefinition:
    """What the scheduler, the dispatcher and the API need to know of a job, as the database keeps it: no secrets.

    `joint`: a run needs a due tick and the condition, not one of them. `schedule` None: the job runs by the clock or by hand only. `timeout` None: no limit. `submitter` is the registered
    name or the dotted path in the configuration.
    """

    schedule: Condition | None = None
    batch: Batching = field(default_factory=Batching)
    cron: CronSchedule | None = None
    joint: bool = False
    catchup: bool = False
    max_active_runs: int = 1
    retries: int = 0
    retry_delay: timedelta = timedelta(seconds=30)
    timeout: timedelta | None = None
    deadline: timedelta | None = None
    due_by: ClockDeadline | None = None
    expect_within: timedelta | None = None
    application: str = ""
    master: str = "local[*]"
    submitter: str = "spark-submit"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_schedule(self) -> bool:
        """Whether events or the clock start runs of it. If not, queued events wait for a person, or for a schedule."""
        return self.schedule is not None or self.cron is not None

    @property
    def catches_up(self) -> bool:
        """Whether it gets the events that were stored before it was first seen. With a cron, `catchup` is about ticks."""
        return self.catchup and self.schedule is not None and self.cron is None

    @classmethod
    @lru_cache(maxsize=10_000)
    def from_json(cls, text: str) -> JobDefinition:
        """Return the definition that a stored text holds; what an older release did not store has its default.

        Each version of a job is parsed once. Its rows are read all day.
        """
        stored = json.loads(text)
        spark, cron, batch = stored.get("spark", {}), stored.get("cron"), stored.get("batch")
        if unknown := stored.keys() - _STORED:
            raise TypeError(f"a newer release stored {', '.join(sorted(unknown))} in the definition of a job")
        return cls(
            schedule=stored.get("schedule"),
            batch=_NO_BATCHING if batch is None else Batching.of(batch),
            cron=None if cron is None else CronSchedule(expression=cron["expression"], timezone=cron["timezone"]),
            joint=stored.get("joint", False),
            catchup=stored.get("catchup", False),
            max_active_runs=stored.get("max_active_runs", 1),
            retries=stored.get("retries", 0),
            retry_delay=_RETRY_DELAY if (delay := _seconds(stored.get("retry_delay"))) is None else delay,
            timeout=_seconds(stored.get("timeout")),
            deadline=_seconds(stored.get("deadline")),
            due_by=None if (due_by := stored.get("due_by")) is None else ClockDeadline.of(due_by),
            expect_within=_seconds(stored.get("expect_within")),
            application=spark.get("application", ""),
            master=spark.get("master", "local[*]"),
            submitter=spark.get("submitter", "spark-submit"),
            options=stored.get("options", {}),
        )

    def to_json(self) -> str:
        """Return the text that `job.definition` keeps; durations are seconds."""
        values = asdict(self)
        if self.expect_within is None:  # a process of an older release refuses what it does not know
            del values["expect_within"]
        spark = {name: values.pop(name) for name in ("application", "master", "submitter")}
        return json.dumps({**values, "spark": spark}, default=timedelta.total_seconds)


_NO_BATCHING: Final = Batching()
_RETRY_DELAY: Final = timedelta(seconds=30)
_STORED: Final = {field.name for field in fields(JobDefinition)} | {"spark"}


def _seconds(stored: float | None) -> timedelta | None:
    return None if stored is None else timedelta(seconds=stored)
