"""Task instances and their tries in Airflow's shape. `detail`, `progress`, `cost` and `exit_code` are additional fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from pydantic import BeforeValidator

from store.database.cursors import CursorPage
from store.runs.tries.superseding import SUPERSEDING
from store.runs.tries.task_instances import OPERATOR, POOL, TaskInstance, TryOfRun
from watcher.serving.api.shapes.base import Shape, duration, parsed


def _counts(progress: str | None) -> Mapping[str, int] | None:
    """Return the counts of a progress without Spark's application id, or None before Spark has any task."""
    counts = {name: value for name, value in (parsed(progress) or {}).items() if name != "application_id"}
    return counts if counts.get("tasks") else None


def history_link(server: str | None, progress: str | None) -> str | None:
    """Return the history server's address of the Spark application that a try's progress (JSON text) names."""
    application = (parsed(progress) or {}).get("application_id")
    return None if server is None or application is None else f"{server.rstrip('/')}/history/{quote(application)}/"


class TaskInstanceHistoryResponse(Shape):
    """A try of a task instance."""

    task_id: str
    dag_id: str
    dag_run_id: str
    map_index: int
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None
    state: str
    try_number: int
    max_tries: int
    task_display_name: str
    dag_display_name: str
    hostname: str | None = None
    unixname: str | None = None
    pool: str = POOL
    pool_slots: int = 1
    queue: str | None = None
    priority_weight: int | None = None
    operator: str = OPERATOR
    operator_name: str = OPERATOR
    queued_when: datetime | None
    scheduled_when: datetime | None
    pid: int | None = None
    executor: str | None = None
    executor_config: str = "{}"
    dag_version: None = None


class TaskInstanceResponse(TaskInstanceHistoryResponse):
    """A task instance: its present try, and the fields that are the same for all tries."""

    id: UUID
    logical_date: datetime | None
    run_after: datetime
    note: str | None
    rendered_map_index: str | None = None
    rendered_fields: dict[str, Any] | None = None
    trigger: None = None
    triggerer_job: None = None
    detail: str | None
    progress: Annotated[dict[str, int] | None, BeforeValidator(_counts)]
    cost: Annotated[dict[str, float], BeforeValidator(parsed)] | None
    exit_code: int | None


class TaskInstanceCollectionResponse(Shape):
    """A page of task instances. `total_entries` is null for a request with a cursor, which counts nothing."""

    task_instances: Sequence[TaskInstanceResponse]
    total_entries: int | None
    total_entries_limit: int | None = None
    next_cursor: str | None = None
    previous_cursor: str | None = None


class TaskInstanceHistoryCollectionResponse(Shape):
    task_instances: Sequence[TaskInstanceHistoryResponse]
    total_entries: int


class ExtraLinkCollectionResponse(Shape):
    """The link `Spark history`, if a history server is configured and Spark has started."""

    extra_links: dict[str, str | None]
    total_entries: int


class TaskDependencyResponse(Shape):
    name: str
    reason: str


class TaskDependencyCollectionResponse(Shape):
    """The reasons why a task instance has not been started."""

    dependencies: Sequence[TaskDependencyResponse]


def task_instance_response(task: TaskInstance) -> TaskInstanceResponse:
    """Return a task instance under Airflow's names."""
    return TaskInstanceResponse.of(
        task,
        detail=task.detail,
        dag_run_id=task.run_id,
        task_display_name=task.task_id,
        dag_display_name=task.dag_id,
        duration=duration(task.start_date, task.end_date),
        max_tries=task.definition.retries,
        queued_when=task.queued_at,
        scheduled_when=task.queued_at,
    )


def task_collection(page: CursorPage[TaskInstance]) -> TaskInstanceCollectionResponse:
    """Return a page of task instances."""
    return TaskInstanceCollectionResponse(
        task_instances=[task_instance_response(task) for task in page.rows],
        total_entries=page.total,
        next_cursor=page.next,
        previous_cursor=page.previous,
    )


def all_of(tasks: Sequence[TaskInstance]) -> TaskInstanceCollectionResponse:
    """Return a complete list of task instances."""
    return task_collection(CursorPage(rows=tasks, total=len(tasks)))


def try_response(task: TaskInstance, of_run: TryOfRun) -> TaskInstanceHistoryResponse:
    """Return a try under Airflow's names. A past try that reported no end has failed, and so has one that ended `superseding`."""
    past = "failed" if of_run.finish_state in {None, SUPERSEDING} else of_run.finish_state
    is_current = of_run.try_number == task.try_number
    return TaskInstanceHistoryResponse(
        dag_id=task.dag_id,
        task_id=task.task_id,
        map_index=task.map_index,
        dag_run_id=of_run.run_id,
        try_number=of_run.try_number,
        state=task.state if is_current else past,
        start_date=of_run.intent_at,
        end_date=of_run.ended_at,
        duration=duration(of_run.intent_at, of_run.ended_at),
        max_tries=task.definition.retries,
        task_display_name=task.task_id,
        dag_display_name=task.dag_id,
        queued_when=of_run.intent_at,
        scheduled_when=of_run.intent_at,
    )
