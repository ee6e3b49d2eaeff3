"""Group commit: the detections of many watchers in one transaction are as exact as in transactions of their own."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import anyio
import pytest
import structlog
from sqlalchemy import event, select, text
from sqlalchemy.exc import IntegrityError

from store.catalog import catalog_sync, watchers
from store.database import Database
from store.database.schema import (
    asset_event,
    asset_store,
    asset_store_history,
    queued_event,
    watcher,
    watcher_position,
    watcher_position_row,
)
from store.detection import rewind
from store.detection.interest import NO_HOOKS
from store.detection.positions import NewPosition
from store.errors import CommitUnknown, NotFound, PositionLost
from tests.databases import both_in_long_form, counted_commits, on_both
from tests.effort import PATIENCE, SEED, effort
from tests.service.store.words import declared, rows
from tests.service.triggerer.group_world import Detector, detectors
from watcher.triggerer.group_commit import GroupCommit

pytestmark = pytest.mark.service


SLOW_COMMIT = (
    "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'",
    "CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON watcher_position DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
)


ENDED_TWICE = (
    "CREATE SEQUENCE ends",
    """CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF nextval('ends') <= 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NULL; END $$""",
    "CREATE TRIGGER ends AFTER INSERT ON asset_event EXECUTE FUNCTION ends()",
)
"""A sequence is not rolled back, so it counts the sessions that end."""


async def numbers(database: Database) -> dict[str, list[int]]:
    """Return the numbers that each watcher emitted, in the order of the events' ids."""
    told: dict[str, list[int]] = {}
    for row in await rows(database, asset_event):
        told.setdefault(row["source_watcher"], []).append(json.loads(row["extra"])["number"])
    return told


async def assert_whole(database: Database) -> int:
    """Check that every part of every detection is stored, and nothing else. Return the number of detections."""
    told = await numbers(database)
    positions = {row["watcher"]: row for row in await rows(database, watcher_position)}
    assert all(told[name] == list(range(1, len(told[name]) + 1)) for name in told)
    count = {name: int(row["state"] or 0) for name, row in positions.items()}
    assert count == {name: len(told.get(name, ())) for name in positions}
    assert count == {name: positions[name]["version"] for name in positions}
    assert Counter(row["watcher"] for row in await rows(database, watcher_position_row)) == Counter(+Counter(count))
    entries = {row["last_updated_by_watcher"]: row for row in await rows(database, asset_store)}
    assert {name: (int(row["value"]), row["version"]) for name, row in entries.items()} == {
        name: (number, number) for name, number in count.items() if number
    }
    written = {row["write_id"] for row in await rows(database, asset_store_history)}
    assert written == {f"{name}-{number}" for name in told for number in told[name]}
    assert len(await rows(database, queued_event)) == sum(count.values())
    seen = {row["name"] for row in await rows(database, watcher) if row["last_event_at"] is not None}
    assert seen == set(told)
    return sum(count.values())


async def all_detect(group: GroupCommit, every: Sequence[Detector], times: int = 1) -> None:
    async def detect(one: Detector) -> None:
        for _ in range(times):
            await one.detect(group)

    async with anyio.create_task_group() as tasks:
        for one in every:
            tasks.start_soon(detect, one)


async def outcomes(group: GroupCommit, *found: Any) -> list[Any]:
    """Return the outcomes of simultaneous detections. The first is committed alone: it does not wait for others."""
    ends: list[Any] = [None] * len(found)

    async def commit(place: int) -> None:
        try:
            ends[place] = (await group.commit(found[place])).dag_ids
        except Exception as error:  # noqa: BLE001  whatever it was
            ends[place] = error

    async with anyio.create_task_group() as tasks:
        for place in range(len(found)):
            tasks.start_soon(commit, place)
    return ends


@on_both
async def test_detections_that_become_ready_during_a_commit_are_committed_together_and_complete(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.detection.detections.LONGEST_WRITING", 60.0)
    every = await detectors(database, 12)
    group = GroupCommit(database, NO_HOOKS)
    with counted_commits(database) as commits:
        await all_detect(group, every, times=5)
    assert await assert_whole(database) == 60
    assert len(commits) <= 30


async def test_of_many_busy_watchers_one_half_makes_batches_while_the_other_is_committed(
    database: Database,
) -> None:
    every = await detectors(database, 60)
    with counted_commits(database) as commits:
        await all_detect(GroupCommit(database, NO_HOOKS), every, times=6)
    assert await assert_whole(database) == 360
    assert 10 <= len(commits) <= 30, "all at once would be six, and nobody would work while the database does"


@on_both
async def test_a_poisoned_member_fails_alone(database: Database) -> None:
    first, *others = await detectors(database, 6)
    group = GroupCommit(database, NO_HOOKS)
    await first.detect(group)
    twice, nowhere, *good = others
    ends = await outcomes(
        group,
        first.detection(),
        twice.detection(event_id=f"{first.name}-1"),
        nowhere.detection(asset_id=999),
        *(one.detection() for one in good),
    )
    assert isinstance(ends[1], IntegrityError)
    assert isinstance(ends[2], (NotFound, IntegrityError))
    assert [end for end in ends if end == {"load"}] == [{"load"}] * 4
    assert await assert_whole(database) == 5


@on_both
async def test_a_member_that_lost_its_position_writes_nothing_and_the_others_are_committed(database: Database) -> None:
    every = await detectors(database, 4)
    async with database.transaction() as connection:
        back = NewPosition(source_identity="{}", state="0", watermark="0")
        await rewind.rewind(connection, every[2].name, 0, back, database.dialect)
    ends = await outcomes(GroupCommit(database, NO_HOOKS), *(one.detection() for one in every))
    assert isinstance(ends[2], PositionLost)
    assert [end for end in ends if end == {"load"}] == [{"load"}] * 3
    assert set(await numbers(database)) == {one.name for one in every} - {every[2].name}


async def test_a_locked_position_delays_no_other_member(database: Database) -> None:
    every = await detectors(database, 4)
    group = GroupCommit(database, NO_HOOKS)
    async with anyio.create_task_group() as tasks, database.transaction() as connection:
        mine = select(watcher_position.c.version).where(watcher_position.c.watcher.in_([every[0].name, every[2].name]))
        await connection.execute(mine.with_for_update())
        for one in every:
            tasks.start_soon(one.detect, group)
        with anyio.fail_after(PATIENCE):
            while set(await numbers(database)) != {every[1].name, every[3].name}:
                await anyio.sleep(0.01)
        await every[1].detect(group)
    assert await assert_whole(database) == 5


async def test_every_member_gets_an_unknown_outcome(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deferred trigger waits inside COMMIT for a lock that is held here."""
    every = await detectors(database, 4)
    async with database.transaction() as connection:
        for statement in SLOW_COMMIT:
            await connection.execute(text(statement))
    monkeypatch.setattr("store.database.engine.COMMIT_DEADLINE", 0.2)
    async with database.reading() as holder:
        await holder.execute(text("SELECT pg_advisory_xact_lock(1)"))
        ends = await outcomes(GroupCommit(database, NO_HOOKS), *(one.detection() for one in every))
    assert [type(end) for end in ends] == [CommitUnknown] * 4
    assert len({id(end) for end in ends}) == 4
    monkeypatch.undo()
    async with database.transaction() as connection:
        await connection.execute(text("DROP TRIGGER slow ON watcher_position"))
    await assert_whole(database)


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
async def test_a_commit_whose_session_is_ended_twice_is_repeated(database: Database) -> None:
    [one] = await detectors(database, 1)
    async with database.transaction() as connection:
        for statement in ENDED_TWICE:
            await connection.execute(text(statement))
    try:
        await one.detect(GroupCommit(database, NO_HOOKS))
    finally:
        async with database.transaction() as connection:
            await connection.execute(text("DROP FUNCTION ends CASCADE"))
            await connection.execute(text("DROP SEQUENCE ends"))
    assert await assert_whole(database) == 1


@on_both
async def test_a_member_that_is_cancelled_while_waiting_is_committed_and_the_group_continues(
    database: Database,
) -> None:
    every = await detectors(database, 8)
    group = GroupCommit(database, NO_HOOKS)

    async def cancelled(one: Detector, scope: anyio.CancelScope) -> None:
        with scope:
            await one.detect(group)

    async with anyio.create_task_group() as tasks:
        scopes = [anyio.CancelScope() for _ in every]
        for one, scope in zip(every, scopes, strict=True):
            tasks.start_soon(cancelled, one, scope)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        for scope in scopes[::2]:
            scope.cancel()
    assert await assert_whole(database) == 8
    with anyio.CancelScope() as scope:
        scope.cancel()
        await group.commit(every[0].detection())
    assert await assert_whole(database) == 8, "who is cancelled before begins nothing"


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
async def test_on_sqlite_a_group_ends_when_writing_takes_long(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.detection.detections.LONGEST_WRITING", 0.0)
    every = await detectors(database, 6)
    with counted_commits(database) as commits:
        await all_detect(GroupCommit(database, NO_HOOKS), every)
    assert await assert_whole(database) == len(commits) == 6


@pytest.mark.parametrize(("limit", "commits"), [("MOST_BATCHES", 4), ("MOST_CHARACTERS", 7)])
async def test_groups_are_limited_and_a_large_detection_is_committed_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch, limit: str, commits: int
) -> None:
    monkeypatch.setattr(f"watcher.triggerer.group_commit.{limit}", 2)
    every = await detectors(database, 7)
    with counted_commits(database) as counted:
        await all_detect(GroupCommit(database, NO_HOOKS), every)
    assert await assert_whole(database) == 7
    assert len(counted) == commits


@on_both
async def test_each_members_log_records_belong_to_its_watcher_and_precede_the_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.detection.detections.LONGEST_WRITING", 60.0)
    every = await detectors(database, 5)
    records: list[dict[str, Any]] = []
    stored: list[int] = []

    def at_commit(_connection: Any) -> None:
        stored.append(len(records))

    event.listen(database._writer.sync_engine, "commit", at_commit)
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        records = lines  # type: ignore[assignment]
        await all_detect(GroupCommit(database, NO_HOOKS), every)
    event.remove(database._writer.sync_engine, "commit", at_commit)
    written = [line for line in lines if line["event"] == "store.writing"]
    assert sorted((line["watcher"], line["write_id"]) for line in written) == [(w.name, f"{w.name}-1") for w in every]
    assert stored == [1, 5]


@dataclass(kw_only=True)
class Crowd:
    """Watchers that detect, beside everything else that locks their rows."""

    database: Database
    every: Sequence[Detector]
    turns: int
    done: anyio.Event = field(default_factory=anyio.Event)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.every]

    async def detect(self, group: GroupCommit, one: Detector) -> None:
        while not self.done.is_set():
            try:
                await one.detect(group)
            except PositionLost:  # rewound to its current position
                (row,) = await rows(self.database, watcher_position, watcher_position.c.watcher == one.name)
                one.held = replace(one.held, version=row["version"])

    async def reload(self) -> None:
        """Apply a configuration in which every asset has another URI and half of the edges are gone."""
        for turn in range(self.turns):
            configured = declared(
                assets={name: f"test://{name}/{turn}" for name in self.names},
                watchers={name: name for name in self.names},
                jobs={"load": self.names[:: 1 + turn % 2]},
            )
            async with self.database.transaction() as connection:
                await catalog_sync.apply(connection, configured, "postgresql")

    async def record_states(self) -> None:
        for turn in range(self.turns):
            async with self.database.transaction() as connection:
                for name in self.names[turn % 3 :]:
                    await watchers.set_state(connection, name, "running", error=None, error_count=0)

    async def rewind(self) -> None:
        for turn in range(self.turns):
            name = self.names[turn % len(self.names)]
            mine = select(watcher_position).where(watcher_position.c.watcher == name).with_for_update()
            async with self.database.transaction() as connection:
                row = (await connection.execute(mine)).mappings().one()
                here = NewPosition(source_identity="{}", state=row["state"] or "0", watermark="0")
                await rewind.rewind(connection, name, row["version"], here, "postgresql")


async def test_groups_reloads_rewinds_and_states_never_deadlock(database: Database) -> None:
    crowd = Crowd(database=database, every=await detectors(database, 8), turns=effort(8, 200))
    group = GroupCommit(database, NO_HOOKS)
    async with anyio.create_task_group() as tasks:
        for one in crowd.every:
            tasks.start_soon(crowd.detect, group, one)
        async with anyio.create_task_group() as others:
            for other in (crowd.reload, crowd.record_states, crowd.rewind):
                others.start_soon(other)
        crowd.done.set()
    told = await numbers(database)
    assert set(told) == set(crowd.names)
    assert all(told[name] == list(range(1, len(told[name]) + 1)) for name in told)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", both_in_long_form("postgresql"), indirect=True)
async def test_a_process_that_is_killed_in_the_middle_of_a_group_loses_and_repeats_nothing(
    database: Database, dialect: str
) -> None:
    print(f"WATCHER_TEST_SEED={SEED}")  # noqa: T201  shown when the test fails
    random = Random(SEED)
    url = database.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "tests.service.triggerer.group_world", url, "30"]
    for _ in range(effort(6, 100)):
        async with await anyio.open_process(command, stdout=-1, stderr=None) as process:
            assert process.stdout is not None
            await process.stdout.receive()
            await anyio.sleep(random.uniform(0, 0.3))
            process.kill()
            await process.wait()
    count = await assert_whole(database)
    assert count > 0
    print(f"{dialect}: {count} detections, each once")  # noqa: T201
