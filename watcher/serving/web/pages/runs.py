"""The runs of all jobs, and one run: what it consumed, how it goes, what it wrote, and what operators do to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from store.detection import event_lists
from store.detection.event_lists import EventFilter
from store.keys import TaskInstanceKey
from store.runs import consumption, runs, task_instances
from store.runs.queues import ACTIVE
from store.runs.runs import RunRow
from store.runs.task_instances import TryOfRun
from store.state import history
from watcher.serving.api import decisions as api
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.routes.logs import log_of_try
from watcher.serving.api.shapes.base import parsed
from watcher.serving.api.shapes.task_instances import history_link
from watcher.serving.api.sign_in.auth import Operator
from watcher.serving.web.forms import go_to
from watcher.serving.web.pages.logs import api_path, tail
from watcher.serving.web.parts import ROWS, Before, Part
from watcher.serving.web.rendering import Pages

router = APIRouter(prefix="/runs", include_in_schema=False)
_LINES: Final = 40
_LINE: Final = re.compile(r"log line (\d{1,18})\)$")
_MOST: Final = 100
"""Events, values and tries that the page of a run shows."""
State = Literal["queued", "running", "success", "failed"]


@router.get("")
async def all_runs(
    view: Pages,
    before: Before = None,
    state: Annotated[State | None, Query()] = None,
    job: Annotated[str | None, Query(max_length=250)] = None,
) -> Response:
    states = None if state is None else [state]
    async with view.context.database.reading() as connection:
        rows = await runs.latest(connection, limit=ROWS + 1, before=before, dag_id=job, states=states)
    part: Part[RunRow] = Part.of(rows, lambda run: run.id)
    return view.page("runs.html", runs=part, before=before, state=state, job=job)


@router.get("/{dag_id}/{run_id}")
async def one_run(view: Pages, dag_id: str, run_id: str) -> Response:
    async with view.context.database.reading() as connection:
        run = await runs.get(connection, dag_id, run_id)
        tasks = await task_instances.of_run(connection, dag_id, run_id)
        tries = await task_instances.tries_of_run(connection, dag_id, run_id, limit=_MOST)
        consumed = await consumption.events_of_run(connection, dag_id, run_id, limit=_MOST + 1)
        with_source = await consumption.events_with_source(connection, [event.id for event in consumed])
        written = await _written(connection, dag_id, run_id)
    log = {} if not tries else await _log(view.context, tries[0])
    values = {
        "run": run,
        "tasks": tasks,
        "tries": tries,
        "consumed": consumed[:_MOST],
        "with_source": with_source,
        **written,
        **log,
    }
    return view.page(
        "run.html",
        is_active=run.state in ACTIVE,
        has_more=len(consumed) > _MOST,
        progress=_progress(tries),
        history=lambda one_try: history_link(view.context.links.spark_history_url, one_try.progress),
        line=_line_of(run.reason),
        **values,
    )


async def _written(connection: AsyncConnection, dag_id: str, run_id: str) -> Mapping[str, Any]:
    """Store entries and outlet events."""
    of_run = EventFilter(source_dag_id=dag_id, source_run_id=run_id)
    return {
        "written": await history.of_run(connection, dag_id, run_id, limit=_MOST),
        "emitted": await event_lists.latest(connection, of_run, limit=_MOST),
    }


async def _log(context: ApiContext, newest: TryOfRun) -> Mapping[str, Any]:
    instance = TaskInstanceKey.of(newest)
    lines = await tail(context, await log_of_try(context, instance, newest.try_number), _LINES)
    return {"lines": lines, "around": None, "api": api_path(instance, newest.try_number)}


def _line_of(reason: str | None) -> str | None:
    """The number of the log line that a reason names, as `watcher.submit.local.exit_reason` writes them."""
    named = _LINE.search(reason or "")
    return named and named[1]


def _progress(tries: Sequence[TryOfRun]) -> Mapping[str, int] | None:
    """Spark's tasks of the newest try: how many there are, and how many are done."""
    if not tries or tries[0].progress is None:
        return None
    progress: Mapping[str, int] = parsed(tries[0].progress)
    return progress if progress.get("tasks") else None


@router.post("/{dag_id}/{run_id}/retry")
async def retry(request: Request, context: Context, actor: Operator, dag_id: str, run_id: str) -> Response:
    """The same run with the same events, by its next try."""
    await api.clear(context, actor, dag_id, run_id)
    return go_to(request, "runs", dag_id, run_id)


@router.post("/{dag_id}/{run_id}/cancel")
async def cancel(request: Request, context: Context, actor: Operator, dag_id: str, run_id: str) -> Response:
    await api.settle(context, actor, dag_id, run_id, "failed")
    return go_to(request, "runs", dag_id, run_id)
