"""Planted faults: one for each promise of the product, to be found by the histories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

import store.fates
from store.catalog import dropped_events
from store.database.column_types import UtcDateTime
from store.database.schema import queued_event, run, run_asset_event, watcher_position
from store.detection import detections, events, positions
from store.detection.interest import EventOrigin
from store.features.catchup import catchups
from store.features.replay import selections
from store.features.versions import superseded_items
from store.processes import leaders, triggerers
from store.runs import consumption, runs
from store.runs.fates import PlaceAtJob
from store.runs.runs import this_run
from store.runs.tries import tries, try_lookup
from store.runs.tries.try_lock import LockedTry
from tests.simulation import cluster
from tests.simulation.history import Plan
from tests.simulation.virtual import put
from triggers.local_folder import cleaning
from watcher.features.clean_source import decision
from watcher.features.explain import verdicts
from watcher.scheduling.planning import scheduler
from watcher.scheduling.tries import try_end
from watcher.scheduling.tries.followed_try import FollowedTry
from watcher.serving.api.execution import finishing
from watcher.serving.api.routes import dags
from watcher.triggerer import failures


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of the product, and the promise that it breaks."""

    promise: str
    plant: Callable[[], None]
    deeds: frozenset[str] = frozenset()
    """Those that bring it to light."""
    without: frozenset[str] = frozenset()
    """Those that excuse it."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options that bring it to light."""

    def is_likely(self, plan: Plan) -> bool:
        """Whether a history plays what brings the fault to light. It is looked for in these first."""
        played, drawn = plan.deeds, plan.options(Random(plan.seed))
        return (
            self.deeds <= played
            and not self.without & played
            and all(drawn[name] in values for name, values in self.options.items())
        )


async def _commit(connection: AsyncConnection) -> None:
    """End a transaction half-way, and begin the next when the database has time for it."""
    await connection.commit()
    await asyncio.sleep(3)
    await connection.begin()


def _no_fence_of_positions() -> None:
    unfenced = update(watcher_position).where(watcher_position.c.watcher == bindparam("b_watcher"))
    content = {name: bindparam(f"b_{name}") for name in positions.NewPosition.COLUMNS}
    advance = unfenced.values({**content, **positions._moved()}).returning(watcher_position.c.version)
    put(positions, advance=lambda: advance)


def _halves(*, position_first: bool) -> Callable[[], None]:
    def plant() -> None:
        real = detections._commit_sqlite

        async def commit(connection: AsyncConnection, detection: Any, hooks: Any) -> Any:
            if connection.in_nested_transaction() or not detection.events:
                return await real(connection, detection, hooks)
            if position_first:
                committed = await real(connection, replace(detection, events=()), hooks)
                await _commit(connection)
                appended = await events.append(connection, detection.events, origin=EventOrigin.DETECTION, hooks=hooks)
                return replace(committed, dag_ids=appended.dag_ids)
            appended = await events.append(connection, detection.events, origin=EventOrigin.DETECTION, hooks=hooks)
            await _commit(connection)
            committed = await real(connection, replace(detection, events=()), hooks)
            return (
                replace(committed, dag_ids=appended.dag_ids)
                if isinstance(committed, detections.Committed)
                else committed
            )

        put(detections, _commit_sqlite=commit)

    return plant


def _reload_empties_queues() -> None:
    from store.catalog import catalog_sync  # noqa: PLC0415  the reloader calls it by its module

    real = catalog_sync.apply

    async def apply(connection: AsyncConnection, *arguments: Any, **options: Any) -> Any:
        applied = await real(connection, *arguments, **options)
        await connection.execute(delete(queued_event).where(queued_event.c.dag_id == "two"))
        return applied

    put(catalog_sync, apply=apply)


def _cleans_after_the_first_job() -> None:
    real = decision._obstacle

    def obstacle(owed: Any, fates: Sequence[Any]) -> str | None:
        return None if any(each.fate in store.fates.HAS_LOADED for each in fates) else real(owed, fates)

    put(decision, _obstacle=obstacle)


def _replays_what_was_loaded() -> None:
    real = selections.queueable

    def queueable(which: Any) -> Any:
        return {*real(which), PlaceAtJob("run", store.fates.Fate.LOADED)}

    put(selections, queueable=queueable)


def _no_fence_of_tries() -> None:
    put(LockedTry, fenced=property(lambda self: self.key))


def _consumes_for_all_jobs() -> None:
    real = runs.create_triggered_runs

    async def create(connection: AsyncConnection, new: Sequence[Any]) -> Any:
        made = await real(connection, new)
        for each in new:
            await connection.execute(delete(queued_event).where(queued_event.c.event_id.in_(each.event_ids)))
        return made

    put(runs, create_triggered_runs=create)


def _queues_all_but_the_newest() -> None:
    real = events._queue

    async def queue(connection: AsyncConnection, rows: Sequence[Any], ids: Sequence[int]) -> Any:
        return await real(connection, rows, ids[:-1] or ids)

    put(events, _queue=queue)


def _gives_runs_less_than_they_consumed() -> None:
    real = consumption.events_of_run

    async def events_of_run(connection: AsyncConnection, dag_id: str, run_id: str) -> Any:
        found = await real(connection, dag_id, run_id)
        return found[:-1] or found

    put(consumption, events_of_run=events_of_run)


def _tells_nobody_of_a_success() -> None:
    async def append(*_: Any, **__: Any) -> Any:
        return finishing._NO_EVENTS

    put(finishing, _append=append)


def _forgets_pauses() -> None:
    async def pause(*_: Any, **__: Any) -> None: ...

    put(dags, pause=pause)


def _forgets_what_runs_made() -> None:
    async def record(connection: AsyncConnection, ids: Any) -> None: ...

    put(dropped_events, record_of_runs=record)


def _forgets_deleted_runs() -> None:
    async def record(connection: AsyncConnection, consumed: Any) -> None: ...

    put(dropped_events, record_of_deleted_runs=record)


def _catches_up_in_part() -> None:
    real = catchups.queue

    async def queue(connection: AsyncConnection, dag_id: str, which: Any, *, limit: int, filtered: bool) -> Any:
        return await real(connection, dag_id, replace(which, at=which.at + 1), limit=limit, filtered=filtered)

    put(catchups, queue=queue)


def _outlets_again() -> None:
    """Let a repeated report of an end have its effect again."""
    real = tries.finish

    async def finish(connection: AsyncConnection, ref: Any, **options: Any) -> Any:
        finished = await real(connection, ref, **options)
        last[ref] = finished or last.get(ref)
        return last[ref]

    last: dict[Any, Any] = {}
    from store.runs.tries import answers  # noqa: PLC0415  what keeps answers is planted, too

    async def replayed(*_: Any, **__: Any) -> None: ...

    put(answers, replay=replayed)
    put(cluster, LOST_ANSWERS=0.2)
    put(tries, finish=finish)


def _rewinds_that_running_watchers_undo() -> None:
    """Let a running watcher go on from what it remembers, whatever became of its position."""
    from watcher.triggerer.supervisor import Supervisor  # noqa: PLC0415  only for this fault

    put(Supervisor, compare=lambda _self, _held: None)
    _no_fence_of_positions()


def _consumes_without_a_record() -> None:
    real = runs.create_triggered_runs

    async def create(connection: AsyncConnection, new: Sequence[Any]) -> Any:
        made = await real(connection, new)
        for each in new:
            if len(each.event_ids) > 1:
                lost = run_asset_event.c.event_id == max(each.event_ids)
                await connection.execute(delete(run_asset_event).where(run_asset_event.c.dag_id == each.dag_id, lost))
        return made

    put(runs, create_triggered_runs=create)


def _loses_drivers_at_a_restart() -> None:
    async def attach(self: FollowedTry, database: Any, submissions: Any) -> Any:  # noqa: ARG001
        return try_end.LOST

    put(FollowedTry, _attach=attach)


def _gives_up_on_sources() -> None:
    put(failures, LONGEST_PAUSE=timedelta(days=1))
    put(failures, backoff=lambda *_, **__: timedelta(days=1))


def _leases_that_never_end() -> None:
    real = triggerers.beat

    async def beat(connection: AsyncConnection, process: Any, _lease: Any, *arguments: Any) -> Any:
        return await real(connection, process, timedelta(days=400), *arguments)

    async def leave(connection: AsyncConnection, process_id: str) -> None: ...

    put(triggerers, beat=beat)
    put(triggerers, leave=leave)


def _answers_failed_for_loaded() -> None:
    put(verdicts, of_item=lambda fates: store.fates.Fate.FAILED if [*fates] else store.fates.Fate.REPORTED)


def _leaves_out_whatever_is_asked_for() -> None:
    """Say of each file that a job misses that a newer version supersedes it."""

    async def missed(connection: AsyncConnection, task: Any, names: Any) -> Mapping[str, Sequence[Any]]:
        of_run = select(run.c.id).where(this_run(task.dag_id, task.run_id))
        _, versions = await superseded_items._versions_of_runs(
            connection, [*(await connection.execute(of_run)).scalars()]
        )
        newest = [each for newest, _ in versions.values() for same in newest.values() for each in same]
        return {each.path.name: [superseded_items._item(each)] for each in newest if each.path.name in names}

    put(superseded_items, missed=missed)


def _never_follows_own_tries() -> None:
    """Forget the tries of this home after a restart."""

    async def none(*_: Any) -> Sequence[Any]:
        return []

    put(try_lookup, open_tries=none)


def _outlets_apart_from_their_success() -> None:
    real = finishing._append

    async def append(connection: AsyncConnection, *arguments: Any) -> Any:
        await _commit(connection)
        return await real(connection, *arguments)

    put(finishing, _append=append)


def _drops_without_a_record() -> None:
    async def take_off(connection: AsyncConnection, which: Any, *, reason: str, actor: str | None = None) -> int:  # noqa: ARG001
        return (await connection.execute(delete(queued_event).where(which))).rowcount

    put(dropped_events, take_off=take_off)


def _leases_by_own_clocks() -> None:
    """Let each process decide by its own clock whether the leader's lease is over."""

    def now() -> Any:
        return bindparam(None, datetime.now(UTC), UtcDateTime(), unique=True)

    put(leaders, database_now=now)


def _hints_without_looks() -> None:
    put(scheduler, CHECK_EVERY=timedelta(days=1))


def _goes_without_more_than_was_agreed_to() -> None:
    async def as_admitted(_connection: AsyncConnection, changed: Any, _tried: Any) -> Any:
        return changed

    put(superseded_items, _as_admitted=as_admitted)


def _removes_what_was_written_meanwhile() -> None:
    put(cleaning, is_as_loaded=lambda *_: True)


_ALONE: Final = {"processes": (1,)}
_SEVERAL: Final = {"processes": (2, 3)}
_CLEANS: Final = {"clean_source": ("delete", "move_to"), "schedule": ("all",), **_ALONE}
FAULTS: Final[Mapping[str, Fault]] = {
    name: Fault(
        promise=promise,
        plant=plant,
        deeds=frozenset(word for word in deeds.split() if not word.startswith("-")),
        without=frozenset(word[1:] for word in deeds.split() if word.startswith("-")),
        options=options,
    )
    for name, promise, plant, deeds, options in (
        (
            "no fence of positions",
            "who was taken over moves no position",
            _no_fence_of_positions,
            "freeze rewind",
            _SEVERAL,
        ),
        (
            "watermark before events",
            "a watermark is true in the transaction that stores it",
            _halves(position_first=True),
            "crash",
            _ALONE,
        ),
        (
            "events before watermark",
            "events and watermark are stored together",
            _halves(position_first=False),
            "crash",
            _ALONE,
        ),
        ("reload empties queues", "a reload keeps what is queued", _reload_empties_queues, "reload", _ALONE),
        (
            "cleaned after the first job",
            "files stay until the last job has loaded them",
            _cleans_after_the_first_job,
            "",
            _CLEANS,
        ),
        (
            "queues all but the newest",
            "each event is queued for all jobs that wait for it",
            _queues_all_but_the_newest,
            "",
            _ALONE,
        ),
        (
            "gives runs less",
            "a job gets all events that its run has consumed",
            _gives_runs_less_than_they_consumed,
            "",
            _ALONE,
        ),
        ("tells nobody", "a success is an event of each outlet", _tells_nobody_of_a_success, "", _ALONE),
        ("replay twice", "a replay queues only what was never consumed", _replays_what_was_loaded, "replay", _ALONE),
        ("no fence of tries", "a token is good for one try", _no_fence_of_tries, "cancel", _ALONE),
        (
            "consumes for all jobs",
            "a run takes queued events of its own job alone",
            _consumes_for_all_jobs,
            "",
            _ALONE,
        ),
        ("forgets pauses", "a paused job starts nothing", _forgets_pauses, "pause", _ALONE),
        (
            "forgets what runs made",
            "the clean-up of a run changes no fate",
            _forgets_what_runs_made,
            "retention",
            _ALONE,
        ),
        (
            "forgets deleted runs",
            "what a deleted run consumed is not consumed again by itself",
            _forgets_deleted_runs,
            "delete retention",
            _ALONE,
        ),
        ("catches up in part", "a new job with catchup gets all stored events", _catches_up_in_part, "reload", _ALONE),
        ("outlets again", "a repeated report changes nothing", _outlets_again, "", _ALONE),
        (
            "rewinds undone",
            "a rewind holds for a watcher that runs",
            _rewinds_that_running_watchers_undo,
            "rewind",
            _ALONE,
        ),
        (
            "consumes without a record",
            "what a run consumes is recorded with it",
            _consumes_without_a_record,
            "",
            _ALONE,
        ),
        (
            "loses drivers at a restart",
            "a restart finds its drivers again",
            _loses_drivers_at_a_restart,
            "crash",
            _ALONE,
        ),
        ("gives up on sources", "a source that was away is asked again", _gives_up_on_sources, "source_outage", _ALONE),
        ("leases that never end", "what a killed process held is taken over", _leases_that_never_end, "crash", _ALONE),
        (
            "failed for loaded",
            "explain says what became of an item",
            _answers_failed_for_loaded,
            "-replay -retention -rewind -clear",
            _ALONE,
        ),
        (
            "leaves out the newest",
            "only what a newer version supersedes is left out",
            _leaves_out_whatever_is_asked_for,
            "vanish",
            _ALONE,
        ),
        (
            "outlets apart",
            "a success and the events of its outlets are stored together",
            _outlets_apart_from_their_success,
            "crash",
            _ALONE,
        ),
        ("drops without a record", "what is taken off a queue is recorded", _drops_without_a_record, "drop", _ALONE),
        (
            "leases by own clocks",
            "the database's clock alone says when a lease is over",
            _leases_by_own_clocks,
            "clock_step -freeze -outage -slow_commit -crash -retention -retention_of_runs",
            _SEVERAL,
        ),
        (
            "hints without looks",
            "what another process has stored is found by itself",
            _hints_without_looks,
            "-retention -retention_of_runs",
            {"cron": (None,), "debounce": (None,), "deadline": (None,), **_SEVERAL},
        ),
        (
            "removes what was written meanwhile",
            "only the content goes that was loaded",
            _removes_what_was_written_meanwhile,
            "rewrite -replay -clear -mark -retry -delete -cancel -drop",
            {"clean_source": ("delete", "move_to")},
        ),
        (
            "goes without more than agreed",
            "a run that has succeeded loses no rows by what comes after it was cleared",
            _goes_without_more_than_was_agreed_to,
            "replay rewrite",
            {},
        ),
        ("forgets own tries", "what a crash left open is settled", _never_follows_own_tries, "crash", _ALONE),
    )
}
