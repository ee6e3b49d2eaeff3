"""The `jobs` section: what is started, when, and how often it is tried."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from config.models.assets import PartName, check_parts
from config.models.completeness import CompleteField
from config.models.deadlines import Deadline, DeadlineConfig
from config.models.ingest import BUILTIN
from config.models.schedules import ReferencesField, ScheduleField, needs_several
from config.models.spark import SparkConfig
from config.models.values import Duration, PositiveDuration
from config.names import Name
from config.section import LARGEST_INT, Section
from config.sentences import misplaced


def _listed(parts: Any) -> Any:
    return [parts] if isinstance(parts, str) else parts


PartNames: TypeAlias = Annotated[tuple[PartName, ...], BeforeValidator(_listed), AfterValidator(check_parts)]


class BatchConfig(Section):
    mode: Literal["coalesce", "each", "per_partition"] = "coalesce"
    """`coalesce` collects events into one run. `each` makes a run of each event, and needs a schedule without `all`.
    `per_partition` collects the events of each partition key by themselves."""
    by: PartNames | None = None
    """Parts of partition keys by which `per_partition` groups events. Null: all parts."""
    complete: CompleteField = None
    """What a partition needs before its first run: `{part: [value, …]}`, also with `at_least: n`, `{items: n}`, `{marker: glob}`, or `{manifest: glob}`. With `again: true` a partition may be delivered again."""
    debounce: Duration = timedelta(0)
    """Wait until no event has come for this long."""
    max_wait: Duration = timedelta(minutes=5)
    """Maximum wait since the first event."""
    max_events: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 1000
    """Maximum number of events in one run."""


def _task_id(validated: Mapping[str, Any]) -> str:
    stem = PurePosixPath(validated["spark"].application.removeprefix(BUILTIN)).stem
    return re.sub("[^A-Za-z0-9_.-]", "_", stem)[:250]


class JobConfig(Section):
    spark: SparkConfig
    """What to start."""
    task_id: Annotated[Name, Field(default_factory=_task_id)]
    """Name of the job's only task. Default: the application's file name without its suffix."""
    schedule: ScheduleField = None
    """What starts a run: assets, aliases, a time. Null: a run is started by hand only."""
    batch: BatchConfig = BatchConfig()
    """How events are collected into runs."""
    inlets: ReferencesField = ()
    """Assets and aliases (`{alias: name}`) that the job reads."""
    outlets: ReferencesField = ()
    """Assets and aliases (`{alias: name}`) that the job writes. Each asset gets an event when the job succeeds."""
    max_active_runs: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 1
    """Maximum number of runs of this job at a time."""
    retries: Annotated[int, Field(ge=0, le=LARGEST_INT)] = 0
    """Number of further tries after a failure."""
    retry_delay: Duration = timedelta(seconds=30)
    """Wait before the first retry. It doubles with each retry, up to 10m."""
    timeout: PositiveDuration | None = None
    """Maximum time for one try."""
    deadline: Deadline | None = None
    """Maximum time for which the schedule's condition may be met only in part; after that an alert is raised. Or `{after, by, on,
    timezone, since}`: `by` is the time of the day by which a run must have succeeded."""
    expect_within: PositiveDuration | None = None
    """Maximum time that a run is expected to take; after that the alert `running_too_long` is raised. The run goes on."""
    paused: bool = False
    """Whether a new job is paused at first."""
    catchup: bool = False
    """With a cron: start one run for each time that was missed while the daemon was stopped, not one for all of them. Without:
    give the job, when it is new, the events of its assets that are stored already."""

    @property
    def clock_deadline(self) -> DeadlineConfig:
        """The deadline in its long form; without any it has neither `after` nor `by`."""
        if isinstance(self.deadline, DeadlineConfig):
            return self.deadline
        return DeadlineConfig.model_construct(after=self.deadline)

    @property
    def catches_up(self) -> bool:
        """Whether the job, when it is first seen, gets the events that are stored already."""
        return self.catchup and self.schedule is not None and self.schedule.cron is None

    @field_validator("batch")
    @classmethod
    def _check_mode(cls, batch: BatchConfig, info: ValidationInfo) -> BatchConfig:
        schedule = info.data.get("schedule")
        if batch.mode == "each" and schedule and needs_several(schedule.condition):
            hint = "`each` cannot go with a schedule that needs `all` of several: use `any`, or `mode: coalesce`"
            raise misplaced(batch, (("mode",), hint))
        idle = [name for name, value in (("by", batch.by), ("complete", batch.complete)) if value is not None]
        if idle and batch.mode != "per_partition":
            hint = "has no effect without `mode: per_partition`; remove it, or set the mode"
            raise misplaced(batch, *(((name,), hint) for name in idle))
        if batch.mode != "coalesce" and schedule and schedule.joint:
            hint = f"`{batch.mode}` cannot go with `cron` beside assets: one run takes all events of a tick; use `coalesce`"
            raise misplaced(batch, (("mode",), hint))
        return batch

    @field_validator("deadline")
    @classmethod
    def _check_deadline(cls, deadline: Deadline | None, info: ValidationInfo) -> Deadline | None:
        batch = info.data.get("batch")
        if isinstance(deadline, DeadlineConfig) and deadline.then == "run" and batch and batch.complete is None:
            raise ValueError("`then: run` runs an incomplete partition as it is, and needs `batch.complete`; remove it")
        return deadline

    @field_validator("catchup")
    @classmethod
    def _check_catchup(cls, catchup: bool, info: ValidationInfo) -> bool:
        schedule = info.data.get("schedule")
        if catchup and schedule and schedule.joint:
            raise ValueError(
                "cannot go with `cron` beside assets, where a later tick replaces one that waits; remove it"
            )
        return catchup
