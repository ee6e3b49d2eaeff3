"""The triggerer hosts triggers like those that users write."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

import anyio
import pytest
from anyio.lowlevel import checkpoint
from sqlalchemy import select
from structlog.testing import capture_logs

from store.catalog import assets, catalog_sync, watchers
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database.schema import (
    asset_event,
    asset_store,
    asset_store_history,
    audit,
    queued_event,
    watcher_position,
    watcher_position_row,
)
from store.detection import positions
from store.detection.interest import NO_HOOKS
from store.errors import Conflict
from store.keys import JobDefinition
from store.processes import triggerers
from store.processes.triggerers import ProcessInfo
from tests.databases import on_both, statements_of
from tests.effort import PATIENCE
from tests.features import TABLES
from triggers.base import (
    BaseOptions,
    Facts,
    Finding,
    IncrementalTrigger,
    Position,
    RowChanges,
    StoredPosition,
    TriggerBatch,
    TriggerEvent,
)
from triggers.errors import ConfigurationError, SourceUnavailable
from watcher.host.health import Health
from watcher.host.metrics import Metrics
from watcher.host.metrics_snapshot import MetricsSnapshot
from watcher.triggerer import failures
from watcher.triggerer.clients import Clients, Hosted, ImportedTrigger, open_clients
from watcher.triggerer.committing import Committer
from watcher.triggerer.control import Control
from watcher.triggerer.supervisor import Supervisor
from watcher.triggerer.triggerer import Triggerer

pytestmark = pytest.mark.service
JOB = {"schedule": "tape", "batch": {"mode": "coalesce", "debounce": 0, "max_wait": 0, "max_events": 10}}


class Source:
    """A growing list. `grown` and `break_after` let a test act at a chosen moment."""

    def __init__(self, *, name: str = ""):
        self.name = name
        self.items: list[str] = []
        self.identity = "one"
        self.recognized = None
        self.break_after: int | None = None
        self.polls = 0
        self.stall: anyio.Event | None = None
        self.park_for: float | None = None
        self.parked: list[TapeTrigger] = []
        self.left: list[TapeTrigger] = []
        self.made = 0
        self.closing = lambda _trigger: None
        self.refuses_to_leave = False


SOURCES: dict[str, Source] = {}


class TapeOptions(BaseOptions):
    tape: str
    refuse: bool = False
    start: str = "all"


class TapeTrigger(IncrementalTrigger[TapeOptions, None]):
    """Emits one event for each item of a list, in order. The position is the number of items read."""

    Options = TapeOptions
    interval = timedelta(milliseconds=1)

    def __init__(self, options, client, context):
        super().__init__(options, client, context)
        if options.refuse:
            raise ConfigurationError("the tape is refused; give another one")
        self.source = SOURCES[options.tape]
        self.source.made += 1
        self.read = 0

    def rewound(self, _position, to):
        if not to.isdecimal():
            raise ConfigurationError(f"a tape has no place {to!r}; give a number")
        read = int(to)
        return Position(
            watermark={"read": read},
            state={"read": read},
            rows=RowChanges(clear=True, insert=dict.fromkeys(range(read), 0)),
        )

    def retold(self, kept, batch):
        return all(event.watermark["to"] <= kept.state["read"] for event in batch.events)

    async def check(self):
        if self.source.stall is not None:
            await self.source.stall.wait()
        return [Finding(check="tape", level="ok", message="the tape is there")]

    def source_identity(self):
        return {"tape": self.options.tape, "edition": self.source.identity}

    def recognizes(self, stored):
        return stored == {"tape": self.options.tape, "edition": self.source.recognized}

    async def events(self, position):
        try:
            async for batch in super().events(position):
                yield batch
        finally:
            self.source.closing(self)

    def park(self, on_wake):
        if self.source.park_for is None or self._is_woken:
            return None
        self._on_wake = on_wake
        self.source.parked.append(self)
        return self.source.park_for

    def unpark(self, *, for_good):
        super().unpark(for_good=for_good)
        if for_good:
            self.source.left.append(self)
            if self.source.refuses_to_leave:
                raise SystemExit("it does not want to")

    async def poll(self, position: StoredPosition | None) -> AsyncGenerator[TriggerBatch, None]:
        if position is not None:
            self.read = position.state["read"]
            assert set(position.rows) == set(range(self.read))
        self.source.polls += 1
        while self.read < len(self.source.items):
            start, self.read = self.read, self.read + 1
            item = self.source.items[start]
            yield TriggerBatch(
                events=[
                    TriggerEvent(count=1, watermark={"from": start, "to": self.read}, payload={"items": [item]}),
                ],
                position=Position(
                    watermark={"read": self.read}, state={"read": self.read}, rows=RowChanges(insert={start: 0})
                ),
                caught_up=self.read == len(self.source.items),
            )
            if self.source.break_after == self.read:
                self.source.break_after = None
                raise OSError("the tape broke")


@pytest.fixture
def source():
    name = uuid.uuid4().hex
    SOURCES[name] = Source(name=name)
    yield SOURCES[name]
    del SOURCES[name]


def declared(*names):
    return Declared(
        hash="",
        assets=[DeclaredAsset(name=name, uri=f"x-tape://{name}", group="", extra="{}") for name in names],
        watchers=[DeclaredWatcher(name=f"{name}_items", asset=name, trigger="tape") for name in names],
        jobs=[
            DeclaredJob(
                dag_id="listen",
                task_id="listen",
                definition=JobDefinition.from_json(json.dumps(JOB)),
                paused=True,
                assets={"schedule": names},
            )
        ],
    )


def hosted(tapes, asset_ids, refused=(), pause_after=None, start="all"):
    return {
        f"{name}_items": Hosted(
            name=f"{name}_items",
            asset=name,
            asset_id=asset_ids[name],
            trigger=ImportedTrigger(TapeTrigger),
            options=TapeOptions(tape=tape, refuse=name in refused, start=start),
            connection=None,
            facts=Facts(starts_now=start == "now"),
            pause_after=pause_after,
        )
        for name, tape in tapes.items()
    }


@asynccontextmanager
async def triggerer(
    database, tapes, *, process_id=None, refused=(), pause_after=None, start="all", health=None, **settings
):
    """Run a triggerer that hosts a watcher `<name>_items` for each tape."""
    async with database.transaction() as session:
        applied = await catalog_sync.apply(session, declared(*tapes), database.dialect)
    process = ProcessInfo(id=process_id or str(uuid.uuid4()), host="here", pid=1)
    committer = Committer(database=database, metrics=Metrics(), hooks=NO_HOOKS, on_events=lambda _dag_ids: None)
    async with anyio.create_task_group() as tasks:
        clients = Clients({}, tasks)

        def supervise(one):
            return Supervisor(
                hosted=one,
                owner=process.id,
                database=database,
                committer=committer,
                clients=clients,
                poll_timeout=timedelta(seconds=30),
            )

        running = Triggerer(
            database=database,
            process=process,
            hosted=hosted(tapes, applied.asset_ids, refused, pause_after, start),
            supervise=supervise,
            health=health or Health(),
            **{"heartbeat": timedelta(milliseconds=50), "lease": timedelta(seconds=5), **settings},
        )
        await tasks.start(running.run)
        yield running
        tasks.cancel_scope.cancel()


async def rows(database, statement):
    async with database.reading() as session:
        return (await session.execute(statement)).all()


async def items(database):
    found = await rows(database, select(asset_event.c.extra).order_by(asset_event.c.id))
    return [item for (extra,) in found for item in json.loads(extra)["items"]]


async def until(condition):
    with anyio.fail_after(PATIENCE):
        while not await condition():
            await anyio.sleep(0.005)


async def seen(database, number):
    async def enough():
        return len(await items(database)) >= number

    await until(enough)


async def in_state(database, name, state):
    async def reached():
        async with database.reading() as session:
            return (await watchers.get(session, name)).state == state

    await until(reached)


@on_both
async def test_every_item_becomes_one_event_with_a_queue_row_and_a_watermark(database, source):
    source.items = ["a", "b", "c"]
    async with triggerer(database, {"tape": source.name}):
        await seen(database, 3)
        await in_state(database, "tape_items", "running")
    assert await items(database) == ["a", "b", "c"]
    assert len(await rows(database, select(queued_event))) == 3
    ((value, kind, name),) = await rows(
        database,
        select(asset_store.c.value, asset_store.c.last_updated_by_kind, asset_store.c.last_updated_by_watcher),
    )
    assert (json.loads(value), kind, name) == ({"read": 3}, "watcher", "tape_items")
    assert len(await rows(database, select(asset_store_history))) == 3


@on_both
async def test_a_restart_continues_at_the_last_commit(database, source):
    source.items = ["a", "b"]
    async with triggerer(database, {"tape": source.name}):
        await seen(database, 2)
    source.items += ["c"]
    async with triggerer(database, {"tape": source.name}):
        await seen(database, 3)
    assert await items(database) == ["a", "b", "c"]
    ids = [event_id for (event_id,) in await rows(database, select(asset_event.c.event_id))]
    assert len(set(ids)) == 3


async def test_a_failing_trigger_is_started_again_and_repeats_nothing(database, source):
    source.items = [str(n) for n in range(6)]
    source.break_after = 3
    async with triggerer(database, {"tape": source.name}):
        await seen(database, 6)
        await in_state(database, "tape_items", "running")
    assert Counter(await items(database)) == Counter(source.items)


@pytest.mark.feature("problems")
async def test_a_watcher_that_fails_again_and_again_is_unstable_while_it_works(database, source, monkeypatch):
    from watcher.features.problems.reading import of_watcher  # noqa: PLC0415  a tree without the feature lacks it

    source.items = [str(n) for n in range(4)]
    source.break_after = 3
    async with triggerer(database, {"tape": source.name}):
        await seen(database, 4)
        await in_state(database, "tape_items", "running")
        source.break_after = 5
        source.items += ["4", "5"]
        await in_state(database, "tape_items", "unstable")
        await seen(database, 6)
        async with database.reading() as session:
            [row] = [row for row in await watchers.listed(session) if row.name == "tape_items"]
        assert row.error == "it works now, but 2 of its polls failed within the hour; the last: the tape broke"
        assert row.error_count == 2
        [problem] = of_watcher(row)
        assert (problem.kind, problem.level) == ("watcher_failing", "warning")
        assert problem.since is not None

        source.park_for = 3600.0
        while not source.parked:
            await anyio.sleep(0.005)
        monkeypatch.setattr(failures, "LOOKING_BACK", timedelta(0))
        await in_state(database, "tape_items", "running")
        async with database.reading() as session:
            row = await watchers.get(session, "tape_items")
        assert (row.error, row.failing_since) == (None, None)


async def test_a_failing_constructor_is_only_its_own_watchers_error(database, source):
    source.items = ["a"]
    tapes = {"good": source.name, "bad": source.name}
    async with triggerer(database, tapes, refused={"bad"}):
        await seen(database, 1)
        await in_state(database, "bad_items", "failing")
        async with database.reading() as session:
            bad = await watchers.get(session, "bad_items")
    assert (bad.error, bad.error_count) == ("the tape is refused; give another one", 1)


async def test_another_source_under_the_same_name_is_blocked_and_emits_nothing(database, source):
    source.items = ["a"]
    async with triggerer(database, {"tape": source.name}):
        await seen(database, 1)
    source.identity, source.items = "two", ["x", "y"]
    async with triggerer(database, {"tape": source.name}):
        await in_state(database, "tape_items", "blocked")
        async with database.reading() as session:
            error = (await watchers.get(session, "tape_items")).error or ""
    assert "edition was 'one' and is 'two'" in error
    assert "watcher rewind tape_items" in error
    assert await items(database) == ["a"]


async def test_a_source_that_is_recognized_goes_on_and_the_position_keeps_its_identity(database, source):
    source.items = ["a"]
    tapes = {"tape": source.name}
    async with triggerer(database, tapes):
        await seen(database, 1)
    source.identity, source.recognized = "two", "one"
    source.items.append("b")
    async with triggerer(database, tapes):
        await seen(database, 2)
    async with controlled(database, tapes) as control:
        await control.rewind("tape_items", "1", "maria")
    async with triggerer(database, tapes):
        await seen(database, 3)
    [row] = await rows(database, select(watcher_position))
    assert json.loads(row.source_identity) == {"tape": source.name, "edition": "one"}
    assert await items(database) == ["a", "b", "b"]


async def test_a_paused_watcher_emits_nothing_and_catches_up_after_resume(database, source):
    source.items = ["a"]
    async with triggerer(database, {"tape": source.name}) as running:
        await seen(database, 1)
        async with database.transaction() as session:
            await watchers.set_paused(session, "tape_items", paused=True)

        async def let_go():
            return "tape_items" not in running._running

        await until(let_go)
        polls = source.polls
        source.items += ["b"]
        assert source.polls == polls
        async with database.transaction() as session:
            await watchers.set_paused(session, "tape_items", paused=False)
        await seen(database, 2)
    assert await items(database) == ["a", "b"]


@pytest.mark.feature("problems")
@on_both
async def test_a_watcher_that_only_fails_is_paused_and_reported_until_somebody_resumes_it(database, source):
    from watcher.features.problems.reading import of_watcher  # noqa: PLC0415  a tree without the feature lacks it

    async with triggerer(database, {"tape": source.name}, refused=("tape",), pause_after=2) as running:

        async def is_let_go():
            row = await state()
            return row.has_given_up and row.owner is None and "tape_items" not in running._running

        async def state():
            async with database.reading() as session:
                return await watchers.get(session, "tape_items")

        await until(is_let_go)
        row = await state()
        assert (row.state, row.error_count) == ("paused", 2)
        assert row.error.startswith(
            "2 polls in a row failed, so it was paused; correct the cause and `watcher resume tape_items`"
        )
        assert "the tape is refused" in row.error
        assert [problem.kind for problem in of_watcher(row)] == ["watcher_failing"]
        [entry] = await rows(database, select(audit.c.actor, audit.c.action, audit.c.target, audit.c.detail))
        assert entry[:3] == ("watcher", "watcher.pause", "tape_items")
        assert json.loads(entry.detail)["failures"] == 2
        async with database.transaction() as session:
            await watchers.set_paused(session, "tape_items", paused=True)
        assert [*of_watcher(await state())] == [], "now a person has paused it"


@on_both
async def test_a_slowly_recorded_state_does_not_hide_that_the_watcher_gave_up(database, source, monkeypatch):
    recorded, given_up = [], anyio.Event()
    set_states, give_up = watchers.set_states, watchers.give_up

    async def slow_set_states(connection, owner, states):
        with anyio.move_on_after(0.2):
            await given_up.wait()
        await set_states(connection, owner, states)
        recorded.extend(state.error for state in states.values())

    async def told_give_up(connection, owner, name, *, error, error_count):
        paused = await give_up(connection, owner, name, error=error, error_count=error_count)
        recorded.append(error)
        given_up.set()
        return paused

    monkeypatch.setattr(watchers, "set_states", slow_set_states)
    monkeypatch.setattr(watchers, "give_up", told_give_up)
    async with triggerer(database, {"tape": source.name}, refused=("tape",), pause_after=1):

        async def is_let_go():
            async with database.reading() as session:
                row = await watchers.get(session, "tape_items")
            return row.has_given_up and row.owner is None

        await until(is_let_go)
    assert "watcher resume tape_items" in recorded[-1]
    assert len(set(recorded[recorded.index(recorded[-1]) :])) == 1, "nothing older comes after it"


@on_both
async def test_of_many_watchers_some_begin_at_a_time_and_none_waits_for_ever(database, source, monkeypatch):
    """Two of six may begin together, and one more at each check while those hang."""
    monkeypatch.setattr("watcher.triggerer.triggerer.BEGIN_TOGETHER", 2)
    monkeypatch.setattr("watcher.triggerer.triggerer.BEGIN_ANYHOW", 1)
    health, source.stall = Health(), anyio.Event()
    tapes = dict.fromkeys(["a", "b", "c", "d", "e", "f"], source.name)
    async with triggerer(database, tapes, health=health, heartbeat=AGES, lease=AGES) as running:
        assert [*running._running] == ["a_items", "b_items"]
        assert health.reasons(None) == ["4 watchers have not begun yet; wait until they have"]

        async def one_more_has_begun():
            return len(running._running) > 2

        await until(one_more_has_begun)
        assert [*running._running][2] == "c_items"
        source.stall.set()
        for name in tapes:
            await in_state(database, f"{name}_items", "running")
        assert health.reasons(None) == []


@on_both
async def test_watchers_that_another_process_has_not_released_delay_no_other(database, source, monkeypatch):
    for bound in ("BEGIN_TOGETHER", "BEGIN_ANYHOW"):
        monkeypatch.setattr(f"watcher.triggerer.triggerer.{bound}", 1)
    tapes = dict.fromkeys(["a", "b", "c"], source.name)
    async with database.transaction() as session:
        await catalog_sync.apply(session, declared(*tapes), database.dialect)
        await triggerers.beat(session, ProcessInfo(id=ONE, host="there", pid=1), AGES, database.dialect, capacity=0)
        for name in ("a_items", "b_items"):
            await positions.claim(session, name, ONE, database.dialect)
    health = Health()
    async with triggerer(database, tapes, health=health, heartbeat=AGES, lease=AGES) as running:
        await in_state(database, "c_items", "running")
        assert [*running._running] == ["c_items"]
        assert running._unclaimed == {"a_items", "b_items"}
        assert health.to_begin == 0


async def test_a_watcher_resumed_before_its_host_released_it_counts_failures_anew(database, source):
    audited = select(audit.c.detail).order_by(audit.c.id)
    async with triggerer(database, {"tape": source.name}, refused=("tape",), pause_after=2, heartbeat=AGES, lease=AGES):

        async def has_given_up(times):
            return len(await rows(database, audited)) == times

        for times in (1, 2):
            await until(partial(has_given_up, times))
            async with database.transaction() as session:
                await watchers.set_paused(session, "tape_items", paused=False)
    assert [json.loads(detail)["failures"] for (detail,) in await rows(database, audited)] == [2, 2]


async def test_failures_with_a_success_between_them_do_not_pause_the_watcher(database, source):
    source.items, source.break_after = ["a"], 1
    async with triggerer(database, {"tape": source.name}, pause_after=2):
        for count in (2, 3):
            await until(lambda: works(database))
            source.break_after = count
            source.items.append("b")
            await seen(database, count)
        await until(lambda: works(database))
    assert (await rows(database, select(audit.c.action))) == []


async def works(database):
    async with database.reading() as session:
        return (await watchers.get(session, "tape_items")).state in {"running", "unstable"}


@on_both
async def test_a_triggerer_that_lost_a_position_commits_nothing_more_to_it(database, source):
    """Another owner takes over between two commits, as after an expired lease."""
    source.items = ["a"]
    thief = ProcessInfo(id="00000000-0000-0000-0000-00000000beef", host="there", pid=2)
    with capture_logs() as records:
        async with triggerer(database, {"tape": source.name}):
            await seen(database, 1)
            async with database.transaction() as session:
                await triggerers.beat(session, thief, timedelta(minutes=5), database.dialect)
                taken = {"owner": thief.id, "epoch": watcher_position.c.epoch + 1}
                await session.execute(watcher_position.update().values(**taken))
            source.items += ["b"]

            async def refused():
                return any(record["event"] == "watcher.position_lost" for record in records)

            await until(refused)
    assert await items(database) == ["a"]
    ((owner, version),) = await rows(database, select(watcher_position.c.owner, watcher_position.c.version))
    assert (owner, version) == (thief.id, 1)


@asynccontextmanager
async def controlled(database, tapes, poll_timeout=timedelta(seconds=30)):
    """Return the control of positions, with or without a running triggerer."""
    async with database.reading() as session:
        asset_ids = await assets.ids_by_name(session)
    async with open_clients({}) as clients:
        yield Control(
            tables=TABLES,
            database=database,
            hosted=hosted(tapes, asset_ids),
            clients=clients,
            poll_timeout=poll_timeout,
        )


async def test_a_dry_run_shows_what_the_next_poll_would_emit_and_changes_nothing(database, source):
    source.items = ["a"]
    tapes = {"tape": source.name}
    async with triggerer(database, tapes):
        await seen(database, 1)
    source.items += ["b", "c"]
    before = await rows(database, select(watcher_position))
    async with controlled(database, tapes) as control:
        found = await control.dry_run("tape_items")
    assert (found.items, found.events, [event["items"] for event in found.shown]) == (2, 2, [["b"], ["c"]])
    assert found.runs == {"listen": 1}
    assert await rows(database, select(watcher_position)) == before
    assert await items(database) == ["a"]


QUESTIONS = {
    "dry run": lambda control: control.dry_run("tape_items"),
    "preview": lambda control: control.preview("tape_items", "0"),
    "rewind": lambda control: control.rewind("tape_items", "0", "maria"),
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
async def test_a_dry_run_of_a_source_that_hangs_ends_at_its_time_limit(database, source, ask):
    source.items = ["a"]
    tapes = {"tape": source.name}
    async with triggerer(database, tapes):
        await seen(database, 1)
    before, source.stall = await rows(database, select(watcher_position)), anyio.Event()
    async with controlled(database, tapes, timedelta(milliseconds=50)) as control:
        with anyio.fail_after(PATIENCE), pytest.raises(SourceUnavailable, match=r"did not answer within 0\.05 s"):
            await ask(control)
    assert await rows(database, select(watcher_position)) == before


async def test_a_dry_run_of_a_trigger_that_never_waits_ends_at_its_time_limit_and_lets_others_run(database, source):
    source.items = range(200_000)
    async with database.transaction() as session:
        await catalog_sync.apply(session, declared("tape"), database.dialect)
    others = 0
    async with controlled(database, {"tape": source.name}, timedelta(milliseconds=50)) as control:

        async def go_on():
            nonlocal others
            while True:
                others += 1
                await checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on)
            with pytest.raises(SourceUnavailable, match="did not answer"):
                await control.dry_run("tape_items")
            tasks.cancel_scope.cancel()
    assert others > 10


async def test_a_rewind_of_a_running_watcher_repeats_items_and_is_in_audit_and_history(database, source):
    source.items = ["a", "b", "c"]
    tapes = {"tape": source.name}
    async with triggerer(database, tapes), controlled(database, tapes) as control:
        await seen(database, 3)
        assert (await control.preview("tape_items", "1")).items == 2
        moved = await control.rewind("tape_items", "1", "maria")
        assert moved.watermark == {"read": 1}
        await seen(database, 5)
        await in_state(database, "tape_items", "running")
    assert await items(database) == ["a", "b", "c", "b", "c"]
    ((action, actor, write_id),) = await rows(database, select(audit.c.action, audit.c.actor, audit.c.write_id))
    assert (action, actor) == ("watcher.rewind", "maria")
    ((kind, who),) = await rows(
        database,
        select(asset_store_history.c.kind, asset_store_history.c.actor).where(
            asset_store_history.c.write_id == write_id
        ),
    )
    assert (kind, who) == ("api", "maria")


@on_both
async def test_an_undo_restores_the_whole_position_unless_something_would_be_emitted_again(database, source):
    source.items = ["a", "b", "c"]
    tapes = {"tape": source.name}
    async with triggerer(database, tapes):
        await seen(database, 3)
    kept = select(watcher_position.c.state, watcher_position.c.watermark)
    members = select(watcher_position_row).where(watcher_position_row.c.watcher == "tape_items").order_by("member")
    before = await rows(database, kept), await rows(database, members)
    async with controlled(database, tapes) as control:
        version = (await control.rewind("tape_items", "0", "maria")).version
        assert await rows(database, members) == []
        undone = await control.undo("tape_items", "maria")
        assert (undone.version, undone.events) == (version + 1, 0)
        assert (await rows(database, kept), await rows(database, members)) == before
        with pytest.raises(Conflict, match="no rewind to undo"):
            await control.undo("tape_items", "maria")
        await control.rewind("tape_items", "1", "maria")
        async with triggerer(database, tapes):
            await seen(database, 5)
        undone = await control.undo("tape_items", "maria")  # only items that had been emitted before were emitted again
        assert undone.events == 2
        assert (await rows(database, kept), await rows(database, members)) == before
        await control.rewind("tape_items", "1", "maria")
        source.items += ["d"]
        async with triggerer(database, tapes):
            await seen(database, 8)
        with pytest.raises(
            Conflict,
            match="no rewind to undo; since then it emitted 1 item in 1 event, up to 4; not all of them were emitted before it",
        ):
            await control.undo("tape_items", "maria")
    assert Counter(await items(database)) == {"a": 1, "b": 3, "c": 3, "d": 1}


async def is_parked(running, times=1):
    """Return whether the trigger was parked this many times and still is."""
    [name] = running.hosted
    source = SOURCES[running.hosted[name].options.tape]

    async def without_a_task():
        return len(source.parked) == times and running._running[name].task is None

    await until(without_a_task)
    return source.parked[-1]


async def is_let_go(running, name):
    async def neither_runs_nor_ends():
        return name not in running._running.keys() | running._ending.keys()

    await until(neither_runs_nor_ends)


@on_both
async def test_a_watcher_whose_trigger_only_waits_has_no_task_until_it_is_woken(database, source):
    source.park_for, source.items = 3600.0, ["a"]
    async with triggerer(database, {"tape": source.name}) as running:
        trigger = await is_parked(running)
        for times, item in enumerate("bcd", start=2):
            source.items += [item]
            trigger.wake()
            await seen(database, times)
            assert await is_parked(running, times) is trigger
        assert source.polls == 4
        await in_state(database, "tape_items", "running")
    assert await items(database) == ["a", "b", "c", "d"]
    assert (source.made, source.left) == (1, [trigger]), "the same goes on, and learns that it is over"


async def test_a_hint_while_a_trigger_is_being_parked_is_not_lost(database, source):
    """Nothing else would wake the trigger within the hour."""
    source.park_for, source.items = 3600.0, ["a"]

    def wake_once(trigger):
        source.closing = lambda _trigger: None
        source.items += ["b"]
        trigger.wake()

    source.closing = wake_once
    async with triggerer(database, {"tape": source.name}) as running:
        await seen(database, 2)
        await is_parked(running, 2)
    assert await items(database) == ["a", "b"]


async def test_a_parked_watcher_resumes_when_its_time_has_come(database, source, monkeypatch):
    monkeypatch.setattr("watcher.triggerer.supervisor.WORTH_PARKING", 0.0)
    source.park_for, source.items = 0.5, ["a"]
    async with triggerer(database, {"tape": source.name}) as running:
        await is_parked(running)
        source.items += ["b"]
        await seen(database, 2)
    assert source.made == 1


@on_both
async def test_a_rewind_moves_a_parked_watcher(database, source):
    source.park_for, source.items = 3600.0, ["a", "b"]
    tapes = {"tape": source.name}
    async with triggerer(database, tapes) as running, controlled(database, tapes) as control:
        before = await is_parked(running)
        await control.rewind("tape_items", "1", "maria")
        await seen(database, 3)
        assert await is_parked(running, 2) is not before
        assert source.left == [before]
    assert await items(database) == ["a", "b", "b"]


async def test_a_parked_watcher_is_paused_resumed_and_released_like_any_other(database, source):
    source.park_for, source.items = 3600.0, ["a"]
    async with triggerer(database, {"tape": source.name}) as running:
        trigger = await is_parked(running)
        async with database.transaction() as session:
            await watchers.set_paused(session, "tape_items", paused=True)

        await is_let_go(running, "tape_items")
        assert source.left == [trigger]
        source.items += ["b"]
        trigger.wake()
        assert running._running == {}
        async with database.transaction() as session:
            await watchers.set_paused(session, "tape_items", paused=False)
        await seen(database, 2)
        await is_parked(running, 2)
    async with database.reading() as session:
        assert (await watchers.get(session, "tape_items")).owner is None
    assert await items(database) == ["a", "b"]


@pytest.mark.parametrize("how", ["fails", "rests", "is parked"])
async def test_a_watcher_that_is_asked_polls_now(database, source, monkeypatch, how):
    hour = timedelta(hours=1)
    monkeypatch.setattr(TapeTrigger, "interval", hour)
    monkeypatch.setattr(failures, "backoff", lambda *_, **__: hour)
    source.items = ["a"]
    source.break_after = 1 if how == "fails" else None
    source.park_for = hour.total_seconds() if how == "is parked" else None
    async with triggerer(database, {"tape": source.name}) as running:
        await seen(database, 1)
        supervised = running._running["tape_items"]

        async def waits():
            trigger = supervised.supervisor.report.trigger
            is_at_rest = trigger is not None and trigger.trigger._on_wake is not None
            return is_at_rest if how != "fails" else supervised.supervisor.report.retry_at is not None

        await until(waits)
        source.items += ["b"]
        running.poll_now(frozenset())
        await checkpoint()
        assert await waits(), "no names are none"
        running.poll_now(frozenset({"tape_items", "unknown"}))
        await seen(database, 2)
        await until(lambda: in_state_now(database, "running"))
        assert supervised.supervisor.report.retry_at is None
    assert await items(database) == ["a", "b"]


async def in_state_now(database, state):
    async with database.reading() as session:
        return (await watchers.get(session, "tape_items")).state == state


async def test_a_trigger_that_raises_when_it_is_discarded_stops_no_other_watcher(database, source):
    source.park_for, source.items, source.refuses_to_leave = 3600.0, ["a"], True
    with capture_logs() as logs:
        async with triggerer(database, {"tape": source.name}) as running:
            await is_parked(running)
            async with database.transaction() as session:
                await watchers.set_paused(session, "tape_items", paused=True)
            await is_let_go(running, "tape_items")
            async with database.transaction() as session:
                await watchers.set_paused(session, "tape_items", paused=False)
            await is_parked(running, 2)
    assert len(source.left) == 2, "paused, and at the end"
    told = [record for record in logs if record["event"] == "watcher.not_unparked"]
    assert [record["watcher"] for record in told] == ["tape_items"] * 2
    assert all("it does not want to" in record["error"] for record in told)
    async with database.reading() as session:
        assert (await watchers.get(session, "tape_items")).owner is None


async def test_a_watcher_that_fails_after_it_was_parked_starts_again(database, source):
    source.park_for, source.items = 3600.0, ["a"]
    async with triggerer(database, {"tape": source.name}) as running:
        trigger = await is_parked(running)
        source.items, source.break_after = ["a", "b", "c"], 2
        trigger.wake()
        await seen(database, 3)
        assert await is_parked(running, 2) is not trigger
    assert source.made == 2
    assert await items(database) == ["a", "b", "c"]


async def test_a_rewind_decides_for_a_blocked_watcher(database, source):
    source.items = ["a"]
    tapes = {"tape": source.name}
    async with triggerer(database, tapes):
        await seen(database, 1)
    source.identity, source.items = "two", ["x", "y"]
    async with controlled(database, tapes) as control:
        await control.rewind("tape_items", "0", "maria")
    async with triggerer(database, tapes):
        await seen(database, 3)
    assert await items(database) == ["a", "x", "y"]


async def test_a_place_that_the_source_does_not_have_changes_nothing(database, source):
    source.items = ["a"]
    tapes = {"tape": source.name}
    async with triggerer(database, tapes):
        await seen(database, 1)
    before = await rows(database, select(watcher_position))
    async with controlled(database, tapes) as control:
        with pytest.raises(ConfigurationError, match="a tape has no place 'yesterday'; give a number"):
            await control.rewind("tape_items", "yesterday", "maria")
    assert await rows(database, select(watcher_position)) == before


async def test_two_triggerers_share_the_watchers_and_one_that_leaves_hands_over(database, source):
    source.items = ["a"]
    tapes = {f"tape{n}": source.name for n in range(6)}
    async with triggerer(database, tapes, process_id="11111111-1111-1111-1111-111111111111") as first:
        async with triggerer(database, tapes, process_id="22222222-2222-2222-2222-222222222222") as second:

            async def shared():
                both = [set(first._running), set(second._running)]
                return all(both) and not (both[0] & both[1]) and both[0] | both[1] == {f"{n}_items" for n in tapes}

            await until(shared)

        async def all_back():
            return len(first._running) == 6

        await until(all_back)
        source.items += ["b"]
        await seen(database, 12)
    assert Counter(await items(database)) == Counter({"a": 6, "b": 6})


ONE, TWO = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
AGES = timedelta(days=1)


async def hosts(running, number):
    async def hosted_here():
        return len(running._running) == number

    await until(hosted_here)


async def test_the_positions_of_a_dead_triggerer_are_claimed_by_one_statement_when_its_lease_ends(database, source):
    """The next regular heartbeat of the living triggerer is tomorrow."""
    source.items = ["a"]
    tapes = {f"tape{n}": source.name for n in range(20)}
    async with database.transaction() as session:
        await catalog_sync.apply(session, declared(*tapes), database.dialect)
        dead = ProcessInfo(id=ONE, host="gone", pid=1)
        await triggerers.beat(session, dead, timedelta(seconds=1), database.dialect)
        names = dict.fromkeys((f"{name}_items" for name in tapes), 1)
        await positions.claim_all(session, names, ONE, database.dialect)
    async with triggerer(database, tapes, process_id=TWO, heartbeat=AGES, lease=AGES) as running:
        with statements_of(database) as sent:
            await hosts(running, 20)
            await seen(database, 20)
        claims = [statement for statement, _ in sent if "json_each" in statement]
        assert len(claims) <= 2, (
            "one of those that were its own from the start, if it was not in time, and one of the rest"
        )
    assert Counter(await items(database)) == Counter({"a": 20})


async def one_that_seems_to_live(database, tapes):
    """Leave a triggerer that was killed with all positions claimed and nothing committed. Its lease ends tomorrow."""
    async with database.transaction() as session:
        await catalog_sync.apply(session, declared(*tapes), database.dialect)
        await triggerers.beat(session, ProcessInfo(id=ONE, host="gone", pid=1), AGES, database.dialect)
        await positions.claim_all(session, {f"{name}_items": 1 for name in tapes}, ONE, database.dialect)


@on_both
async def test_readiness_waits_for_watchers_that_start_at_now_until_the_lease_of_a_dead_host_ends(database, source):
    tapes = {f"tape{n}": source.name for n in range(8)}
    await one_that_seems_to_live(database, tapes)
    async with database.transaction() as session:
        await watchers.set_paused(session, "tape0_items", paused=True)
    async with triggerer(database, tapes, process_id=TWO, start="now") as running:
        assert running.health.unhosted == {f"tape{n}_items" for n in range(1, 8)}
        assert len(running.health.reasons(None)) == 7
        assert running.health.reasons(None)[0].startswith("the watcher tape1_items has no position yet, starts at now")
        async with database.transaction() as session:
            await triggerers.leave(session, ONE)
        await hosts(running, 7)
        await until(lambda: _is(_unhosted(running), frozenset()))


@on_both
async def test_readiness_does_not_wait_for_watchers_that_a_living_process_hosts(database, source):
    """Not even for watchers that fall to this process and that the other has not released."""
    tapes = {f"tape{n}": source.name for n in range(8)}
    await one_that_seems_to_live(database, tapes)
    async with triggerer(database, tapes, process_id=TWO, start="now") as running:
        assert len(running.health.unhosted) == 8
        async with database.transaction() as session:
            await triggerers.beat(session, ProcessInfo(id=ONE, host="there", pid=1), AGES, database.dialect)
        await until(lambda: _is(_unhosted(running), frozenset()))
        assert running._unclaimed


@pytest.mark.parametrize(("start", "capacity"), [("all", 10), ("now", 0)])
async def test_readiness_waits_for_no_watcher_that_starts_at_all_or_is_unassigned(database, source, start, capacity):
    tapes = {f"tape{n}": source.name for n in range(8)}
    await one_that_seems_to_live(database, tapes)
    async with database.transaction() as session:
        dead = ProcessInfo(id=ONE, host="gone", pid=1)
        await triggerers.beat(session, dead, AGES, database.dialect, capacity=0)
    async with triggerer(database, tapes, process_id=TWO, start=start, capacity=capacity) as running:
        assert running.health.unhosted == frozenset()


async def _unhosted(running):
    return running.health.unhosted


@pytest.mark.feature("problems")
async def test_watchers_over_the_capacity_are_unassigned_and_named_until_there_is_room(database, source):
    from watcher.features.problems.reading import of_watcher  # noqa: PLC0415  a tree without the feature lacks it

    source.items = ["a"]
    tapes = {f"tape{n}": source.name for n in range(5)}
    async with triggerer(database, tapes, process_id=ONE, capacity=3) as first:
        await seen(database, 3)
        await in_state(database, "tape3_items", "stopped")
        assert sorted(first.health.left_out) == ["tape3_items", "tape4_items"]

        async def named():
            async with database.reading() as session:
                return [row.name for row in await watchers.listed(session) if row.is_unassigned]

        await until(lambda: _is(named(), ["tape3_items", "tape4_items"]))
        async with database.reading() as session:
            problems = [each for row in await watchers.listed(session) for each in of_watcher(row)]
        assert [each.public.split(":")[0] for each in problems] == [
            "nobody hosts the watcher tape3_items",
            "nobody hosts the watcher tape4_items",
        ]
        async with triggerer(database, tapes, process_id=TWO, capacity=1) as second:
            await until(lambda: _is(named(), ["tape4_items"]))
            await hosts(second, 1)
            await hosts(first, 3)
            async with database.reading() as session:
                listed = await watchers.listed(session)
            text, _ = Metrics().exposition(MetricsSnapshot(is_ready=True, has_database=True, watchers=listed))
            shown = text.decode()
            assert 'watcher_left_out{asset="tape4",watcher="tape4_items"} 1.0' in shown
            assert 'watcher_left_out{asset="tape3",watcher="tape3_items"} 0.0' in shown
        await until(lambda: _is(named(), ["tape3_items", "tape4_items"]))
    async with triggerer(database, tapes) as alone:
        await seen(database, 5)
        assert alone.health.left_out == {}
        await until(lambda: _is(named(), []))
    assert Counter(await items(database)) == Counter({"a": 5})


async def _is(answer, expected):
    return await answer == expected


async def test_a_position_in_a_newer_format_is_left_to_a_process_that_can_read_it(database, source):
    source.items = ["a"]
    async with triggerer(database, {"tape": source.name}):
        await seen(database, 1)
    async with database.transaction() as session:
        await session.execute(watcher_position.update().values(format=2))
    source.items = ["a", "b"]
    async with triggerer(database, {"tape": source.name}) as running:

        async def named():
            async with database.reading() as session:
                return (await watchers.get(session, "tape_items")).is_unassigned

        await until(named)
        assert "format 2" in running.health.left_out["tape_items"]
    assert await items(database) == ["a"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TapeTrigger, "format", 2)
        async with triggerer(database, {"tape": source.name}):
            await seen(database, 2)
    assert await rows(database, select(watcher_position.c.format)) == [(2,)]


async def test_a_triggerer_that_slept_past_its_lease_records_nothing_about_watchers_hosted_elsewhere(database, source):
    """The rows of position and state stay the other's. This one starts again when it may."""
    source.items = ["a"]
    async with triggerer(database, {"tape": source.name}, process_id=ONE, heartbeat=AGES) as slept:
        await seen(database, 1)
        await in_state(database, "tape_items", "running")
        async with database.transaction() as session:
            await triggerers.beat(session, ProcessInfo(id=TWO, host="there", pid=2), AGES, database.dialect)
            await triggerers.beat(session, slept.process, timedelta(seconds=-1), database.dialect)
            await positions.claim(session, "tape_items", TWO, database.dialect)
            await watchers.set_state(session, "tape_items", "failing", error="theirs", error_count=1)
        before = await rows(database, select(watcher_position))
        slept._states.show("tape_items", watchers.WatcherState(state="running"))
        assert await slept._states.flush()
        source.items += ["b"]
        slept.wakeup.set()

        async def noticed():
            supervisor = slept._running.get("tape_items")
            return supervisor is None or supervisor.supervisor._held is None

        await until(noticed)
    assert await items(database) == ["a"]
    assert await rows(database, select(watcher_position)) == before
    async with database.reading() as session:
        assert (await watchers.get(session, "tape_items")).error == "theirs"


async def test_a_stop_releases_every_position(database, source):
    source.items = ["a"]
    async with triggerer(database, {"tape": source.name}):
        await seen(database, 1)
    ((owner,),) = await rows(database, select(watcher_position.c.owner))
    assert owner is None
    async with database.transaction() as session:
        assert await positions.claim(session, "tape_items", "33333333-3333-3333-3333-333333333333", database.dialect)


@on_both
async def test_a_watchers_lag_is_recorded_with_the_heartbeat_and_readiness_waits_for_its_first_position(
    database, source
):
    source.items.append("one")
    health = Health()
    async with triggerer(database, {"tape": source.name}, health=health), anyio.create_task_group() as tasks:
        tasks.cancel_scope.deadline = anyio.current_time() + PATIENCE
        report = health.watchers["tape_items"]
        while not report.has_position or report.whole_since is None:
            await anyio.sleep(0.01)
        row = None
        while row is None or row.lag_seconds is None:
            async with database.reading() as connection:
                row = await watchers.get(connection, "tape_items")
            await anyio.sleep(0.01)
    assert not tasks.cancel_scope.cancelled_caught
    assert row.last_poll_at is not None
    assert health.beat_of("triggerer") is not None
    assert not report.is_awaited
