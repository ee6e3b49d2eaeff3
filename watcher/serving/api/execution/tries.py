"""`/execution/tries`: a try is claimed once, tells how far it is, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import structlog
from fastapi import APIRouter, Response
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import aliases, assets
from store.catalog.assets import AssetOfJob
from store.detection.event_lists import StoredEvent
from store.keys import Role, TryKey
from store.runs import consumption, jobs, measures, runs, tries
from store.runs.measures import Cost
from watcher.serving import try_tokens
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.execution.finishing import OutletEvent, finish
from watcher.serving.api.execution.identity import Identity, OwnTry, Writing, answered, fenced, renewed
from watcher.serving.api.parameters import BIGGEST, Body, Moment, SmallNumber, Text, example
from watcher.serving.api.shapes.base import JsonObject, Shape

router = APIRouter(prefix="/execution/tries", tags=["Execution: tries"], dependencies=[OwnTry])
log = structlog.get_logger()


class Claim(Body):
    """`nonce`: what the claiming process drew at random; the same one may ask again."""

    model_config = example(nonce="6f1c0c1d3a7e4c6a")

    nonce: Annotated[Text, Field(min_length=1, max_length=64)]


class TryContext(Shape):
    """What a job knows of itself. `inlets` and `outlets` are `{name, uri}` or `{alias}` each."""

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
    triggering_asset_events: Mapping[str, Sequence[StoredEvent]]
    inlets: Sequence[Mapping[str, str]]
    outlets: Sequence[Mapping[str, str]]
    options: Mapping[str, Any]
    worker_backend: Mapping[str, Any] | None
    """`{path, options}` of what keeps values where the job runs."""
    default_retention_days: int
    clear_on_success: bool


Count = Annotated[int, Field(ge=0, le=BIGGEST)]


SHOWN: Final = {"stages", "tasks", "tasks_done", "application_id"}
"""Of a try's progress, what is kept as it is."""


class Progress(Body):
    """Counts of the Spark application as it stands."""

    model_config = example(stages=2, tasks=20, tasks_done=7, rows_read=1000)

    stages: SmallNumber
    tasks: SmallNumber
    tasks_done: SmallNumber
    first_action_at: Moment | None = None
    """When its first job began, by Spark's own clock."""
    application_id: Annotated[Text, Field(max_length=250)] | None = None
    rows_read: Count | None = None
    """By its jobs that have ended, as Spark counts; so the next."""
    bytes_read: Count | None = None
    rows_written: Count | None = None
    bytes_written: Count | None = None

    @property
    def cost(self) -> Cost:
        numbers = self.model_dump(include={"rows_read", "bytes_read", "rows_written", "bytes_written"})
        return Cost(**numbers)


class Finish(Body):
    model_config = example(state="success", outlet_events=[{"asset": "orders", "extra": {"rows": 42}}])

    state: Literal["success", "failed", "skipped"]
    outlet_events: list[OutletEvent] = Field(default_factory=list)
    message: Text | None = None


@router.post("/claim", response_model=TryContext)
async def claim_try(call: Writing, body: Claim, response: Response) -> Response:
    """409 when another process has claimed the try, or it is superseded."""
    async with call.context.database.transaction() as connection:
        held = await tries.claim(connection, call.ref, body.nonce, request=call.request)
        context = await _try_context(call.context, connection, held)
        answer = await answered(connection, call, response, context.model_dump_json())
    log.info("try.claimed", **held.bindings)
    return answer


async def _try_context(context: ApiContext, connection: AsyncConnection, held: TryKey) -> TryContext:
    job = await jobs.get(connection, held.dag_id)
    run = await runs.get(connection, held.dag_id, held.run_id)
    triggering: dict[str, list[StoredEvent]] = {}
    for event in await consumption.events_of_run(connection, held.dag_id, held.run_id):
        triggering.setdefault(event.asset.name, []).append(event)
    around = await assets.around_job(connection, held.dag_id)
    return TryContext(
        **held.json,
        conf=json.loads(run.conf),
        logical_date=run.logical_date,
        data_interval_start=run.data_interval_start,
        data_interval_end=run.data_interval_end,
        triggering_asset_events=triggering,
        inlets=await _named(connection, held.dag_id, around, "inlet"),
        outlets=await _named(connection, held.dag_id, around, "outlet"),
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
    async with call.context.database.transaction() as connection:
        held = await fenced(connection, call)
        await tries.set_progress(connection, held, body.model_dump_json(include=SHOWN, exclude_none=True))
        if body.cost.known:
            await measures.add_cost(connection, held, body.cost)
        first = None
        if body.first_action_at is not None:
            first = await measures.note_first_action(connection, held, body.first_action_at)
    if first is not None:
        call.context.process.metrics.observe_first_action(held.dag_id, first.start, first.since_event, call.trace_id)


class Finished(Shape):
    """It has nothing to say."""


@router.post("/finish", response_model=Finished)
async def finish_try(call: Writing, body: Finish) -> dict[str, Any]:
    """Final, and safe to repeat: the same word again changes nothing."""
    await finish(call, body.state, body.outlet_events, body.message)
    return {}


class RenewedToken(Shape):
    token: str
    expires_at: str


@router.post("/token", response_model=RenewedToken)
async def renew_token(context: Context, identity: Identity) -> dict[str, str]:
    """Writes nothing, so a repetition is just another token: none is kept."""
    async with context.database.transaction() as connection:
        await tries.fence(connection, identity)
    token = renewed(context, identity)
    return {"token": token, "expires_at": try_tokens.verify(context.sign_in.secrets, token).expires_at.isoformat()}
