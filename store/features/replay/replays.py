"""Replays: stored events that a job gets again, or for the first time, without any event being consumed by two of its runs.

Events that the job never consumed are queued for it. Runs that consumed the others are cleared. A replay is a row with a
boundary. It is carried out in steps, each a short transaction under the job's lock that also moves the row on: whatever is
killed, nothing is done twice or left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import (
    bindparam,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import edges_of_jobs, open_steps
from store.database import configuration_lock
from store.database.schema import asset_event, database_now, job, queued_event, run, run_asset_event
from store.detection import filters
from store.errors import Conflict, NotFound
from store.fates import LEFT_OUT, Fate
from store.features.replay import filters as replay_filters
from store.features.replay import selections
from store.features.replay.selections import ReplayRange
from store.features.replay.tables import replay
from store.keys import Condition
from store.references import ONLY_PLAIN, UNDECIDED, has_where
from store.runs.actions import decisions
from store.runs.fates import PlaceAtJob
from store.runs.tries import changed_items
from store.runs.tries.changed_items import ItemHooks, Lacking

FEATURE: Final = "replay"
"""The name under which its steps are open."""
EVENTS_AT_ONCE: Final = 10_000
RUNS_AT_ONCE: Final = 1_000
"""The most events that are queued, and runs that are cleared, in one transaction."""

_e, _q, _r, _p, _j = asset_event.c, queued_event.c, run_asset_event.c, replay.c, job.c


@dataclass(frozen=True, kw_only=True)
class ForgottenEvents:
    """Events that runs consumed which the clean-up has removed, by what these had made of them."""

    loaded: int
    failed: int
    unknown: int
    """Their runs were removed before outcomes were recorded."""


@dataclass(frozen=True, kw_only=True)
class ReplayCounts:
    """What a replay does and what it leaves alone, counted in events unless the name says runs."""

    queued: int
    """Never consumed: they are queued. With `include_dropped` the dropped and the forgotten ones are among them."""
    cleared: int
    """Consumed by runs that are over: these are cleared."""
    cleared_runs: int
    outside_range: int
    """Further events of the cleared runs, which run again with them."""
    waiting: int
    running: int
    dropped: int
    """Left out: taken off the queue, or consumed by a run that a person deleted."""
    forgotten: ForgottenEvents
    """Consumed by runs that the clean-up has removed: left out, or with `include_dropped` among the queued ones."""
    lacking: Mapping[Fate, int]
    """The items of the range that are gone, by their fates, or of runs that have events of it. Runs go without them."""
    fates: Mapping[Fate, int]
    """All events of the range, by what became of them at the job until now; without fates that none has."""
    stored_since: datetime | None
    """The time of the oldest event of these assets that is still stored; None: there is none."""
    jobs_behind: Sequence[str]
    """The jobs that wait for what the job writes: they run again, too."""

    @property
    def expected(self) -> int:
        return self.queued + self.cleared


async def count(connection: AsyncConnection, which: ReplayRange, item_hooks: ItemHooks) -> ReplayCounts:
    """Count what a replay would do now. Raises `NotFound`, `Conflict`."""
    schedule = await _check(connection, which)
    place = selections.places(which).subquery()
    counted = select(place.c.place, func.count().label("events")).group_by(place.c.place)
    events = Counter({PlaceAtJob.of_text(row.place): row.events for row in await connection.execute(counted)})
    taken: Mapping[PlaceAtJob, int] = {each: events[each] for each in selections.queueable(which)}
    if has_where(schedule):
        taken = await replay_filters.count(connection, selections.places(which), [*taken], schedule)
    cleared = select(run.c.id).where(selections.cleared(which, 0, None))
    lacking = await _lacking(connection, which, item_hooks)
    left_out = await selections.count_events(connection, which, lacking.refused)
    of_runs = (
        select(func.count()).select_from(run_asset_event.join(run, selections.RUN_OF)).where(run.c.id.in_(cleared))
    )
    all_events = (await connection.execute(of_runs)).scalar_one() - left_out.all
    oldest = select(func.min(_e.timestamp, type_=_e.timestamp.type)).where(_e.asset_id.in_(selections.assets_of(which)))
    in_runs = Counter({each.fate: number for each, number in events.items() if each.in_place == "run"})
    over = in_runs[Fate.LOADED] + in_runs[Fate.FAILED] - left_out.in_range
    fates = Counter[Fate]()
    for each, number in events.items():
        fates[each.fate] += number
    again = taken if which.include_dropped else events
    loaded, failed, unknown = (again[each] for each in selections.FORGOTTEN)
    return ReplayCounts(
        queued=sum(taken.values()),
        cleared=over,
        cleared_runs=(await connection.execute(select(func.count()).select_from(cleared.subquery()))).scalar_one()
        - len(lacking.refused),
        outside_range=all_events - over,
        waiting=events[PlaceAtJob("queue", Fate.QUEUED)],
        running=in_runs[Fate.QUEUED] + in_runs[Fate.RUNNING],
        dropped=sum(events[each] - taken.get(each, 0) for each in selections.DROPPED),
        forgotten=ForgottenEvents(loaded=loaded, failed=failed, unknown=unknown),
        lacking=lacking.counts,
        fates=fates,
        stored_since=(await connection.execute(oldest)).scalar_one(),
        jobs_behind=(await connection.execute(selections.behind(which.dag_id))).scalars().all(),
    )


async def _lacking(connection: AsyncConnection, which: ReplayRange, item_hooks: ItemHooks) -> Lacking:
    """Return which runs are not cleared because they have succeeded and would lack items, and how many items are gone at all."""
    if not await item_hooks.are_interested(connection):
        return Lacking()
    cleared = (await connection.execute(select(run.c.id).where(selections.cleared(which, 0, None)))).scalars().all()
    of_runs = await changed_items.lacking(connection, item_hooks, cleared, which.include_items, lock=False)
    others = selections.places(which).subquery()
    queueable = [each.text for each in selections.queueable(which)]
    of_queued = await item_hooks.count(connection, select(others.c.id).where(others.c.place.in_(queueable)))
    left_out = {fate: number for fate, number in of_queued.items() if fate in LEFT_OUT}
    return Lacking(refused=of_runs.refused, counts=Counter(of_runs.counts) + Counter(left_out))


async def begin(
    connection: AsyncConnection, which: ReplayRange, item_hooks: ItemHooks, *, actor: str, expected_count: int | None
) -> tuple[int, ReplayCounts]:
    """Record a replay with its boundary; return its id. Raises `NotFound`, and `Conflict` for another count or a second replay.

    Nobody appends events meanwhile, and nobody makes runs of the job: later events and runs are no part of it.
    """
    await configuration_lock.exclude(connection)
    await connection.execute(select(_j.dag_id).where(_j.dag_id == which.dag_id).with_for_update(key_share=True))
    steps = await open_steps.of_job(connection, which.dag_id)
    if steps.keys() - {FEATURE}:
        raise Conflict(f"the job {which.dag_id!r} catches up with its events; retry when it has them all")
    if steps:
        goes_on = (await connection.execute(_GOES_ON, {"b_dag_id": which.dag_id})).one()
        raise Conflict(f"the replay {goes_on.id} of the job {which.dag_id!r} goes on; retry when it is finished")
    counts = await count(connection, which, item_hooks)
    if expected_count is not None and counts.expected != expected_count:
        raise Conflict(
            f"the replay is of {counts.expected} events now, not of {expected_count}; look at the preview again, and "
            "give its expected_count"
        )
    last_run = select(func.coalesce(func.max(run.c.id), 0)).where(run.c.dag_id == which.dag_id).scalar_subquery()
    last_event = select(func.coalesce(func.max(_e.id), 0)).scalar_subquery()
    new = insert(replay).values(
        dag_id=which.dag_id,
        asset_id=which.asset_id,
        partition_key=which.partition,
        from_at=which.since,
        to_at=which.until,
        include_dropped=which.include_dropped,
        include_items=json.dumps(sorted(which.include_items)) if which.include_items else None,
        expected_count=counts.expected,
        last_event=last_event,
        last_run=last_run,
        actor=actor,
        created_at=database_now(),
    )
    made: int = (await connection.execute(new.returning(_p.id))).scalar_one()
    await open_steps.open_(connection, which.dag_id, FEATURE, while_paused=True)
    return made, counts


_GOES_ON: Final = (
    select(replay, _j.definition)
    .join(job, _j.dag_id == _p.dag_id)
    .where(_p.dag_id == bindparam("b_dag_id"), _p.finished_at.is_(None))
)


async def advance(connection: AsyncConnection, dag_id: str, item_hooks: ItemHooks) -> bool:
    """Carry out the next step of the replay of a locked job, or finish it; return False if none goes on."""
    row = (await connection.execute(_GOES_ON, {"b_dag_id": dag_id})).one_or_none()
    if row is None:
        return False
    which = ReplayRange(
        dag_id=row.dag_id,
        since=row.from_at,
        until=row.to_at,
        asset_id=row.asset_id,
        partition=row.partition_key,
        include_dropped=row.include_dropped,
        include_items=[Fate(fate) for fate in json.loads(row.include_items or "[]")],
    )
    this = update(replay).where(_p.id == row.id)
    filtered = has_where(row.definition.schedule)
    if events := await _queue(connection, which, row.at_event, row.last_event, filtered=filtered):
        queued = len(await filters.decide(connection, events)) if filtered else len(events)
        if which.include_dropped:
            await decisions.admit_again(connection, which.dag_id, events)
        await connection.execute(this.values(at_event=events[-1], queued_events=_p.queued_events + queued))
        return True
    runs, cleared = await _clear(connection, which, row.at_run, row.last_run, item_hooks)
    if runs:
        await connection.execute(this.values(at_run=runs[-1], cleared_runs=_p.cleared_runs + cleared))
        return True
    await connection.execute(this.values(finished_at=database_now()))
    await open_steps.close(connection, dag_id, FEATURE)
    return True


async def _queue(
    connection: AsyncConnection, which: ReplayRange, after: int, last: int, *, filtered: bool
) -> Sequence[int]:
    """Queue the next events that the job never consumed."""
    place = selections.places(which).subquery()
    queueable = [each.text for each in selections.queueable(which)]
    satisfies = literal(UNDECIDED if filtered else ONLY_PLAIN)
    some = select(literal(which.dag_id), place.c.id, place.c.asset_id, database_now(), place.c.partition_key, satisfies)
    some = some.where(place.c.place.in_(queueable), place.c.id > after, place.c.id <= last)
    some = some.order_by(place.c.id).limit(EVENTS_AT_ONCE)
    names = ["dag_id", "event_id", "asset_id", "created_at", "partition_key", "satisfies"]
    rows = await connection.execute(insert(queued_event).from_select(names, some).returning(_q.event_id))
    return sorted(rows.scalars())


async def _clear(
    connection: AsyncConnection, which: ReplayRange, after: int, last: int, item_hooks: ItemHooks
) -> tuple[Sequence[int], int]:
    """Clear the next runs that are over; return the runs that were looked at, and how many were cleared."""
    some = select(run.c.id).where(selections.cleared(which, after, last)).order_by(run.c.id).limit(RUNS_AT_ONCE)
    ids = (await connection.execute(some)).scalars().all()
    if not ids:
        return ids, 0
    cleared = await decisions.clear_over(connection, ids, item_hooks=item_hooks, include=which.include_items)
    return ids, cleared.runs


async def _check(connection: AsyncConnection, which: ReplayRange) -> Condition | None:
    """Return what the job waits for."""
    row = (await connection.execute(select(_j.definition).where(_j.dag_id == which.dag_id, _j.active))).one_or_none()
    if row is None:
        raise NotFound(f"no job {which.dag_id!r} is configured; correct the name, or add the job to the configuration")
    assets = (await connection.execute(edges_of_jobs.awaited_assets(which.dag_id))).scalars().all()
    if not assets:
        raise Conflict(f"the job {which.dag_id!r} waits for no asset, so there is nothing to replay")
    if which.asset_id is not None and which.asset_id not in assets:
        raise Conflict(f"the job {which.dag_id!r} does not wait for this asset; name one of its schedule, or none")
    schedule: Condition | None = row.definition.schedule
    return schedule
