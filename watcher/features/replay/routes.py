"""`/api/v2/dags/{dag_id}/replay`: stored events of a range of time again, for one job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from fastapi import APIRouter
from pydantic import ConfigDict, Field, model_validator
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.errors import NotFound
from store.fates import Fate
from store.features.replay import replays
from store.features.replay.replays import ReplayCounts
from store.features.replay.selections import ReplayRange
from store.processes import audit
from watcher.host.loops import Hint
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.decisions import LackingItems
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.parameters import Count, Moment, Text
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Actor, Operator
from watcher.serving.api.writes import new_write_id

router = APIRouter(prefix="/api/v2/dags", tags=["DAG"])
ROUTERS: Final = (router,)


class ReplayBody(LackingItems):
    """A request to replay the events from `from` on, before `to`. Without `dry_run: false` it only returns what would follow."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"from": "2026-01-31T00:00:00Z", "to": "2026-02-01T00:00:00Z", "dry_run": True}]
        }
    )

    since: Moment = Field(alias="from")
    until: Moment = Field(alias="to")
    asset: Text | None = None
    partition: Text | None = None
    include_dropped: bool = False
    dry_run: bool = True
    expected_count: Count | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> ReplayBody:
        if self.since >= self.until:
            raise ValueError("`from` must be earlier than `to`, which is exclusive")
        return self


class ForgottenResponse(Shape):
    """Events that runs consumed which the clean-up has removed, by what these had made of them."""

    loaded: int
    failed: int
    unknown: int


class ReplayResponse(Shape):
    """What a replay does, or with `dry_run` would do, counted in events.

    `expected_count` is `queued` and `cleared` together. `outside_range` are further events of the runs that are cleared.
    `cleaned` counts the files among these that `clean_source` has deleted, `superseded` those that newer versions of their paths supersede (of
    events that wait, the first 1,000 are looked at). Runs that have succeeded and lack such files are not cleared, unless
    `include_cleaned` or `include_superseded` is given; all others go without them. `waiting`, `running` and `dropped` are left alone, and `forgotten` unless `include_dropped` is given: then these are among
    `queued`. `fates` counts all events of the range by what became of them at the job until now. `stored_since` is the time of
    the oldest event that is still stored.
    """

    dag_id: str
    replay_id: int | None
    dry_run: bool
    expected_count: int
    queued: int
    cleared: int
    cleared_runs: int
    outside_range: int
    waiting: int
    running: int
    dropped: int
    cleaned: int
    superseded: int
    forgotten: ForgottenResponse
    fates: dict[Fate, int]
    stored_since: datetime | None
    jobs_behind: Sequence[str]


@router.post("/{dag_id}/replay", responses=MAY_CONFLICT)
async def replay(context: Context, actor: Operator, dag_id: str, body: ReplayBody) -> ReplayResponse:
    """Replay stored events: those that the job never consumed are queued for it, and runs that consumed the others are cleared.

    No event is consumed by two runs. Events that were taken off the queue, or whose run was deleted or is past its retention, are
    left out, unless `include_dropped` is given: then they are consumed once more. 409 means another count than `expected_count`, or a replay
    that goes on.
    """
    return await carry_out(context, actor, dag_id, body)


async def carry_out(context: ApiContext, actor: Actor, dag_id: str, body: ReplayBody) -> ReplayResponse:
    """Begin a replay, or count what it would do. Raises `NotFound`, `Conflict`."""
    if body.dry_run:
        async with context.database.reading() as connection:
            counts = await replays.count(connection, await _range(connection, dag_id, body), context.item_hooks)
        return _response(dag_id, None, counts)
    async with context.database.transaction() as connection:
        which = await _range(connection, dag_id, body)
        replay_id, counts = await replays.begin(
            connection, which, context.item_hooks, actor=actor.name, expected_count=body.expected_count
        )
        detail = {
            "replay_id": replay_id,
            "from": body.since.isoformat(),
            "to": body.until.isoformat(),
            "asset": body.asset,
            "partition": body.partition,
        }
        more = {"include_dropped": body.include_dropped, "events": counts.expected}
        lacking = {"include": sorted(body.include)} if body.include else {}
        await audit.record(connection, actor.name, "job.replay", dag_id, {**detail, **more, **lacking}, new_write_id())
    context.hint(Hint(what="queues", names=frozenset({dag_id})))
    return _response(dag_id, replay_id, counts)


def _response(dag_id: str, replay_id: int | None, counts: ReplayCounts) -> ReplayResponse:
    return ReplayResponse.of(
        counts,
        dag_id=dag_id,
        replay_id=replay_id,
        dry_run=replay_id is None,
        expected_count=counts.expected,
        cleaned=counts.lacking.get(Fate.CLEANED, 0),
        superseded=counts.lacking.get(Fate.SUPERSEDED, 0),
    )


async def _range(connection: AsyncConnection, dag_id: str, body: ReplayBody) -> ReplayRange:
    ids = {} if body.asset is None else await assets.ids_by_name(connection)
    if body.asset is not None and body.asset not in ids:
        raise NotFound(f"there is no asset {body.asset!r}; `watcher assets list` shows the assets")
    return ReplayRange(
        dag_id=dag_id,
        since=body.since,
        until=body.until,
        asset_id=None if body.asset is None else ids[body.asset],
        partition=body.partition,
        include_dropped=body.include_dropped,
        include_items=[*body.include],
    )
