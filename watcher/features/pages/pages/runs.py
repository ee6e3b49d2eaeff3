"""The pages of all runs and of one run: its events, progress, tries and writes. Operators retry and cancel it there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from store.database.paging import Range
from store.detection import event_lists
from store.detection.event_lists import EventFilter
from store.features.pages import run_history
from store.features.pages.run_causes import causes_of
from store.keys import TaskInstanceKey
from store.runs import consumption, run_lists, runs
from store.runs.queue.queues import ACTIVE
from store.runs.run_lists import RunFilter
from store.runs.runs import OVER, RunRow
from store.runs.tries import changed_items, task_instances
from store.runs.tries.task_instances import TryOfRun
from store.state import history
from watcher.features.pages import addresses
from watcher.features.pages.forms import Form, go_to
from watcher.features.pages.pages.logs import Line, api_path, tail
from watcher.features.pages.parts import ROWS, Before, ListPart
from watcher.features.pages.pictures.run_strip import run_strip
from watcher.features.pages.rendering import Pages
from watcher.host.page_paths import path
from watcher.serving.api import bulk_decisions
from watcher.serving.api import decisions as api
from watcher.serving.api.bulk_decisions import MOST
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.routes.logs import log_of_try
from watcher.serving.api.shapes.base import parsed
from watcher.serving.api.shapes.task_instances import history_link
from watcher.serving.api.sign_in.auth import Operator

router = APIRouter(prefix="/runs", include_in_schema=False)
_LINES: Final = 40
_LINE: Final = re.compile(r"log line (\d{1,18})\)$")
_MOST: Final = 100
"""Events, values and tries that the page of a run shows at most."""
State = Literal["queued", "running", "success", "failed"]
Text = Annotated[str, Query(max_length=250)]


@dataclass(frozen=True, kw_only=True)
class RunSelection:
    """What the list of runs is filtered by: fields of its address, and of the forms that act on all that matches."""

    state: str | None
    job: str | None
    text: str
    since: str
    until: str

    @property
    def filter(self) -> RunFilter:
        """The runs whose state changed last within the times. Raise 422 for what is no time."""
        changed = Range(gte=_time("since", self.since), lt=_time("until", self.until))
        return RunFilter(
            dag_id=self.job,
            states=None if self.state is None else [self.state],
            text=self.text.strip() or None,
            ranges={"updated_at": changed},
        )

    @property
    def query(self) -> Mapping[str, str]:
        """The fields that are given."""
        return {name: value for name, value in vars(self).items() if value}

    def address(self, state: str | None) -> str:
        """Return the address of the runs that match, but in another state."""
        query = {**self.query, "state": state}
        return path("runs", **query)


@router.get("")
async def all_runs(
    view: Pages,
    before: Before = None,
    state: Annotated[State | None, Query()] = None,
    job: Annotated[str | None, Query(max_length=250)] = None,
    text: Text = "",
    since: Text = "",
    until: Text = "",
) -> Response:
    selection = RunSelection(state=state, job=job, text=text, since=since, until=until)
    few = selection.filter
    async with view.context.database.reading() as connection:
        rows = await run_lists.latest(connection, few, limit=ROWS + 1, before=before)
        causes = await causes_of(connection, rows[:ROWS])
        past = {} if job is None else await run_history.newest_of_jobs(connection, [job])
        clearable = await run_lists.clearable(connection, few, limit=MOST + 1) if state in OVER else []
        lacking = await changed_items.lacking(connection, view.context.item_hooks, clearable, (), lock=False)
    part: ListPart[RunRow] = ListPart.of(rows, lambda run: run.id)
    count = len(clearable) - len(lacking.refused) if len(clearable) <= MOST else 0
    strip = None if job is None else run_strip(past.get(job, ()), datetime.now(UTC))
    return view.page(
        "runs.html",
        runs=part,
        causes=causes,
        before=before,
        selection=selection,
        strip=strip,
        clearable=count,
    )


@router.post("")
async def clear_all_runs(request: Request, context: Context, actor: Operator, form: Form) -> Response:
    """Run all runs again that are over and match the filter, if there are as many as the page showed."""
    few = RunSelection(
        state=form.text("state"),
        job=form.text("job", "") or None,
        text=form.text("text", ""),
        since=form.text("since", ""),
        until=form.text("until", ""),
    )
    await bulk_decisions.clear_all(context, actor, few.filter, form.number("expected_count"))
    return go_to(request, "runs", job=few.job)


def _time(name: str, text: str) -> datetime | None:
    """Return a time as browsers and people write it; without a zone it is UTC."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise HTTPException(422, f"{name} is no time: {text[:40]!r}; write it as 2026-01-31T22:00") from None


@router.get("/{dag_id}/{run_id}")
async def one_run(view: Pages, dag_id: str, run_id: str) -> Response:
    async with view.context.database.reading() as connection:
        run = await runs.get(connection, dag_id, run_id)
        causes = await causes_of(connection, [run])
        tasks = await task_instances.of_run(connection, dag_id, run_id)
        tries = await task_instances.tries_of_run(connection, dag_id, run_id, limit=_MOST)
        consumed = await consumption.events_of_run(connection, dag_id, run_id, limit=_MOST + 1)
        with_source = await consumption.events_with_source(connection, [event.id for event in consumed])
        written = await history.of_run(connection, dag_id, run_id, limit=_MOST + 1)
        emitted = await event_lists.latest(
            connection, EventFilter(source_dag_id=dag_id, source_run_id=run_id), limit=_MOST + 1
        )
    newest = TaskInstanceKey.of(tries[0]) if tries else None
    return view.page(
        "run.html",
        run=run,
        causes=causes,
        tasks=tasks,
        tries=tries,
        consumed=consumed,
        with_source=with_source,
        written=written,
        emitted=emitted,
        most=_MOST,
        is_active=run.state in ACTIVE,
        progress=_progress(tries),
        history=lambda of_run: history_link(view.context.links.spark_history_url, of_run.progress),
        line=_line_of(run.reason),
        lines=[] if newest is None else await _last_lines(view.context, newest, tries[0].try_number),
        around=None,
        api=None if newest is None else api_path(newest, tries[0].try_number),
    )


@router.get("/{dag_id}/{run_id}/line")
async def line_of_failure(request: Request, _view: Pages, context: Context, dag_id: str, run_id: str) -> Response:
    """Go to the line of the log that the run's reason names, or to its last try's log, or to the run."""
    async with context.database.reading() as connection:
        run = await runs.get(connection, dag_id, run_id)
        tries = await task_instances.tries_of_run(connection, dag_id, run_id, limit=1)
    if not tries:
        return go_to(request, "runs", dag_id, run_id)
    of_try = ("runs", dag_id, run_id, "log", tries[0].task_id, tries[0].try_number)
    line = _line_of(run.reason)
    redirect = addresses.root(request) + path(*of_try, line=line) + (f"#{addresses.LINE}" if line else "")
    return RedirectResponse(redirect, 303)


async def _last_lines(context: ApiContext, instance: TaskInstanceKey, try_number: int) -> Sequence[Line]:
    return await tail(context, await log_of_try(context, instance, try_number), _LINES)


def _line_of(reason: str | None) -> str | None:
    """Return the number of the log line in a reason, as `watcher.submit.local.exit_reason` writes it."""
    named = _LINE.search(reason or "")
    return named and named[1]


def _progress(tries: Sequence[TryOfRun]) -> Mapping[str, int] | None:
    """Return the counts of Spark tasks of the newest try, or None before there are any."""
    if not tries or tries[0].progress is None:
        return None
    progress: Mapping[str, int] = parsed(tries[0].progress)
    return progress if progress.get("tasks") else None


@router.post("/{dag_id}/{run_id}/retry")
async def retry(request: Request, context: Context, actor: Operator, dag_id: str, run_id: str) -> Response:
    """Retry the run: its next try consumes the same events."""
    await api.clear(context, actor, dag_id, run_id)
    return go_to(request, "runs", dag_id, run_id)


@router.post("/{dag_id}/{run_id}/resolve")
async def resolve(request: Request, context: Context, actor: Operator, dag_id: str, run_id: str) -> Response:
    await api.resolve(context, actor, dag_id, run_id)
    return go_to(request, "runs", dag_id, run_id)


@router.post("/{dag_id}/{run_id}/cancel")
async def cancel(request: Request, context: Context, actor: Operator, dag_id: str, run_id: str) -> Response:
    await api.settle(context, actor, dag_id, run_id, "failed")
    return go_to(request, "runs", dag_id, run_id)
