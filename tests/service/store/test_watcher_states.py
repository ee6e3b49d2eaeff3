"""Changes of the watchers' states are recorded with the write that shows them, and a steady watcher writes nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import event, insert, update

from store.catalog import watchers
from store.catalog.watcher_states import MOST, TOO_MANY
from store.catalog.watchers import Polled, WatcherState
from store.database import Database
from store.database.paging import now_of
from store.database.schema import watcher_state
from store.detection import positions
from store.errors import NotFound
from tests.databases import on_both
from tests.service.store.words import apply, beat, declared, rows

pytestmark = on_both
RUNNING, FAILING = WatcherState(state="running"), WatcherState(state="failing", error="no such table", error_count=1)


@pytest.fixture(autouse=True)
async def _files_and_rows(database: Database) -> None:
    await apply(database, declared(assets={"a": "test://a"}, watchers={"files": "a", "rows": "a"}))
    await beat(database, "t1")
    async with database.transaction() as session:
        await positions.claim_all(session, dict.fromkeys(["files", "rows"], 1), "t1", database.dialect)


async def show(database: Database, **states: WatcherState) -> None:
    async with database.statements() as session:
        await watchers.set_states(session, "t1", states)


async def recorded(database: Database, name: str = "files") -> list[tuple[str, str | None]]:
    return [(row["state"], row["sentence"]) for row in await rows(database, watcher_state) if row["watcher"] == name]


async def test_each_change_is_a_row_with_its_sentence(database: Database) -> None:
    blocked = WatcherState(state="blocked", error="an id went back", error_count=1)
    unstable = WatcherState(state="unstable", error="it works now, but", error_count=3)
    for state in (RUNNING, FAILING, unstable, blocked, RUNNING):
        await show(database, files=state, rows=RUNNING)
    assert await recorded(database) == [
        ("running", None),
        ("failing", "no such table"),
        ("unstable", "it works now, but"),
        ("blocked", "an id went back"),
        ("running", None),
    ]
    assert await recorded(database, "rows") == [("running", None)]
    times = [row["at"] for row in await rows(database, watcher_state)]
    assert times == sorted(times)


async def test_what_stays_as_it_is_or_only_starts_or_ends_is_no_change(database: Database) -> None:
    await show(database, files=FAILING)
    again = WatcherState(state="failing", error="no such table, once more", error_count=2)
    for state in (again, WatcherState(state="starting"), WatcherState(state="stopped"), again):
        await show(database, files=state)
    async with database.transaction() as session:
        await watchers.set_stopped(session, ["files", "rows"])
    assert await recorded(database) == [("failing", "no such table")]
    assert await recorded(database, "rows") == []


async def test_a_pause_is_recorded_whoever_made_it(database: Database) -> None:
    await show(database, files=RUNNING, rows=FAILING)
    async with database.transaction() as session:
        await watchers.set_paused(session, "files", paused=True)
        assert await watchers.give_up(session, "t1", "rows", error="10 polls failed", error_count=10)
        assert not await watchers.give_up(session, "t2", "rows", error="not mine", error_count=10)
    await show(database, files=RUNNING, rows=FAILING)
    async with database.transaction() as session:
        await watchers.set_paused(session, "files", paused=False)
    assert await recorded(database) == [("running", None), ("paused", None), ("running", None)]
    assert await recorded(database, "rows") == [("failing", "no such table"), ("paused", "10 polls failed")]


async def test_one_that_nobody_hosts_is_recorded_once(database: Database) -> None:
    async with database.transaction() as session:
        await positions.release(session, "t1")
    for _ in range(3):
        async with database.statements() as session:
            await watchers.set_unassigned(session, {"files": "no room"})
    assert await recorded(database) == [("unassigned", "no room")]


async def test_a_state_that_another_process_shows_is_not_recorded(database: Database) -> None:
    async with database.statements() as session:
        await watchers.set_states(session, "t2", {"files": FAILING})
    assert await recorded(database) == []


async def fail_and_pause_an_unknown_one(database: Database) -> None:
    async with database.transaction() as session:
        await watchers.set_state(session, "files", "failing", error="no such table", error_count=1)
        await watchers.set_paused(session, "unknown", paused=True)


async def test_no_row_stays_of_a_state_that_was_not_committed(database: Database) -> None:
    with pytest.raises(NotFound):
        await fail_and_pause_an_unknown_one(database)
    assert await recorded(database) == []


async def test_a_watcher_that_changes_all_day_has_200_rows_and_the_last_says_so(database: Database) -> None:
    async with database.transaction() as session:
        now = await now_of(session)
        new = [
            {"watcher": "files", "at": now - timedelta(hours=1), "state": ("running", "failing")[number % 2]}
            for number in range(MOST - 2)
        ]
        await session.execute(insert(watcher_state), new)
    for state in (RUNNING, FAILING, RUNNING, FAILING):
        await show(database, files=state, rows=state)
    assert (await recorded(database))[-2:] == [("running", None), ("unstable", TOO_MANY)]
    assert len(await recorded(database)) == MOST
    assert len(await recorded(database, "rows")) == 4

    async with database.transaction() as session:
        await session.execute(update(watcher_state).values(at=now - timedelta(hours=25)))
    await show(database, files=FAILING)
    assert (await recorded(database))[-1] == ("failing", "no such table")


async def test_a_change_costs_one_statement_where_each_is_a_transaction(database: Database) -> None:
    async with database.statements() as session:
        sent: list[str] = []
        event.listen(session.sync_connection, "before_cursor_execute", lambda *call: sent.append(call[2]))
        await watchers.set_states(session, "t1", {"files": FAILING, "rows": RUNNING})
    assert len(sent) == {"postgresql": 1, "sqlite": 2}[database.dialect]  # on SQLite, one transaction for both
    assert "UPDATE watcher" in sent[0]
    assert "INSERT INTO watcher_state" in sent[-1]


async def test_polls_and_what_they_find_read_no_record(database: Database) -> None:
    async with database.transaction() as session:
        sent: list[str] = []
        event.listen(session.sync_connection, "before_cursor_execute", lambda *call: sent.append(call[2]))
        await watchers.set_polled(session, "t1", {"files": Polled(ago=timedelta(0), lag=0)})
    assert not [statement for statement in sent if "watcher_state" in statement]
