"""Schedules that change while events wait: random histories against a reference model, and each rule by itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import and_, bindparam, delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from store import partition_keys
from store.catalog import aliases, catalog_sync, dropped_events
from store.catalog.catalog_sync import Applied, AppliedCatalog, AppliedFeature, Declared, DeclaredJob
from store.database import Database
from store.database.asset_events import NewEvent
from store.database.lifecycle import delete_whole
from store.database.paging import PageRequest, all_of
from store.database.schema import asset, asset_alias, asset_event, job, queued_event, run, run_asset_event
from store.detection import events, filters
from store.detection.interest import NO_HOOKS, EventOrigin
from store.features.catchup.tables import catchup
from store.features.partitions import groups as partition_groups
from store.features.partitions.groups import GroupRest, QueuedIdentity, QueuedSpan
from store.features.replay import replays
from store.features.replay.replays import ReplayCounts
from store.features.replay.selections import ReplayRange
from store.features.replay.tables import replay
from store.keys import JobDefinition
from store.references import satisfied
from store.runs.jobs import JOB_COLUMNS, JobRow
from store.runs.queue import kept_events, queues
from store.runs.queue.queues import QueueFilter
from store.runs.tries.changed_items import ItemHooks
from tests import features
from tests.databases import copied, emptied, on_both, sqlite_in_this_thread
from tests.effort import SEED, effort
from tests.features import ITEM_HOOKS
from tests.service.scheduler import lacking_model
from tests.service.scheduler.processes import AGE, Processes
from tests.service.scheduler.schedule_model import (
    ASSETS,
    EVENTS,
    EVENTS_AT_ONCE,
    MARKS,
    NAMES,
    PARTS,
    PATIENCE,
    Action,
    ModelComplete,
    ModelEvent,
    ModelJob,
    ScheduleModel,
    names,
    random_event,
    random_history,
)
from tests.service.scheduler.settings import (
    configuration,
    consumed,
    end_runs,
    job_on,
    leading_scheduler,
    set_paused,
    tell,
)
from watcher.configuration.declarations import planners
from watcher.features.catchup import step as catching_up
from watcher.features.partitions import completeness, deliveries, item_counts
from watcher.features.partitions import groups as partitions
from watcher.features.partitions import memory as partition_memory
from watcher.features.partitions import planner as partition_planner
from watcher.features.partitions.compared_items import DistinctItems, NamedFiles
from watcher.features.partitions.groups import DueGroup, PartitionGroup
from watcher.features.partitions.memory import JudgedPartitions
from watcher.scheduling.planning import plans
from watcher.scheduling.planning.base import Planners
from watcher.scheduling.planning.plans import Waits
from watcher.serving.api.waiting import waiting_jobs

on_sqlite = pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
pytestmark = pytest.mark.service
HISTORIES, HISTORIES_OF_SERVERS = effort(25, 5_000), effort(12, 5_000)
"""The histories of each kind on SQLite, and on a server, where one takes several times as long."""
PLANNERS = planners()
CONFIGURED = select(*JOB_COLUMNS).where(job.c.active).order_by(job.c.dag_id)
FOUND_WITHIN = 500
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
A_YEAR = timedelta(days=366)
Apply: TypeAlias = Callable[[Database, Declared], Awaitable[Applied]]


async def apply(database: Database, new: Declared) -> Applied:
    async with database.transaction() as connection:
        return await catalog_sync.apply(connection, new, database.dialect)


def declared_job(dag_id: str, model: ModelJob) -> DeclaredJob:
    return job_on(
        dag_id,
        model.schedule,
        cron=None if model.month is None else f"0 0 1 {model.month} *",
        mode="per_partition" if model.per_partition else "each" if model.each else "coalesce",
        by=model.by,
        run_after=AGE.total_seconds() * (PATIENCE - 0.5) if model.run_after else None,
        complete=None if model.complete is None else stored_complete(model.complete),
        joint=model.joint,
        catchup=model.catchup,
        max_events=model.max_events,
        max_active_runs=model.max_active_runs,
    )


def stored_complete(complete: ModelComplete) -> dict[str, Any]:
    """Return what the database keeps of it."""
    again = {"again": complete.again}
    if complete.items is not None:
        return {"items": complete.items, **again}
    if complete.marked:
        return {"marker": "**/_SUCCESS", **again}
    if complete.named:
        return {"manifest": "*.manifest", **again}
    at_least = None if complete.needed == len(complete.values) else complete.needed
    return {"part": complete.part, "values": complete.values, "at_least": at_least, **again}


def extra_of(event: ModelEvent, number: int) -> str:
    """Return what the database keeps of the event with this number."""
    extra = json.loads(EVENTS[event.says])
    if event.says == MARKS:
        extra["files"] = [{"key": f"{number}/_SUCCESS"}]
    elif event.says == NAMES:
        extra["files"] = [{"bucket": "lake", "key": f"in/{event.file}.manifest", "etag": str(number)}]
        if event.names is not None:
            names = [name if number % 2 else f"s3://lake/in/{name}" for name in event.names]
            extra["manifests"] = {f"s3://lake/in/{event.file}.manifest": names}
    elif event.file is not None:
        extra["files"] = [{"bucket": "lake", "key": f"in/{event.file}", "etag": str(number)}]
    return json.dumps(extra)


async def play(database: Database, history: Iterable[Action], apply: Apply = apply) -> None:
    """Play a history on an empty database. Raises `AssertionError` where it differs from the model."""
    model, processes, reader = ScheduleModel(plans.MOST_RUNS), Processes(database=database), planners()
    ids = dict((await apply(database, configuration([], ASSETS, PARTS))).asset_ids)
    await processes.start()
    with processes.clocks(), processes.compared():
        for kind, what in history:
            await _play(database, model, processes, ids, kind, what, apply)
            await _agrees(database, model)
            assert not processes.differences
            if kind in ("check", "reload", "replay"):
                await _shows(database, model, reader)


async def _play(
    database: Database,
    model: ScheduleModel,
    processes: Processes,
    ids: Mapping[str, int],
    kind: str,
    what: Any,
    apply: Apply,
) -> None:
    match kind:
        case "event":
            extra = extra_of(what, len(model.events))
            [event_id] = await tell(database, ids[what.asset], extra=extra, key=what.key)
            await processes.arrived(event_id)
            model.add_event(event_id, what)
        case "check":
            await _check(processes, what)
            model.check()
        case "restart" | "take over":
            await (processes.restart() if kind == "restart" else processes.take_over())
        case "reload":
            jobs = [declared_job(dag_id, each) for dag_id, each in what.items()]
            applied = await apply(database, configuration(jobs, ASSETS, PARTS))
            assert applied.counts["earlier"] == model.earlier(what)
            assert (applied.dequeued, applied.kept) == (model.reload(what), model.kept())
        case "replay":
            await _replay(database, model, processes, *what)
        case "resolve":
            await _resolve(database, ids[what])
            model.resolved.add(what)
        case "age":
            for dag_id in what:
                processes.ages[dag_id] += 1
                model.jobs[dag_id].age += 1
        case _:
            await _act(database, model, kind, what)


async def _check(processes: Processes, killed: Any) -> None:
    """Check all that is due, after a check that was cancelled after some time, or whose process died at a transaction."""
    if isinstance(killed, float):
        with anyio.move_on_after(killed):
            await processes.check()
    elif killed is not None:
        await processes.die(*killed)
    await processes.check()


async def _act(database: Database, model: ScheduleModel, kind: str, dag_id: str) -> None:
    """Do what concerns one job."""
    state = model.jobs[dag_id]
    match kind:
        case "pause" | "resume" if state.now is not None:
            await set_paused(database, dag_id, paused=kind == "pause")
            state.paused = kind == "pause"
        case "end":
            await end_runs(database, dag_id)
            state.end("over")
        case "remove run":
            await end_runs(database, dag_id, "deleted")
            state.end("deleted")
        case "tick" if model.wind(dag_id):
            async with database.transaction() as connection:
                this = update(job).where(job.c.dag_id == dag_id)
                tick = (await connection.execute(select(job.c.next_tick).where(job.c.dag_id == dag_id))).scalar_one()
                now = (await connection.execute(select(asset.c.created_at).limit(1))).scalar_one()
                await connection.execute(this.values(next_tick=tick if tick < now else tick - A_YEAR))
        case "drop":
            async with database.transaction() as connection:
                await queues.remove(connection, QueueFilter(dag_id=dag_id), actor="a person")
            model.drop(dag_id)
        case "run left" | "drop left" | "force":
            await _decide_on_a_queue(database, model, kind, dag_id)
        case "forget":
            async with database.transaction() as connection:
                over = select(run.c.id).where(run.c.dag_id == dag_id, run.c.state == "success")
                ids = (await connection.execute(over)).scalars().all()
                await dropped_events.record_of_runs(connection, ids)
                await delete_whole(connection, run, run.c.id.in_(ids))
            model.forget(dag_id)


async def _decide_on_a_queue(database: Database, model: ScheduleModel, kind: str, dag_id: str) -> None:
    state = model.jobs[dag_id]
    if kind == "force" and state.now is not None and state.now.per_partition and state.queue:
        key = model.force(dag_id)
        async with database.transaction() as connection:
            assert await PLANNERS.run_partition(connection, await kept_events.lock(connection, dag_id), key)
    if kind == "force" or not model.left(dag_id):
        return
    done, left = 0, len(model.left(dag_id))
    while done < left:
        async with database.transaction() as connection:
            queue = await kept_events.lock(connection, dag_id)
            assert queue.events == left - done
            if kind == "run left":
                done += await PLANNERS.run_kept(connection, queue, to=queue.newest)
            else:
                done += await kept_events.take_off(connection, dag_id, actor="a person")
    (model.run_left if kind == "run left" else model.drop_left)(dag_id)


async def _replay(
    database: Database,
    model: ScheduleModel,
    processes: Processes,
    dag_id: str,
    since: float,
    until: float,
    include_dropped: bool,
    killed: bool,
) -> None:
    """Replay a part of the stored events, as far as the job has any; with `killed` the first check is cancelled somewhere."""
    now = model.jobs[dag_id].now
    if (
        model.jobs[dag_id].catchup
        or not model.events
        or now is None
        or now.schedule is None
        or ("alias" in str(now.schedule) and not model.resolved)
    ):
        return
    first, last = sorted(int(each * len(model.events)) for each in (since, until))
    async with database.reading() as connection:
        times = (await connection.execute(select(asset_event.c.timestamp).order_by(asset_event.c.id))).scalars().all()
    last = max(place for place, time in enumerate(times) if time == times[last])  # times of SQLite are coarse
    first = times.index(times[first])
    which = ReplayRange(
        dag_id=dag_id,
        since=times[first],
        until=times[last] + timedelta(microseconds=1),
        include_dropped=include_dropped,
    )
    async with database.transaction() as connection:
        _, counts = await replays.begin(connection, which, ITEM_HOOKS, actor="a person", expected_count=None)
    counted = model.replay(dag_id, first, last, include_dropped=include_dropped)
    assert counts.queued == counted["queued"]
    assert (counts.cleared, counts.cleared_runs) == (counted["over"], counted["cleared_runs"])
    assert counts.outside_range == counted["outside"]
    assert (counts.waiting, counts.running) == (counted["waiting"], counted["running"])
    assert counts.dropped == counted["dropped"]
    assert counts.forgotten.loaded == counted["queued forgotten" if include_dropped else "forgotten"]
    if killed:
        with anyio.move_on_after(Random(last).random() / 50):
            await processes.check()
    await processes.check()
    model.check()


async def _resolve(database: Database, asset_id: int) -> None:
    async with database.transaction() as connection:
        alias_id = (await connection.execute(select(asset_alias.c.id))).scalar_one()
        await aliases.associate(connection, [(asset_id, alias_id)], database.dialect)


async def _agrees(database: Database, model: ScheduleModel) -> None:
    q, r = queued_event.c, run_asset_event.c
    waiting: dict[str, list[int]] = {dag_id: [] for dag_id in model.jobs}
    runs: dict[str, dict[str, list[int]]] = {dag_id: {} for dag_id in model.jobs}
    of_run = and_(r.dag_id == run.c.dag_id, r.run_id == run.c.run_id)
    shown: dict[str, dict[str, Any]] = {dag_id: {} for dag_id in model.jobs}
    columns = (run.c.partition_key, run.c.of_feature)
    of_runs = select(run.c.dag_id, run.c.run_id, r.event_id, *columns).outerjoin(run_asset_event, of_run)
    async with database.reading() as connection:
        for dag_id, event in await connection.execute(select(q.dag_id, q.event_id).order_by(q.event_id)):
            waiting[dag_id].append(event)
        for dag_id, run_id, event, key, stored in await connection.execute(of_runs.order_by(run.c.id, r.event_id)):
            flags = json.loads(stored or "{}")
            said = (flags.get("partition_complete"), flags.get("late", False), flags.get("redelivered", False))
            shown[dag_id][run_id] = (key, *said)
            runs[dag_id].setdefault(run_id, []).extend([] if event is None else [event])
    for dag_id, state in model.jobs.items():
        assert waiting[dag_id] == sorted(state.queue), dag_id
        there = [events for number, events in enumerate(state.runs) if number not in state.forgotten]
        assert [tuple(events) for events in runs[dag_id].values()] == there, dag_id
        expected = [(key, *flags) for key, flags in zip(state.keys, state.flags, strict=True)]
        of_there = [each for number, each in enumerate(expected) if number not in state.forgotten]
        assert list(shown[dag_id].values()) == of_there, dag_id
        used = [event for events in state.runs for event in events]
        assert sorted([*used, *state.queue, *state.dropped, *state.past]) == sorted(state.owed), (
            "each event is in one place"
        )


async def _shows(database: Database, model: ScheduleModel, reader: Planners) -> None:
    """Compare what people read of each job that waits, from a process that remembers what it read, with what lacks."""
    async with database.reading() as connection:
        rows = await all_of(connection, CONFIGURED, JobRow)
        shown = await waiting_jobs(connection, rows, reader, PageRequest(limit=1_000))
    for each in shown:
        dag_id = each.job.dag_id
        found = {
            partition.partition_key: (
                partition.events,
                partition.waits_for.replace("s3://lake/in/", ""),
                partition.has_run,
            )
            for partition in each.partitions.shown
        }
        assert found == lacking_model.partitions(model, dag_id), dag_id
        states = Counter("lacking" if lacks else "busy" if busy else "due" for _, lacks, busy in found.values())
        counts = {"lacking": each.partitions.lacking, "busy": each.partitions.busy, "due": each.partitions.due}
        assert {name: number for name, number in counts.items() if number} == states
        if not found:
            assert each.reason == lacking_model.reason(model, dag_id), dag_id


@pytest.fixture(scope="module")
async def open_sqlite(database_file: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Database]:
    """A database of histories, of which each is one task."""
    with sqlite_in_this_thread():
        async with Database.open(copied(database_file, tmp_path_factory.mktemp("database"))) as database:
            yield database


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a replay need several transactions."""
    monkeypatch.setattr(replays, "EVENTS_AT_ONCE", 2)
    monkeypatch.setattr(catching_up, "EVENTS_AT_ONCE", EVENTS_AT_ONCE)
    monkeypatch.setattr(replays, "RUNS_AT_ONCE", 1)


async def agrees(database: Database, make: Callable[[int], list[Action]]) -> None:
    """Play many histories."""
    for number in range(HISTORIES if database.dialect == "sqlite" else HISTORIES_OF_SERVERS):
        await emptied(database)
        try:
            await play(database, make(number))
        except AssertionError as error:
            error.add_note(f"history {number} of WATCHER_TEST_SEED={SEED}: {make(number)}")
            raise


async def is_found(database: Database, make: Callable[[int], list[Action]], apply: Apply = apply) -> None:
    """Play histories until one differs from the model. Fails if so many agree."""
    for number in range(FOUND_WITHIN):
        await emptied(database)
        try:
            await play(database, make(number), apply)
        except (AssertionError, IntegrityError):
            return
    pytest.fail(f"not found within {FOUND_WITHIN} histories")


def history(number: int, most: int = 30) -> list[Action]:
    return list(random_history(Random(f"{SEED}/{number}"), most))


def long_history(number: int) -> list[Action]:
    return history(number, 150)


@on_both
async def test_histories_of_changed_schedules_agree_with_the_model(database: Database) -> None:
    await agrees(database, history)


@on_sqlite
async def test_the_model_finds_a_reload_that_drops_a_queued_event(database: Database) -> None:
    async def losing(database: Database, new: Declared) -> Applied:
        applied = await apply(database, new)
        q = queued_event.c
        async with database.transaction() as connection:
            references = {j.dag_id: {name for _, name, _ in names(j.definition.schedule)} for j in new.jobs}
            rows = (await connection.execute(select(q.dag_id, q.event_id, asset.c.name).join(asset))).all()
            for row in rows:
                if row.name not in references[row.dag_id] and "alias" not in references[row.dag_id]:
                    this = delete(queued_event).where(q.dag_id == row.dag_id, q.event_id == row.event_id)
                    await connection.execute(this)
                    break
        return applied

    await is_found(database, history, losing)


def keeping_no_record(patch: pytest.MonkeyPatch) -> None:
    """Plant: the clean-up of a run forgets what the run consumed."""

    async def forget(connection: AsyncConnection, ids: Sequence[int]) -> None: ...

    patch.setattr(dropped_events, "record_of_runs", forget)


def missing_the_newest(patch: pytest.MonkeyPatch) -> None:
    """Plant: a replay misses the event that was committed last."""
    begin = replays.begin

    async def early(
        connection: AsyncConnection, which: ReplayRange, hooks: ItemHooks, **more: Any
    ) -> tuple[int, ReplayCounts]:
        made = await begin(connection, which, hooks, **more)
        await connection.execute(update(replay).values(last_event=replay.c.last_event - 1))
        return made

    patch.setattr(replays, "begin", early)


def clearing_twice(patch: pytest.MonkeyPatch) -> None:
    """Plant: a replay also clears the runs that are made of what it has queued, and those of later events."""

    async def no_place(connection: AsyncConnection, which: ReplayRange, *_: Any) -> tuple[Sequence[int], int]:
        runs = and_(run.c.dag_id == which.dag_id, run.c.state == "success")
        await connection.execute(update(run).where(runs).values(state="queued"))
        return [], 0

    patch.setattr(replays, "_clear", no_place)


def deciding_again(patch: pytest.MonkeyPatch) -> None:
    """Plant: a reload decides again what queued events satisfy, as far as they satisfy anything now."""
    apply = catalog_sync.apply
    this = (queued_event.c.dag_id == bindparam("dag"), queued_event.c.event_id == bindparam("event"))
    again = update(queued_event).where(*this).values(satisfies=bindparam("new"))
    columns = (queued_event.c.dag_id, queued_event.c.event_id, asset.c.name, job.c.definition, asset_event.c.extra)
    waiting = (
        select(*columns)
        .join_from(queued_event, asset_event)
        .join(job)
        .join(asset, asset.c.id == asset_event.c.asset_id)
    )

    async def changed(connection: AsyncConnection, declared: Declared, dialect: str) -> Applied:
        applied = await apply(connection, declared, dialect)
        for row in (await connection.execute(waiting)).all():
            of_asset = filters.referring(row.definition.schedule, row.name, set())
            if (new := satisfied(of_asset, json.loads(row.extra), None)) is not None:
                await connection.execute(again, {"dag": row.dag_id, "event": row.event_id, "new": new})
        return replace(applied, kept=await dropped_events.kept(connection))

    patch.setattr(catalog_sync, "apply", changed)


def catching_up_but_for_the_newest(patch: pytest.MonkeyPatch) -> None:
    """Plant: a new job does not get the event that was stored last."""
    begin = features.APPLIED["catchup"]

    async def early(connection: AsyncConnection, applied: AppliedCatalog) -> AppliedFeature:
        counted = await begin(connection, applied)
        new = applied.jobs.keys() - applied.jobs_before.keys()
        mine = update(catchup).where(catchup.c.dag_id.in_(new), catchup.c.at_event == 0)
        await connection.execute(mine.values(to_event=catchup.c.to_event - 1))
        return counted

    patch.setitem(features.APPLIED, "catchup", early)


PLANTS = (deciding_again, catching_up_but_for_the_newest, keeping_no_record, missing_the_newest, clearing_twice)


@on_sqlite
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: str(plant.__name__))
async def test_the_model_finds_what_is_planted(
    database: Database, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    await is_found(database, long_history)


@on_both
async def test_a_replay_waits_for_events_that_are_being_committed(database: Database) -> None:
    ids = dict((await apply(database, configuration([job_on("one", "a")], "ab"))).asset_ids)
    scheduler = await leading_scheduler(database)
    committed = anyio.Event()

    async def commit() -> None:
        async with database.transaction() as connection:
            new = NewEvent(asset_id=ids["a"], extra="{}", trace_id="0" * 32)
            await events.append(connection, [new], origin=EventOrigin.POST, hooks=NO_HOOKS)
            committed.set()
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(commit)
        await committed.wait()
        async with database.transaction() as connection:
            which = ReplayRange(dag_id="one", since=LONG_AGO, until=datetime.max.replace(tzinfo=UTC))
            _, counts = await replays.begin(connection, which, ITEM_HOOKS, actor="a person", expected_count=None)
    assert (counts.waiting, counts.queued) == (1, 0)
    await scheduler.check()
    assert [len(events) for events in (await consumed(database, "one")).values()] == [1]


def judging_together(patch: pytest.MonkeyPatch) -> None:
    """Plant: a partition is complete once all partitions together are."""
    decide = plans.completing

    def anywhere(first_events: Mapping[str, int], waits: Waits) -> int | None:
        completed_by = decide({name: min(first_events.values()) for name in ASSETS}, waits)
        return completed_by if len(first_events) == 1 else decide(first_events, waits)

    patch.setattr(partitions, "completing", anywhere)


def overlapping(patch: pytest.MonkeyPatch) -> None:
    """Plant: a run of a key is made while another one is unfinished."""

    async def none(connection: AsyncConnection, dag_ids: Sequence[str]) -> Mapping[str, frozenset[str]]:  # noqa: ARG001
        return {dag_id: frozenset() for dag_id in dag_ids}

    patch.setattr(partition_groups, "unfinished", none)


def splitting_values(patch: pytest.MonkeyPatch) -> None:
    """Plant: an escaped `|` ends a value."""
    patch.setattr(partition_keys, "divided", lambda key: key.split("|"))


def without_parts_in_the_group_of_its_text(patch: pytest.MonkeyPatch) -> None:
    """Plant: a key that lacks a part is a group of its own, beside those without a key."""
    group_of = partition_keys.group_of
    patch.setattr(partition_memory, "group_of", lambda key, *more: group_of(key, *more) or key)


def stranding(patch: pytest.MonkeyPatch) -> None:
    """Plant: what the schedule does not wait for never has a run of its own."""
    patch.setattr(plans, "is_awaited", lambda *_: True)


def forgetting_the_rest(patch: pytest.MonkeyPatch) -> None:
    """Plant: what is left of a large group is judged anew."""

    async def none(*_: Any) -> Mapping[str | None, GroupRest]:
        return {}

    patch.setattr(partition_groups, "rests", none)


def counting_events(patch: pytest.MonkeyPatch) -> None:
    """Plant: each event counts as a value of its own."""
    patch.setattr(
        completeness, "_first_events", lambda rows, _: {str(row.first_event): row.first_event for row in rows}
    )


def reopening(patch: pytest.MonkeyPatch) -> None:
    """Plant: a partition that has had its run needs to be complete again."""

    async def none(*_: Any) -> frozenset[str | None]:
        return frozenset()

    patch.setattr(partition_groups, "closed", none)


def keeping_counts(patch: pytest.MonkeyPatch) -> None:
    """Plant: the items of a partition are counted once, and not again when it changes."""
    patch.setattr(item_counts, "_contents", lambda *_: (None, ((frozenset(), None, 0, 0, 0),)))


def dividing_complete_groups(patch: pytest.MonkeyPatch) -> None:
    """Plant: a complete group is divided by `max_events`."""
    runs_of = partition_planner._runs_of
    patch.setattr(partition_planner, "_runs_of", lambda due, *more: runs_of(replace(due, is_whole=False), *more))


def taking_any_file_for_a_marker(patch: pytest.MonkeyPatch) -> None:
    """Plant: every event counts, whether it names a marker or not."""
    patch.setattr(item_counts, "comparing", lambda _: DistinctItems)


def taking_a_manifest_for_its_files(patch: pytest.MonkeyPatch) -> None:
    """Plant: a manifest completes a partition, whatever has come of what it names."""
    patch.setattr(NamedFiles, "count", property(lambda items: int(bool(items.manifests))))


def believing_the_first_version_of_a_manifest(patch: pytest.MonkeyPatch) -> None:
    """Plant: a manifest that was written again counts as it was first."""
    add = NamedFiles.add

    def add_first(self: NamedFiles, *event: Any) -> None:
        manifests, absent = dict(self.manifests), dict(self.absent)
        add(self, *event)
        self.manifests |= manifests
        self.absent |= absent

    patch.setattr(NamedFiles, "add", add_first)


def looking_for_one_manifest(patch: pytest.MonkeyPatch) -> None:
    """Plant: one whole manifest is enough, whatever lacks of the others."""
    count = property(lambda items: int(any(not items._missing(each) for each in items.manifests)))
    patch.setattr(NamedFiles, "count", count)


def deciding_before_the_row_is_visible(patch: pytest.MonkeyPatch) -> None:
    """Plant: a check does not see the event that was queued last, and later ones take it for seen."""
    read = partition_groups.queued_spans

    async def early(
        connection: AsyncConnection, dag_ids: Sequence[str], *, after: int = 0, to: int | None = None
    ) -> Mapping[str, Mapping[QueuedIdentity, QueuedSpan]]:
        return await read(connection, dag_ids, after=after, to=to and to - 1)

    patch.setattr(partition_groups, "queued_spans", early)


def recording_complete_partitions_only(patch: pytest.MonkeyPatch) -> None:
    """Plant: once a running job gets `complete`, the partitions of which it has had runs need to be complete."""
    recorded_if(patch, lambda due: bool(due.said))


def forgetting_runs_of_what_is_left(patch: pytest.MonkeyPatch) -> None:
    """Plant: a run of an event that the schedule does not wait for is no run of its partition."""
    recorded_if(patch, lambda due: due.came_before is None)


def recorded_if(patch: pytest.MonkeyPatch, is_recorded: Callable[[DueGroup], bool]) -> None:
    """Let groups count as such that have had runs only if these are so."""
    take, keep = partition_planner._take, partition_groups.keep
    unrecorded: set[str | None] = set()

    async def note(connection: AsyncConnection, dag_id: str, due: Sequence[DueGroup], *more: Any) -> Any:
        unrecorded.clear()
        unrecorded.update(each.group.key for each in due if not is_recorded(each))
        return await take(connection, dag_id, due, *more)

    async def keep_some(
        connection: AsyncConnection, dag_id: str, groups: Mapping[str | None, GroupRest | None]
    ) -> None:
        await keep(connection, dag_id, {key: rest for key, rest in groups.items() if key not in unrecorded})

    patch.setattr(partition_planner, "_take", note)
    patch.setattr(partition_groups, "keep", keep_some)


def running_without_a_schedule(patch: pytest.MonkeyPatch) -> None:
    """Plant: a reload to `schedule: null` lets what waits have runs of its own."""
    patch.setattr(JobDefinition, "has_schedule", True)


def never_running_out_of_patience(patch: pytest.MonkeyPatch) -> None:
    """Plant: an incomplete partition waits for ever, whatever `deadline: then: run` says."""
    patch.setattr(partitions, "_patience", lambda *_: None)


def remembering_for_ever(patch: pytest.MonkeyPatch) -> None:
    """Plant: a partition that waits is judged again only when its events change."""

    def at(judged: JudgedPartitions, now: datetime, waits: Waits) -> None:
        judged.now, judged.waits = now, waits

    patch.setattr(JudgedPartitions, "at", at)


def not_reading_what_is_left(patch: pytest.MonkeyPatch) -> None:
    """Plant: a partition of which events were taken is forgotten, whatever is left of it."""

    async def nothing(*_: Any, **__: Any) -> Mapping[QueuedIdentity, QueuedSpan]:
        return {}

    patch.setattr(partition_groups, "queued_spans_of", nothing)


def taking_what_came_after(patch: pytest.MonkeyPatch) -> None:
    """Plant: a run of a complete delivery takes what has come since, too."""
    runs_of = partitions._completed

    def completed(group: PartitionGroup, *more: Any) -> DueGroup | None:
        due = runs_of(group, *more)
        return None if due is None else replace(due, to=group.last_event)

    patch.setattr(partitions, "_completed", completed)


def waiting_for_every_asset_again(patch: pytest.MonkeyPatch) -> None:
    """Plant: a later delivery needs an asset of which nothing has come again."""
    patch.setattr(deliveries, "of_what_comes", lambda condition, *_: condition)


def taking_a_later_delivery_for_the_first(patch: pytest.MonkeyPatch) -> None:
    """Plant: a run does not say that it is of a later delivery."""
    patch.setattr(partitions, "REDELIVERED", partitions.WHOLE)


PARTITION_PLANTS = (
    taking_what_came_after,
    waiting_for_every_asset_again,
    taking_a_later_delivery_for_the_first,
    not_reading_what_is_left,
    forgetting_runs_of_what_is_left,
    deciding_before_the_row_is_visible,
    recording_complete_partitions_only,
    running_without_a_schedule,
    never_running_out_of_patience,
    remembering_for_ever,
    taking_any_file_for_a_marker,
    counting_events,
    reopening,
    keeping_counts,
    dividing_complete_groups,
    judging_together,
    overlapping,
    splitting_values,
    without_parts_in_the_group_of_its_text,
    stranding,
    forgetting_the_rest,
)


FEW_KEYS = ("1|x", "1|y", "2|x")


def partitioned_history(number: int) -> list[Action]:
    """Return a history in which every job takes partitions, and none has a clock.

    In every other one, events have few keys; in half of these, partitions that are complete are delivered again.
    """
    random = Random(f"{SEED}/partitions/{number}")
    again = number % 4 == 3
    history: list[Action] = []
    for kind, what in random_history(random, 60):
        if kind == "reload":
            jobs = {
                name: replace(each, per_partition=True, each=False, month=None, joint=False)
                for name, each in what.items()
            }
            history.append((kind, _delivered_again(jobs, random) if again else jobs))
        elif kind == "event" and number % 2:
            history.append((kind, replace(what, asset=random.choice("aab"), key=random.choice(FEW_KEYS))))
        else:
            history.append((kind, what))
    return history


def _delivered_again(jobs: Mapping[str, ModelJob], random: Random) -> dict[str, ModelJob]:
    some = (ModelComplete(items=2, again=True), ModelComplete(marked=True, again=True))
    return {
        name: replace(
            each,
            schedule=random.choice(("a", {"any": ["a", "b"]})),
            by=("day",),
            complete=random.choice(some) if each.complete is None else replace(each.complete, again=True),
        )
        for name, each in jobs.items()
    }


def history_of_manifests(number: int) -> list[Action]:
    """Return a history of partitions in which every job waits for manifests, and many come."""
    random = Random(f"{SEED}/manifests/{number}")
    history: list[Action] = []
    for kind, what in partitioned_history(number):
        if kind == "event":
            event = random_event(random, says=NAMES if random.random() < 0.4 else None)
            history.append((kind, replace(event, asset=random.choice("aab"), key=random.choice(FEW_KEYS))))
        elif kind == "reload":
            jobs = {dag_id: _waiting_for_manifests(each, random) for dag_id, each in what.items()}
            history.append((kind, jobs))
        else:
            history.append((kind, what))
    return history


def _waiting_for_manifests(job: ModelJob, random: Random) -> ModelJob:
    schedule = random.choice(("a", {"any": ["a", "b"]}, {"all": ["a", "b"]}))
    by = random.choice((None, ("day",), ("day",)))
    return replace(job, schedule=schedule, by=by, complete=ModelComplete(named=True, again=random.random() < 0.5))


def forgetting_what_came_before(patch: pytest.MonkeyPatch) -> None:
    """Plant: a manifest waits for files of an earlier delivery that it names again."""

    async def nothing(*_: Any) -> frozenset[str]:
        return frozenset()

    patch.setattr(item_counts, "_earlier_files", nothing)


MANIFEST_PLANTS = (
    forgetting_what_came_before,
    taking_a_manifest_for_its_files,
    believing_the_first_version_of_a_manifest,
    looking_for_one_manifest,
)


def _tiny_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plans, "MOST_EVENTS", 3)
    patch.setattr(plans, "MOST_RUNS", 2)


@on_both
async def test_histories_of_partitions_agree_with_the_model_in_transactions_of_any_size(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _tiny_transactions(monkeypatch)
    await agrees(database, partitioned_history)


@on_sqlite
@pytest.mark.parametrize("plant", PARTITION_PLANTS, ids=lambda plant: str(plant.__name__))
async def test_the_model_finds_what_is_wrong_with_partitions(
    database: Database, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    _tiny_transactions(monkeypatch)
    plant(monkeypatch)
    await is_found(database, partitioned_history)


@on_both
async def test_histories_of_manifests_agree_with_the_model(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    _tiny_transactions(monkeypatch)
    await agrees(database, history_of_manifests)


@on_sqlite
@pytest.mark.parametrize("plant", MANIFEST_PLANTS, ids=lambda plant: str(plant.__name__))
async def test_the_model_finds_what_is_wrong_with_manifests(
    database: Database, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    await is_found(database, history_of_manifests)
