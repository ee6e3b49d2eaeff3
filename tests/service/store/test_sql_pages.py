"""The hot statements stand in docs/sql/store as PostgreSQL gets them, each with its plan, for database administrators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from store.base import AssetStoreWriterKind, Writer
from store.database import Database
from store.database.schema import asset_event
from store.detection import detections, positions
from store.detection.interest import NO_HOOKS, AddedEvents, EventOrigin
from store.keys import TryRef
from store.processes import cleanup, leaders, posts, triggerers
from store.processes.posts import EventPost
from store.processes.triggerers import ProcessInfo
from store.runs import runs
from store.runs.queue import due_jobs, queues
from store.runs.tries import answers, startable, tries, try_lookup
from store.runs.tries.answers import IdempotencyKey
from store.runs.tries.try_lock import AssetSelector, lock_asset
from store.state.entries import EntryChange
from tests.databases import migrate, statements_of
from tests.features import HOOKS, KEPT_EVENTS
from tests.servers import PostgresServer
from tests.service.store.small_world import World, small_world
from tests.service.store.words import consume_events, event, lock_queue
from tests.sql_pages import SqlPage, SqlStatement, compare_pages, plan_lines

FOLDER: Final = Path(__file__).parents[3] / "docs/sql/store"
PLANNED_BY: Final = 18
"""The release of PostgreSQL whose plans the pages show."""
LEASE: Final = timedelta(seconds=15)
REQUEST: Final = IdempotencyKey(key="k", request="r")
WRITER: Final = Writer(
    kind=AssetStoreWriterKind.TASK, write_id="w", dag_id="load", run_id="r", task_id="load", map_index=-1, try_number=1
)
Send = Callable[[AsyncConnection, World], Awaitable[Any]]


async def write_of_a_job(connection: AsyncConnection, world: World) -> None:
    selector = AssetSelector(by="uri", text="test://a")
    locked = await lock_asset(
        connection, TryRef(task_instance_id=world.task_instance_id, try_number=1), selector, key="key", request=REQUEST
    )
    change = EntryChange(asset=locked.asset, key="key", value="2", writer=WRITER, lock=locked.lock)
    await world.entries.apply(connection, change)


async def read_of_a_queue(connection: AsyncConnection, _world: World) -> None:
    queue = await lock_queue(connection, "load")
    assert queue is not None
    taken = list(await queues.oldest(connection, "load", 10, None))
    await consume_events(connection, queue, "r2", taken, completed_by=taken[0])


async def check_of_the_scheduler(connection: AsyncConnection, _world: World) -> None:
    await due_jobs.jobs_to_check(connection)
    await due_jobs.next_tick_in(connection)


async def check_of_the_dispatcher(connection: AsyncConnection, _world: World) -> None:
    await startable.next_startable(connection)
    await runs.running_runs(connection)
    await runs.next_retry_in(connection)
    await try_lookup.open_tries(connection, "home")


async def heartbeats(connection: AsyncConnection, _world: World) -> None:
    process = ProcessInfo(id="t1", host="here", pid=1)
    await triggerers.beat(connection, process, LEASE, "postgresql")
    await triggerers.beat_dispatcher(connection, process, LEASE, "postgresql")
    await leaders.renew(connection, 1, LEASE)


async def events_of_features(connection: AsyncConnection, _world: World) -> None:
    for after_events in HOOKS.features.values():
        await after_events(connection, AddedEvents(origin=EventOrigin.DETECTION, ids=[1]))


async def removal_of_old_events(connection: AsyncConnection, _world: World) -> None:
    old = cleanup._old_events("events", asset_event, datetime(2026, 1, 1, tzinfo=UTC))
    await cleanup._without(old, KEPT_EVENTS).remove(connection, 5_000, None, "postgresql")


PAGES: Final[Mapping[str, tuple[str, Send]]] = {
    "detection_commit": (
        """The commit of a detection, or of a group of them: the new positions of watchers with their events, in one
        transaction. It runs whenever a watcher detected something or its position moves, at most about once a poll
        and watcher; watchers that are due together share a transaction.

        The first statement moves the positions that are still held (epoch and version: the fence), and stores the
        events. It locks, in this order, the rows of watcher_position by name, the configuration's advisory lock
        (shared), the assets (FOR KEY SHARE), and the advisory locks of the watermarks' keys. It waits for positions
        that others have locked.

        The second statement, which sees what these waits let through, makes the queue rows of the jobs, the
        watermarks' entries with their history, and notes when each watcher had its last event. It locks the edges of
        jobs (FOR KEY SHARE), then the rows of watcher. It also reads which features are interested in the events'
        assets; what these send then is in events_of_features.sql.""",
        lambda connection, world: detections.commit(connection, [world.found(events=2)], NO_HOOKS),
    ),
    "detection_commit_of_a_group": (
        """The commit of a group of detections whose members need not wait: positions that others have locked are
        skipped (SKIP LOCKED), and committed later by themselves. Everything else is as in detection_commit.sql.""",
        lambda connection, world: detections.commit(connection, [world.found(events=2)], NO_HOOKS, skip_locked=True),
    ),
    "position_claim": (
        """A triggerer takes over watchers that no living triggerer owns, and reads their positions. It runs when
        watchers are assigned anew: at the start, after a reload, and when another triggerer ended.

        The first statement locks the rows of watcher_position that it claims, in order of name. The others read large
        sets and rejected items.""",
        lambda connection, world: positions.claim_all(connection, {"files": 1}, "t1", world.database.dialect),
    ),
    "job_store_write": (
        """A running job sets an entry of an asset's store. It runs once for each write of a job, by its Execution API
        request, which carries an Idempotency-Key.

        The first statement is the fence: it locks the rows of task_instance and task_try (FOR NO KEY UPDATE), then the
        advisory lock of the entry's key, and reserves the kept answer. The second writes the entry and its history row.""",
        write_of_a_job,
    ),
    "job_answer": (
        """The body of the answer to a job's write is kept for a day, for a request that is repeated. It runs after
        those writes whose answer has a body, in their transaction. It locks the row of execution_answer.""",
        lambda connection, world: answers.keep(connection, world.task_instance_id, REQUEST, "{}"),
    ),
    "event_post": (
        """POST /api/v2/assets/events: events of people and tools, each with its entry in the audit. Requests that wait
        at the same time share a transaction.

        The first statement takes the configuration's advisory lock (shared) and stores events and audit entries; their
        foreign keys lock the assets (FOR KEY SHARE). The second makes queue rows, reads which features are interested
        in the assets, and locks the edges of jobs (FOR KEY SHARE).""",
        lambda connection, world: posts.store_all(
            connection, [EventPost(new=event(world.asset_id, source_actor="ada"), write_id="w")], NO_HOOKS
        ),
    ),
    "events_of_features": (
        """What features add to the transaction of new events, for assets in which they are interested: a message to
        Airflow for each event of an asset that is forwarded, and a row for each event of a watcher with
        `clean_source`, with the jobs that got it. Each statement runs once a transaction, after those of the kernel,
        and locks nothing but what it inserts.""",
        events_of_features,
    ),
    "old_events": (
        """The clean-up removes events past their retention, a batch in a transaction, until none is left. Events stay
        that a queue or a kept run refers to, and those that features need, here: events that were not sent yet, and
        those that new jobs with `catchup` have not got. Each of these is asked about one event at a time, by an
        index. It locks the events that it removes; locked ones are left for the next time.""",
        removal_of_old_events,
    ),
    "scheduler_check": (
        """The scheduler checks which jobs have queued events or a tick that is due. It runs on the leader, every 30
        seconds and when a tick or the end of a batch is due. It locks nothing.""",
        check_of_the_scheduler,
    ),
    "queue_read": (
        """The scheduler decides on the queues of jobs, up to 100 in a transaction, and makes runs of them. It runs on the
        leader for the jobs that got events, by a hint right after their commit.

        The first statement locks the jobs' rows by name (FOR NO KEY UPDATE), which keeps other schedulers out and nobody
        who adds events. The second probes an index for each queued asset, however many events are queued. The others
        run when a condition is met: the oldest events, the runs, their task instances, what they consume, and the
        queue rows that go.""",
        read_of_a_queue,
    ),
    "dispatcher_check": (
        """The dispatcher checks what may start, what is running, and when the next retry is due. It runs in every
        process that starts runs, every 5 seconds and after each change that it is notified of. It locks nothing.""",
        check_of_the_dispatcher,
    ),
    "try_claim": (
        """The driver of a try claims it before it does anything. It runs once a try. It locks the rows of
        task_instance and task_try (FOR NO KEY UPDATE).""",
        lambda connection, world: tries.claim(
            connection, TryRef(task_instance_id=world.task_instance_id, try_number=1), "n"
        ),
    ),
    "heartbeats": (
        """Signs of life: of a triggerer, of a dispatcher, and of the leader. Each runs by itself, as a transaction of
        its own on a reserved session: a triggerer's at `settings.triggerer.heartbeat`, the others at a third of the
        lease. Each locks the one row that it updates.""",
        heartbeats,
    ),
}
"""By the file's name: what it is for, and what sends the statements."""


@pytest.fixture
def new_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database that nobody used: what is left in tables that were emptied has an effect on plans."""
    name = postgres_server.create(postgres_server.template("metadata", migrate))
    yield postgres_server.sqlalchemy_url(name)
    postgres_server.drop(name)


@pytest.fixture
async def world(new_database: str) -> AsyncIterator[World]:
    async with Database.open(new_database) as database:
        yield await small_world(database)


async def explained(connection: AsyncConnection, statement: str, parameters: Any) -> SqlStatement:
    answer = await connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
    (explanation,) = answer.scalar_one()
    return SqlStatement(sql=statement, plan=[*plan_lines(explanation["Plan"])])


async def page_of(world: World, name: str, purpose: str, run: Send) -> SqlPage:
    """Tables are nearly empty here: without the choice of a sequential scan the plan is that of full ones."""
    with statements_of(world.database) as sent:
        async with world.database.transaction() as connection:
            await run(connection, world)
            await connection.rollback()
    assert sent
    async with world.database.transaction() as connection:
        for off in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"):
            await connection.execute(text(f"SET LOCAL {off} = off"))
        statements = [await explained(connection, statement, parameters) for statement, parameters in sent]
    first, *further = statements
    return SqlPage(name=name, when=purpose, statement=first.sql, plan=first.plan, further=further)


@pytest.mark.service
async def test_the_hot_statements_are_those_of_the_pages(world: World) -> None:
    pages = [await page_of(world, name, purpose, run) for name, (purpose, run) in PAGES.items()]
    async with world.database.reading() as connection:
        version = int((await connection.execute(text("SHOW server_version_num"))).scalar_one())
    compare_pages(FOLDER, pages, with_plans=version // 10_000 == PLANNED_BY)
