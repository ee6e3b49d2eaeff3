"""Filters of lists under the names of Airflow's parameters, in the address or in a body.

All of Airflow's filters are accepted, also those about features that do not exist here. Such a filter matches nothing: if it
were ignored, a list would show, or a request would change, what the filter was meant to exclude.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Final, Literal, TypeAlias

from fastapi import HTTPException
from pydantic import BaseModel, Field

from store.database.paging import Range
from store.runs.run_lists import RUN_RANGES, RunFilter
from store.runs.tries.task_instances import TASK_RANGES, TaskFilter
from watcher.serving.api.parameters import BIGGEST, Body, Moment, Text, example

TextPattern: TypeAlias = Annotated[Text, Field(max_length=1000)] | None
_Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
_Small: TypeAlias = Annotated[int, Field(ge=-(2**31), lt=2**31)]
_PageOffset: TypeAlias = Annotated[int, Field(ge=0, le=BIGGEST)]
RunState: TypeAlias = Literal["queued", "running", "success", "failed"]
RunType: TypeAlias = Literal[
    "backfill", "scheduled", "manual", "operator_triggered", "asset_triggered", "asset_materialization"
]
TaskState: TypeAlias = Literal[
    "removed",
    "scheduled",
    "queued",
    "running",
    "success",
    "restarting",
    "failed",
    "up_for_retry",
    "up_for_reschedule",
    "upstream_failed",
    "skipped",
    "deferred",
    "awaiting_input",
    "none",
]


class _Bounds(BaseModel):
    """The bounds that runs and task instances share."""

    run_after_gte: Moment | None = None
    run_after_gt: Moment | None = None
    run_after_lte: Moment | None = None
    run_after_lt: Moment | None = None
    logical_date_gte: Moment | None = None
    logical_date_gt: Moment | None = None
    logical_date_lte: Moment | None = None
    logical_date_lt: Moment | None = None
    start_date_gte: Moment | None = None
    start_date_gt: Moment | None = None
    start_date_lte: Moment | None = None
    start_date_lt: Moment | None = None
    end_date_gte: Moment | None = None
    end_date_gt: Moment | None = None
    end_date_lte: Moment | None = None
    end_date_lt: Moment | None = None
    duration_gte: _Number | None = None
    duration_gt: _Number | None = None
    duration_lte: _Number | None = None
    duration_lt: _Number | None = None

    def ranges(self, names: Iterable[str]) -> Mapping[str, Range]:
        """Return the bounds of each named field."""
        return {name: range_of(self, name) for name in names}


class _BoundsWithUpdatedAt(_Bounds):
    updated_at_gte: Moment | None = None
    updated_at_gt: Moment | None = None
    updated_at_lte: Moment | None = None
    updated_at_lt: Moment | None = None


def range_of(model: BaseModel, name: str) -> Range:
    return Range(
        gte=getattr(model, f"{name}_gte", None),
        gt=getattr(model, f"{name}_gt", None),
        lte=getattr(model, f"{name}_lte", None),
        lt=getattr(model, f"{name}_lt", None),
    )


class RunQuery(_BoundsWithUpdatedAt):
    """The filters of `GET …/dagRuns`."""

    state: list[RunState] | None = None
    run_type: list[RunType] | None = None
    run_id_pattern: TextPattern = None
    run_id_prefix_pattern: TextPattern = None
    dag_id_pattern: TextPattern = None
    dag_id_prefix_pattern: TextPattern = None
    trace_id: Annotated[str | None, Field(pattern="^[0-9a-f]{32}$")] = None
    conf_contains: TextPattern = None
    text: TextPattern = None
    consuming_asset_pattern: TextPattern = None
    dag_version: list[_Small] | None = None
    bundle_version: Text | None = None
    triggering_user_name_pattern: TextPattern = None
    triggering_user_name_prefix_pattern: TextPattern = None
    partition_key_pattern: TextPattern = None
    partition_key_prefix_pattern: TextPattern = None
    partition_date_gte: date | None = None
    partition_date_lte: date | None = None

    def filter(self, dag_id: str | None) -> RunFilter:
        """Return the filter for the runs of one job, or of all jobs. Raise 400 for partition dates, as Airflow does."""
        if self.partition_date_gte is not None or self.partition_date_lte is not None:
            raise HTTPException(
                400,
                "runs have a partition_key and no partition date here; leave out partition_date_gte and partition_date_lte",
            )
        return RunFilter(
            dag_id=dag_id,
            states=self.state,
            types=self.run_type,
            id_pattern=self.run_id_pattern,
            id_prefix=self.run_id_prefix_pattern,
            dag_id_pattern=self.dag_id_pattern,
            dag_id_prefix=self.dag_id_prefix_pattern,
            trace_id=self.trace_id,
            conf_contains=self.conf_contains,
            text=self.text or None,
            consuming_asset=self.consuming_asset_pattern or None,
            partition_key_pattern=self.partition_key_pattern,
            partition_key_prefix=self.partition_key_prefix_pattern,
            ranges=self.ranges(RUN_RANGES),
            is_impossible=asks_for(self, _NO_RUN_HAS),
        )


class DAGRunsBatchBody(Body, _Bounds):
    """The body of `POST /dags/~/dagRuns/list`."""

    model_config = example(dag_ids=["load_orders"], states=["failed"], page_limit=10)

    order_by: Text | None = None
    page_offset: _PageOffset = 0
    page_limit: Annotated[int, Field(ge=0)] = 100
    dag_ids: list[Text] | None = None
    states: list[RunState | None] | None = None
    conf_contains: TextPattern = None

    @property
    def filter(self) -> RunFilter:
        return RunFilter(
            dag_ids=self.dag_ids,
            states=None if self.states is None else [state or "none" for state in self.states],
            conf_contains=self.conf_contains,
            ranges=self.ranges(RUN_RANGES),
        )


class TaskQuery(_BoundsWithUpdatedAt):
    """The filters of `GET …/taskInstances`."""

    task_id: Text | None = None
    state: list[TaskState] | None = None
    try_number: list[_Small] | None = None
    map_index: list[_Small] | None = None
    task_display_name_pattern: TextPattern = None
    task_display_name_prefix_pattern: TextPattern = None
    dag_id_pattern: TextPattern = None
    dag_id_prefix_pattern: TextPattern = None
    run_id_pattern: TextPattern = None
    run_id_prefix_pattern: TextPattern = None
    pool: list[Text] | None = None
    pool_name_pattern: TextPattern = None
    pool_name_prefix_pattern: TextPattern = None
    queue: list[Text] | None = None
    queue_name_pattern: TextPattern = None
    queue_name_prefix_pattern: TextPattern = None
    operator: list[Text] | None = None
    operator_name_pattern: TextPattern = None
    operator_name_prefix_pattern: TextPattern = None
    rendered_map_index_pattern: TextPattern = None
    rendered_map_index_prefix_pattern: TextPattern = None
    executor: list[Text] | None = None
    version_number: list[_Small] | None = None
    task_group_id: Text | None = None

    def filter(self, dag_id: str | None, run_id: str | None) -> TaskFilter:
        """Return the filter for the task instances of one job or run, or of all."""
        return TaskFilter(
            dag_ids=None if dag_id is None else [dag_id],
            run_ids=None if run_id is None else [run_id],
            task_ids=None if self.task_id is None else [self.task_id],
            states=self.state,
            try_numbers=self.try_number,
            map_indexes=self.map_index,
            constants={"pool": self.pool, "queue": self.queue, "operator": self.operator},
            patterns={column: getattr(self, f"{name}_pattern") for column, name in _TASK_PATTERNS.items()},
            prefixes={column: getattr(self, f"{name}_prefix_pattern") for column, name in _TASK_PATTERNS.items()},
            ranges=self.ranges(TASK_RANGES),
            is_impossible=asks_for(self, _NO_TASK_HAS),
        )


class TaskInstancesBatchBody(Body, _Bounds):
    """The body of `POST /dags/~/dagRuns/~/taskInstances/list`."""

    model_config = example(task_ids=["load"], state=["failed"], page_limit=10)

    dag_ids: list[Text] | None = None
    dag_run_ids: list[Text] | None = None
    task_ids: list[Text] | None = None
    state: list[TaskState | None] | None = None
    pool: list[Text] | None = None
    queue: list[Text] | None = None
    executor: list[Text] | None = None
    page_offset: _PageOffset = 0
    page_limit: Annotated[int, Field(ge=0)] = 100
    order_by: Text | None = None

    @property
    def filter(self) -> TaskFilter:
        return TaskFilter(
            dag_ids=self.dag_ids,
            run_ids=self.dag_run_ids,
            task_ids=self.task_ids,
            states=None if self.state is None else [state or "none" for state in self.state],
            constants={"pool": self.pool, "queue": self.queue},
            ranges=self.ranges(TASK_RANGES),
            is_impossible=asks_for(self, ("executor",)),
        )


_TASK_PATTERNS: Final = {
    "task_id": "task_display_name",
    "dag_id": "dag_id",
    "run_id": "run_id",
    "pool": "pool_name",
    "queue": "queue_name",
    "operator": "operator_name",
    "rendered_map_index": "rendered_map_index",
}
"""The column that a pattern is compared with, and the beginning of the parameter's name."""
_NO_RUN_HAS: Final = (
    "dag_version",
    "bundle_version",
    "triggering_user_name_pattern",
    "triggering_user_name_prefix_pattern",
)
_NO_TASK_HAS: Final = ("executor", "version_number", "task_group_id")


def asks_for(model: BaseModel, names: Iterable[str]) -> bool:
    """Return whether a filter is given for one of these names, which nothing here has. False and `~` do not count."""
    values = model.model_dump(include=set(names)).values()
    return any(value is not None and value is not False and value not in ("~", []) for value in values)
