"""The page of a job: its schedule, what it waits for, and its runs. People pause, resume, start and replay it there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.database.paging import PageRequest
from store.features.pages import run_history
from store.features.pages.run_causes import causes_of
from store.runs import consumption, jobs, run_lists
from store.runs.queue import kept_events
from store.runs.run_lists import RunFilter
from store.runs.runs import RunRow
from watcher.features.pages.forms import Form, go_to
from watcher.features.pages.parts import FEW, ROWS, ListPart
from watcher.features.pages.pictures.partitions import MOST, LastPartitions, last_partitions
from watcher.features.pages.pictures.run_strip import run_strip
from watcher.features.pages.rendering import Pages, View
from watcher.features.pages.words import in_utc
from watcher.features.replay.routes import ReplayBody, ReplayResponse, carry_out
from watcher.host.page_paths import path
from watcher.scheduling.planning.base import Planners, WaitingPartition
from watcher.serving.api import decisions as api
from watcher.serving.api.context import Context
from watcher.serving.api.parameters import Offset
from watcher.serving.api.routes.job_queues import QueueDecisionBody, decide
from watcher.serving.api.shapes.dags import dag_response
from watcher.serving.api.sign_in.auth import Operator
from watcher.serving.api.waiting import WaitingJob, waiting_jobs

router = APIRouter(prefix="/jobs/{dag_id}", include_in_schema=False)


@router.get("")
async def one_job(view: Pages, dag_id: str, partitions: Offset = 0) -> Response:
    """Show a job, and those of its partitions that wait from this place of their list on."""
    return await _page(view, dag_id, partitions=partitions)


async def _page(
    view: View,
    dag_id: str,
    replay: ReplayResponse | None = None,
    fields: Mapping[str, str] | None = None,
    partitions: int = 0,
) -> Response:
    """Return the job's page; with a `replay` that was counted from the `fields` of its form."""
    window = PageRequest(limit=ROWS, offset=partitions)
    async with view.context.database.reading() as connection:
        job = await jobs.get(connection, dag_id)
        around = await assets.around_job(connection, dag_id)
        unprocessed = await consumption.unprocessed_of_jobs(connection, [dag_id])
        (waiting,) = await waiting_jobs(connection, [job], view.context.planners, window)
        has_kept = any(not waiting.is_awaited(queue) for queue in waiting.queues)
        kept = await kept_events.count(connection, dag_id) if has_kept else 0
        rows = await run_lists.latest(connection, RunFilter(dag_id=dag_id), limit=FEW + 1)
        causes = await causes_of(connection, rows[:FEW])
        past = await run_history.newest_of_jobs(connection, [dag_id])
        last = None
        if job.definition.batch.mode == "per_partition":
            last = await _last_partitions(connection, view.context.planners, waiting)
    part: ListPart[RunRow] = ListPart.of(rows, lambda run: run.id, FEW)
    return view.page(
        "job.html",
        job=job,
        shown=dag_response(job, unprocessed),
        around=around,
        waiting=waiting,
        partitions=partitions,
        last_partitions=last,
        kept=kept,
        runs=part,
        causes=causes,
        strip=run_strip(past.get(dag_id, ()), datetime.now(UTC)),
        replay=replay,
        fields=fields or {},
    )


async def _last_partitions(connection: AsyncConnection, planners: Planners, waiting: WaitingJob) -> LastPartitions:
    """Read the newest of the partitions that wait, and the newest run of those that had one."""
    dag_id, total = waiting.job.dag_id, waiting.partitions.total
    newest = await run_history.newest_of_partitions(connection, dag_id, limit=MOST)
    queued: Sequence[WaitingPartition] = ()
    if total:
        window = PageRequest(limit=MOST, offset=max(total - MOST, 0))
        of_job = await planners.waiting(connection, {dag_id: waiting.job.definition}, window)
        queued = of_job[dag_id].shown if dag_id in of_job else ()
    source = path("assets", waiting.queues[0].asset_id) if waiting.queues else path("jobs", dag_id)
    return last_partitions(dag_id, newest, queued, source)


@router.post("/pause")
async def pause(request: Request, context: Context, actor: Operator, dag_id: str) -> Response:
    await api.pause(context, actor, [dag_id], paused=True)
    return go_to(request, "jobs", dag_id)


@router.post("/resume")
async def resume(request: Request, context: Context, actor: Operator, dag_id: str) -> Response:
    await api.pause(context, actor, [dag_id], paused=False)
    return go_to(request, "jobs", dag_id)


@router.post("/start")
async def start(request: Request, context: Context, actor: Operator, dag_id: str, form: Form) -> Response:
    """Start a run by hand, with a `conf` if one is given."""
    run_id = await api.trigger(context, actor, dag_id, api.RunRequest(conf=_conf(form.text("conf", ""))))
    return go_to(request, "runs", dag_id, run_id)


@router.post("/queue")
async def decide_on_queue(request: Request, context: Context, actor: Operator, dag_id: str, form: Form) -> Response:
    """Run or drop the queued events that the schedule does not wait for, if there are as many as the page showed."""
    action, count = form.text("action"), form.number("expected_count")
    if action not in {"run", "drop"}:
        raise HTTPException(422, f"action is neither run nor drop: {action[:40]!r}")
    await decide(
        context, actor, dag_id, QueueDecisionBody(action="run" if action == "run" else "drop", expected_count=count)
    )
    return go_to(request, "jobs", dag_id)


@router.get("/replay")
async def preview_replay(request: Request, view: Pages, actor: Operator, dag_id: str) -> Response:
    """Show what a replay would do. Nothing changes."""
    fields = dict(request.query_params)
    counted = await carry_out(view.context, actor, dag_id, _replay_body(fields))
    return await _page(view, dag_id, counted, fields)


@router.post("/replay")
async def begin_replay(request: Request, context: Context, actor: Operator, dag_id: str, form: Form) -> Response:
    """Begin a replay, after a preview that counted the same."""
    body = _replay_body(form.fields, dry_run=False, expected_count=form.number("expected_count"))
    await carry_out(context, actor, dag_id, body)
    return go_to(request, "jobs", dag_id)


def _replay_body(fields: Mapping[str, str], **more: Any) -> ReplayBody:
    asset = fields.get("asset", "").strip() or None
    given = {"from": in_utc(fields.get("from", "")), "to": in_utc(fields.get("to", "")), "asset": asset}
    try:
        return ReplayBody.model_validate({**given, "include_dropped": "include_dropped" in fields, **more})
    except ValidationError as error:
        place, sentence = error.errors()[0]["loc"], error.errors()[0]["msg"]
        raise HTTPException(422, f"{' '.join(map(str, place)) or 'the range'}: {sentence}") from None


def _conf(text: str) -> dict[str, Any]:
    try:
        conf = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise HTTPException(422, f"the conf is not JSON ({error}); give a JSON object") from None
    except RecursionError:
        raise HTTPException(422, "the conf is nested too deeply; use fewer levels") from None
    if not isinstance(conf, dict):
        raise HTTPException(422, 'the conf must be a JSON object, such as {"day": "2026-01-31"}')
    return conf
