"""`/execution/tries`: a try is claimed once, reports its progress, and reports its end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Response
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, assets
from store.catalog.assets import AssetOfJob
from store.detection.event_lists import StoredEvent
from store.keys import Role, TryKey
from store.runs import consumption, jobs, measures, runs
from store.runs.measures import Cost
from store.runs.tries import changed_items, renewals, tries
from watcher.serving import try_tokens
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.execution.finishing import Finish, finish
from watcher.serving.api.execution.identity import Identity, OwnTry, Writing, fenced, renewed, stored_answer
from watcher.serving.api.parameters import Body, Count, Moment, SmallNumber, Text, example
from watcher.serving.api.shapes.base import JsonObject, Shape

router = APIRouter(prefix="/execution/tries", tags=["Execution: tries"], dependencies=[OwnTry])
log = structlog.get_logger()


class Claim(Body):
    """A claim of a try. `nonce`: a random text of the claiming process, which may repeat its claim with the same text."""

    model_config = example(nonce="6f1c0c1d3a7e4c6a")

    nonce: Annotated[Text, Field(min_length=1, max_length=64)]


class TryContext(Shape):
    """The context of a try for its job. `inlets` and `outlets` are lists of `{name, uri}` or `{alias}`."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    task_instance_id: str
    conf: JsonObject
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    partition_key: str | None
    partition_complete: bool | None
    late: bool
    redelivered: bool
    triggering_asset_events: Mapping[str, Sequence[StoredEvent]]
    """The events, without files that are left out, and with the new places of files that were moved."""
    left_out: Mapping[str, Sequence[JsonObject]]
    """The files that are left out, as their events describe them, by what became of them: `cleaned` or `superseded`."""
    inlets: Sequence[Mapping[str, str]]
    outlets: Sequence[Mapping[str, str]]
    options: Mapping[str, Any]
    worker_backend: Mapping[str, Any] | None
    """`{path, options}` of the backend that keeps values where the job runs."""
    default_retention_days: int
    clear_on_success: bool


STORED_PROGRESS: Final = {"stages", "tasks", "tasks_done", "application_id"}
"""The members of `Progress` that are stored as reported."""


class Progress(Body):
    """The present counts of the Spark application."""

    model_config = example(stages=2, tasks=20, tasks_done=7, rows_read=1000)

    stages: SmallNumber
    tasks: SmallNumber
    tasks_done: SmallNumber
    first_action_at: Moment | None = None
    """The time when the first Spark job began, by Spark's own clock."""
    application_id: Annotated[Text, Field(max_length=250)] | None = None
    rows_read: Count | None = None
    """Rows that the ended Spark jobs have read, as Spark counts them. The next three counts are of the ended jobs as well."""
    bytes_read: Count | None = None
    rows_written: Count | None = None
    bytes_written: Count | None = None

    @property
    def cost(self) -> Cost:
        return Cost(
            rows_read=self.rows_read,
            bytes_read=self.bytes_read,
            rows_written=self.rows_written,
            bytes_written=self.bytes_written,
        )


@router.post("/claim", response_model=TryContext)
async def claim_try(call: Writing, body: Claim, response: Response) -> Response:
    """Claim the try and return its context. 409 means that another process has claimed it, or that it is superseded."""
    async with call.context.database.transaction() as connection:
        try_key = await tries.claim(connection, call.ref, body.nonce, request=call.request)
        context = await _try_context(call.context, connection, try_key)
        answer = await stored_answer(connection, call, response, context.model_dump_json())
    log.info("try.claimed", **try_key.bindings)
    return answer


async def _try_context(context: ApiContext, connection: AsyncConnection, try_key: TryKey) -> TryContext:
    job = await jobs.get(connection, try_key.dag_id)
    run = await runs.get(connection, try_key.dag_id, try_key.run_id)
    triggering: dict[str, list[StoredEvent]] = {}
    left_out: dict[str, list[Mapping[str, Any]]] = {}
    changed = await changed_items.of_try(connection, try_key)
    for event in await consumption.events_of_run(connection, try_key.dag_id, try_key.run_id):
        for fate, file in changed.left_out_of(event.id, event.extra):
            left_out.setdefault(fate, []).append(file)
        of_try = replace(event, extra=changed.applied(event.id, event.extra))
        triggering.setdefault(event.asset.name, []).append(of_try)
    around = await assets.around_job(connection, try_key.dag_id)
    return TryContext(
        dag_id=try_key.dag_id,
        run_id=try_key.run_id,
        task_id=try_key.task_id,
        map_index=try_key.map_index,
        try_number=try_key.try_number,
        task_instance_id=try_key.task_instance_id,
        conf=json.loads(run.conf),
        logical_date=run.logical_date,
        data_interval_start=run.data_interval_start,
        data_interval_end=run.data_interval_end,
        partition_key=run.partition_key,
        partition_complete=run.partition_complete,
        late=run.late,
        redelivered=run.redelivered,
        triggering_asset_events=triggering,
        left_out=left_out,
        inlets=await _named(connection, try_key.dag_id, around, "inlet"),
        outlets=await _named(connection, try_key.dag_id, around, "outlet"),
        options=job.definition.options,
        worker_backend=context.jobs.worker_backend,
        default_retention_days=context.limits.default_retention_days,
        clear_on_success=context.jobs.clear_on_success,
    )


async def _named(
    connection: AsyncConnection, dag_id: str, around: Sequence[AssetOfJob], role: Role
) -> Sequence[Mapping[str, str]]:
    return [
        *({"name": asset.name, "uri": asset.uri} for asset in around if asset.role == role),
        *({"alias": alias} for alias in await aliases.of_job(connection, dag_id, {role})),
    ]


@router.post("/progress", status_code=204)
async def report_progress(call: Writing, body: Progress) -> None:
    """Report the progress and the costs of the try."""
    async with call.context.database.transaction() as connection:
        try_key = await fenced(connection, call)
        await tries.set_progress(connection, try_key, body.model_dump_json(include=STORED_PROGRESS, exclude_none=True))
        if body.cost.known:
            await measures.add_cost(connection, try_key, body.cost)
        first = None
        if body.first_action_at is not None:
            first = await measures.note_first_action(connection, try_key, body.first_action_at)
    if first is not None:
        call.context.process.metrics.observe_first_action(try_key.dag_id, first.start, first.since_event, call.trace_id)


class Finished(Shape):
    """An empty answer."""


@router.post("/finish", response_model=Finished)
async def finish_try(call: Writing, body: Finish) -> dict[str, Any]:
    """Report the end of the try. It is final, and repeating the same report changes nothing."""
    await finish(call, body)
    return {}


class Renewal(Body):
    """A renewal. `holder`: a random text of the container that asks, which must repeat it."""

    model_config = example(holder="6f1c0c1d3a7e4c6a")

    holder: Annotated[Text, Field(min_length=1, max_length=64)] | None = None


class RenewedTry(Shape):
    token: str


@router.post("/renewal", response_model=RenewedTry)
async def renew_try(context: Context, identity: Identity, body: Renewal | None = None) -> dict[str, str]:
    """Renew the right to run of a driver on another machine, and return its next token.

    The first answer grants the right, to this holder alone. 409 means that the driver must end, or may not start: with the
    reason `held` another container of the try was granted the right.
    """
    async with context.database.statements() as connection:
        await renewals.renew(connection, identity, identity.first, body.holder if body else None)
    return {"token": renewed(context, identity)}


class RenewedToken(Shape):
    token: str
    expires_at: str


@router.post("/token", response_model=RenewedToken)
async def renew_token(context: Context, identity: Identity) -> dict[str, str]:
    """Return a new token for the try. Nothing is written: a repeated request returns another token."""
    async with context.database.transaction() as connection:
        await tries.fence(connection, identity)
    token = renewed(context, identity)
    return {"token": token, "expires_at": try_tokens.verify(context.sign_in.secrets, token).expires_at.isoformat()}
