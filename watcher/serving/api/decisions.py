"""Decisions of people and tools about jobs and runs. Each is one transaction, which also writes the audit entry."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import HTTPException
from pydantic import Field, model_validator
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.errors import Conflict, NotFound
from store.fates import Fate
from store.processes import audit
from store.runs import jobs, runs
from store.runs.actions import decisions
from store.runs.tries import bad_records, changed_items
from store.values import to_json
from watcher.host.loops import Hint
from watcher.serving.api.context import ApiContext
from watcher.serving.api.parameters import Body, Moment, PartitionKey, Text
from watcher.serving.api.sign_in.auth import Actor
from watcher.serving.api.writes import new_write_id

Note = Annotated[Text, Field(max_length=1000)] | None
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~:+-]{0,249}")
_RESERVED: Final = ("scheduled__", "asset_triggered__", "asset_materialization__", "backfill__")


class RunRequest(Body):
    """A request for a run. `run_after` does not exist here, so only null is accepted for it."""

    dag_run_id: Text | None = Field(default=None, max_length=250)
    data_interval_start: Moment | None = None
    data_interval_end: Moment | None = None
    logical_date: Moment | None = None
    run_after: None = None
    conf: dict[str, Any] | None = None
    note: Note = None
    partition_key: PartitionKey | None = None

    @model_validator(mode="after")
    def _interval_is_complete(self) -> RunRequest:
        if (self.data_interval_start is None) != (self.data_interval_end is None):
            raise ValueError("give both data_interval_start and data_interval_end, or neither")
        return self

    @property
    def data_interval(self) -> tuple[datetime | None, datetime | None]:
        """The interval of the run; without one it is the moment of the logical date, as with Airflow's cron timetables."""
        if self.data_interval_start is None:
            return self.logical_date, self.logical_date
        return self.data_interval_start, self.data_interval_end


async def materialize(context: ApiContext, actor: Actor, asset_id: int, request: RunRequest) -> tuple[str, str]:
    """Create a run of the one job that has the asset as a direct outlet. Return its dag_id and run_id.

    Raise `NotFound` when there is no such job, `Conflict` when there are several, and whatever `trigger` raises.
    """
    async with context.database.reading() as connection:
        around = await assets.jobs_around(connection, [asset_id])
    producers = [job.dag_id for job in around if job.role == "outlet"]
    if not producers:
        raise NotFound(
            f"no job has the asset {asset_id} among its outlets; add it to the outlets of a job, or trigger a job by name"
        )
    if len(producers) > 1:
        raise Conflict(f"several jobs update the asset {asset_id}: {', '.join(producers)}; trigger one of them by name")
    return producers[0], await trigger(context, actor, producers[0], request, run_type="asset_materialization")


class LackingItems(Body):
    """Which items runs may lack that run again although they have succeeded. Their parts of tables then have fewer rows.

    With `dedupe_key` these lack rows as well that other runs left out as duplicates of theirs.
    """

    include_cleaned: bool = False
    """Run again also what lacks files that `clean_source` has deleted since."""
    include_superseded: bool = False
    """Run again also what lacks files of which newer versions have come since."""

    @property
    def include(self) -> Collection[Fate]:
        """The fates of these items."""
        included = {Fate.CLEANED: self.include_cleaned, Fate.SUPERSEDED: self.include_superseded}
        return [fate for fate, is_included in included.items() if is_included]


async def clear(context: ApiContext, actor: Actor, dag_id: str, run_id: str, include: Collection[Fate] = ()) -> None:
    """Clear a run, so that it runs again with the same events, but for items whose fates are in `include`.

    Raises `NotFound`, `Conflict`.
    """
    async with context.database.transaction() as connection:
        await decisions.clear(connection, dag_id, run_id, item_hooks=context.item_hooks, include=include)
        detail = {"run_id": run_id, **({"include": sorted(include)} if include else {})}
        await audit.record(connection, actor.name, "run.clear", dag_id, detail, new_write_id())
    context.hint(Hint(what="tries"))


async def check_clear(
    context: ApiContext, connection: AsyncConnection, dag_id: str, run_id: str, include: Collection[Fate]
) -> None:
    """Raise `Conflict` for a run that has succeeded, and would lack items whose fates are not in `include` if it were cleared."""
    number = (await runs.get(connection, dag_id, run_id)).id
    lacking = await changed_items.lacking(connection, context.item_hooks, [number], include, lock=False)
    if lacking.refused:
        raise await changed_items.refusal(connection, run_id, lacking.refused[number])


async def settle(context: ApiContext, actor: Actor, dag_id: str, run_id: str, state: str) -> None:
    """Cancel a run, or mark it as `success`, `failed` or `skipped`. Raises `NotFound`."""
    async with context.database.transaction() as connection:
        reason, ended = await decisions.settle(connection, dag_id, run_id, state)
        action = "run.cancel" if reason == "cancelled" else "run.mark"
        await audit.record(connection, actor.name, action, dag_id, {"run_id": run_id, "state": state}, new_write_id())
    if ended is not None:
        context.process.metrics.count_end(ended)
    context.hint(Hint(what="tries"))
    context.hint(Hint(what="queues", names=frozenset({dag_id})))


async def resolve(context: ApiContext, actor: Actor, dag_id: str, run_id: str) -> None:
    """Resolve the bad records of a run, if it has any that are unresolved. Raises `NotFound`."""
    async with context.database.transaction() as connection:
        if await bad_records.resolve(connection, dag_id, run_id):
            await audit.record(connection, actor.name, "run.resolve", dag_id, {"run_id": run_id}, new_write_id())


async def annotate(context: ApiContext, actor: Actor, dag_id: str, run_id: str, note: str | None) -> None:
    """Set the note of a run, or remove it. Raises `NotFound`."""
    async with context.database.transaction() as connection:
        await decisions.annotate(connection, dag_id, run_id, note or None)
        await audit.record(connection, actor.name, "run.annotate", dag_id, {"run_id": run_id}, new_write_id())


async def change(context: ApiContext, actor: Actor, dag_id: str, run_id: str, changes: dict[str, Any]) -> None:
    """Apply a request's changes to a run: its `note`, then its `state`. The state `queued` clears the run. Raises `NotFound`, `Conflict`."""
    if "note" in changes:
        await annotate(context, actor, dag_id, run_id, changes["note"])
    if changes.get("state") == "queued":
        await clear(context, actor, dag_id, run_id)
    elif changes.get("state") is not None:
        await settle(context, actor, dag_id, run_id, changes["state"])


async def delete_run(context: ApiContext, actor: Actor, dag_id: str, run_id: str) -> None:
    """Delete a run that is over. Raises `NotFound`, `Conflict`."""
    async with context.database.transaction() as connection:
        await decisions.delete_run(connection, dag_id, run_id)
        await audit.record(connection, actor.name, "run.delete", dag_id, {"run_id": run_id}, new_write_id())


def check_count(count: int, expected: int | None, what: str) -> None:
    """Raise `Conflict` if a filter matches another number than the person saw; None: the person did not say."""
    if expected not in {None, count}:
        raise Conflict(f"{count:,} {what} match now, and not {expected:,}; look again, then give that count")


async def pause(
    context: ApiContext, actor: Actor, dag_ids: Sequence[str], *, paused: bool, expected_count: int | None = None
) -> None:
    """Pause or resume jobs. Events that were queued during the pause are scheduled at once. Raises `NotFound`, `Conflict`."""
    check_count(len(dag_ids), expected_count, "jobs")
    action = "job.pause" if paused else "job.resume"
    async with context.database.transaction() as connection:
        for dag_id in dag_ids:
            await jobs.set_paused(connection, dag_id, paused=paused)
            await audit.record(connection, actor.name, action, dag_id, {}, new_write_id())
    if not paused:
        context.hint(Hint(what="tries"))
        context.hint(Hint(what="queues", names=frozenset(dag_ids)))


async def trigger(context: ApiContext, actor: Actor, dag_id: str, request: RunRequest, run_type: str = "manual") -> str:
    """Create a queued run and return its id. Raises `NotFound`, `Conflict`, `InvalidValue`, or 400 for an invalid id."""
    run_id = _checked(request.dag_run_id) or f"{run_type}__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}"
    conf = to_json(request.conf or {})
    try:
        async with context.database.transaction() as connection:
            job = await jobs.get(connection, dag_id)
            if not job.active:
                raise NotFound(
                    f"the job {dag_id!r} is no longer configured; add it to the configuration again, or trigger another job"
                )
            start, end = request.data_interval
            await runs.create_run(
                connection,
                dag_id,
                run_id,
                job.task_id,
                triggered_by="rest_api",
                run_type=run_type,
                conf=conf,
                note=request.note,
                logical_date=request.logical_date,
                data_interval_start=start,
                data_interval_end=end,
                partition_key=request.partition_key,
            )
            await audit.record(connection, actor.name, "run.trigger", dag_id, {"run_id": run_id}, new_write_id())
    except IntegrityError:
        raise Conflict(
            f"the job {dag_id!r} already has or had a run {run_id!r}; give another dag_run_id, or none"
        ) from None
    context.hint(Hint(what="tries"))
    return run_id


def _checked(run_id: str | None) -> str | None:
    if run_id is None:
        return None
    if not _RUN_ID.fullmatch(run_id) or ".." in run_id:
        raise HTTPException(
            400, f"the dag_run_id {run_id!r} is invalid; use only the characters A-Z a-z 0-9 _ . ~ : + - and no `..`"
        )
    if run_id.startswith(_RESERVED):
        raise HTTPException(
            400, f"the dag_run_id {run_id!r} begins like the ids that the scheduler gives; choose another one"
        )
    return run_id
