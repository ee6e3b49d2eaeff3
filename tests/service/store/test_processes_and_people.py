"""Leases of processes, states of watchers, tokens of people, and the audit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta

import anyio
import pytest
from sqlalchemy import update

from store.catalog import watchers
from store.catalog.watchers import Polled, WatcherState
from store.database import Database
from store.database.paging import PageRequest
from store.database.schema import api_token, database_now, database_time_in, dispatcher, triggerer
from store.detection import positions
from store.errors import Conflict, InvalidValue, NotFound
from store.processes import audit, tokens, triggerers
from store.processes.tokens import Identity
from store.processes.triggerers import ProcessInfo
from tests.service.store.words import apply, beat, declared, rows

# --- leases


async def living(database: Database) -> list[str]:
    async with database.reading() as session:
        return [each.id for each in await triggerers.living(session)]


async def test_a_triggerer_lives_as_long_as_its_lease_runs(database: Database) -> None:
    await beat(database, "t2")
    await beat(database, "t1")
    await beat(database, "t3", lease=timedelta(0))
    assert await living(database) == ["t1", "t2"]
    await beat(database, "t2", lease=timedelta(seconds=-1))
    assert await living(database) == ["t1"]
    async with database.transaction() as session:
        await triggerers.leave(session, "t1")
    assert await living(database) == []


async def test_a_beat_renews_the_lease_by_the_databases_clock_and_keeps_the_start(database: Database) -> None:
    await beat(database, "t1", lease=timedelta(seconds=5))
    (first,) = await rows(database, triggerer)
    await beat(database, "t1", lease=timedelta(seconds=15))
    (second,) = await rows(database, triggerer)
    assert second["started_at"] == first["started_at"]
    assert timedelta(seconds=15) <= second["expires_at"] - second["heartbeat_at"] < timedelta(seconds=16)
    assert second["heartbeat_at"] >= first["heartbeat_at"]


async def test_living_triggerers_have_a_lease_and_a_capacity(database: Database) -> None:
    async with database.transaction() as session:
        process = ProcessInfo(id="t1", host="here", pid=1)
        for capacity in (5, 7):
            await triggerers.beat(session, process, timedelta(hours=1), database.dialect, capacity)
    await beat(database, "t2")
    async with database.reading() as session:
        first, second = await triggerers.living(session)
    assert (first.capacity, second.capacity) == (7, triggerers.CAPACITY)
    assert timedelta(minutes=59) < first.expires_in <= timedelta(hours=1)


async def test_only_triggerers_that_are_silent_for_long_are_forgotten(database: Database) -> None:
    await beat(database, "living")
    await beat(database, "silent", lease=-timedelta(hours=1))
    await beat(database, "dead", lease=-timedelta(days=2))
    async with database.transaction() as session:
        await triggerers.forget_dead(session, timedelta(days=1))
    assert [row["id"] for row in await rows(database, triggerer)] == ["living", "silent"]


async def test_a_home_has_a_heartbeat_of_its_dispatcher(database: Database) -> None:
    for pid in (1, 2):
        async with database.transaction() as session:
            process = ProcessInfo(id="home", host="here", pid=pid)
            await triggerers.beat_dispatcher(session, process, timedelta(seconds=15), database.dialect)
    (row,) = await rows(database, dispatcher)
    assert (row["home_id"], row["pid"]) == ("home", 2)
    assert timedelta(seconds=15) <= row["expires_at"] - row["heartbeat_at"] < timedelta(seconds=16)


# --- watchers


@pytest.fixture
async def _files_and_rows(database: Database) -> None:
    await apply(database, declared(assets={"a": "test://a"}, watchers={"files": "a", "rows": "a"}))


@pytest.mark.usefixtures("_files_and_rows")
async def test_watchers_are_listed_by_name_with_their_state(database: Database) -> None:
    async with database.transaction() as session:
        await watchers.set_state(session, "rows", "failing", error="no such table", error_count=3)
    async with database.reading() as session:
        found = await watchers.listed(session)
        assert [(row.name, row.asset, row.state, row.error, row.error_count) for row in found] == [
            ("files", "a", "stopped", None, 0),
            ("rows", "a", "failing", "no such table", 3),
        ]
        again = await watchers.get(session, "rows")
        assert replace(again, seen_at=found[1].seen_at) == found[1]
        assert (found[0].owner, found[0].watermark, found[0].position_version) == (None, None, None)


@pytest.mark.usefixtures("_files_and_rows")
async def test_a_pause_is_kept_and_shown(database: Database) -> None:
    async with database.transaction() as session:
        await watchers.set_paused(session, "files", paused=True)
    async with database.reading() as session:
        assert await watchers.paused_watchers(session) == frozenset({"files"})
        assert (await watchers.get(session, "files")).state == "paused"
    async with database.transaction() as session:
        await watchers.set_paused(session, "files", paused=False)
        assert await watchers.paused_watchers(session) == frozenset()


@pytest.mark.usefixtures("_files_and_rows")
async def test_an_unknown_or_removed_watcher_is_not_found(database: Database) -> None:
    await apply(database, declared(assets={"a": "test://a"}, watchers={"files": "a"}))
    for name in ("rows", "unknown"):
        with pytest.raises(NotFound, match=f"no watcher '{name}'; `watcher watchers list`"):
            async with database.transaction() as session:
                await watchers.set_paused(session, name, paused=True)
        with pytest.raises(NotFound, match="`watcher watchers list` shows"):
            async with database.reading() as session:
                await watchers.get(session, name)
    async with database.reading() as session:
        assert [row.name for row in await watchers.listed(session)] == ["files"]


async def own(database: Database, owner: str, *names: str) -> None:
    await beat(database, owner)
    async with database.transaction() as session:
        claimed = await positions.claim_all(session, dict.fromkeys(names, 1), owner, database.dialect)
    assert claimed.keys() == set(names)


@pytest.mark.usefixtures("_files_and_rows")
async def test_states_are_recorded_only_by_the_owner_of_the_positions(database: Database) -> None:
    await own(database, "t1", "files")
    await own(database, "t2", "rows")
    states = {"files": WatcherState(state="failing", error="e", error_count=2), "rows": WatcherState(state="running")}
    async with database.statements() as session:
        await watchers.set_states(session, "t1", states)
    async with database.reading() as session:
        files, others = await watchers.listed(session)
    assert (files.state, files.error, files.error_count) == ("failing", "e", 2)
    assert (others.state, others.is_unassigned) == ("stopped", False)


@pytest.mark.usefixtures("_files_and_rows")
async def test_only_unassigned_watchers_have_a_reason(database: Database) -> None:
    await own(database, "t1", "files")
    async with database.statements() as session:
        await watchers.set_unassigned(session, {"files": "no room", "rows": "no room"})
    async with database.reading() as session:
        files, others = await watchers.listed(session)
    assert (files.is_unassigned, others.is_unassigned, others.error) == (False, True, "no room")


@pytest.mark.usefixtures("_files_and_rows")
async def test_many_polls_are_recorded_at_once(database: Database) -> None:
    just_now, long_ago = Polled(ago=timedelta(0), lag=1), Polled(ago=timedelta(hours=1), lag=10)
    await own(database, "t1", "rows", "files")
    async with database.transaction() as session:
        await watchers.set_polled(session, "t1", {"rows": long_ago, "files": just_now, "unknown": just_now})
        await watchers.set_polled(session, "t1", {})
        await watchers.set_polled(session, "t2", {"rows": just_now})
    async with database.reading() as session:
        files, rows = await watchers.listed(session)
    assert files.last_poll_at is not None
    assert rows.last_poll_at is not None
    assert files.last_poll_at - rows.last_poll_at == timedelta(hours=1)
    assert files.lag_seconds is not None
    assert rows.lag_seconds is not None
    assert files.lag_seconds - rows.lag_seconds == pytest.approx(1 - 3610)
    assert rows.lag_seconds >= 3610, "it goes on growing"


@pytest.mark.usefixtures("_files_and_rows")
async def test_two_triggerers_that_record_polls_of_the_same_watchers_do_not_deadlock(database: Database) -> None:
    now = Polled(ago=timedelta(0), lag=0)
    await own(database, "t1", "rows", "files")

    async def record(names: list[str]) -> None:
        for _ in range(10):
            async with database.transaction() as session:
                await watchers.set_polled(session, "t1", dict.fromkeys(names, now))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(record, ["files", "rows"])
        tasks.start_soon(record, ["rows", "files"])


# --- tokens


async def test_a_token_speaks_for_its_subject_until_it_is_revoked(database: Database) -> None:
    async with database.transaction() as session:
        token = await tokens.create(session, "ann", "operator", name="laptop")
        other = await tokens.create(session, "ann", "viewer")
        for made, role in ((token, "operator"), (other, "viewer")):
            identity = await tokens.identify(session, made.token)
            assert identity == Identity(token_id=made.id, subject="ann", role=role, use_is_news=True)
        for wrong in (token.token[:-1], token.token + "x", token.token.upper(), "", "aw_", "ä"):
            assert await tokens.identify(session, wrong) is None
        assert (await tokens.revoke(session, token.id)).name == "laptop"
        assert await tokens.identify(session, token.token) is None
        assert await tokens.identify(session, other.token) is not None
        with pytest.raises(NotFound, match="no token"):
            await tokens.revoke(session, token.id)


async def test_a_use_is_written_once_a_minute(database: Database) -> None:
    async with database.transaction() as session:
        token = await tokens.create(session, "ann", "viewer")
        await tokens.remember_use(session, token.id)
        first = (await tokens.get(session, token.id)).last_used_at
        await tokens.remember_use(session, token.id)
        assert (await tokens.get(session, token.id)).last_used_at == first
        identity = await tokens.identify(session, token.token)
        assert (identity is not None and identity.use_is_news, first is None) == (False, False)
        await session.execute(update(api_token).values(last_used_at=database_time_in(-61.0)))
        await tokens.remember_use(session, token.id)
        assert (await tokens.get(session, token.id)).last_used_at >= first  # type: ignore[operator]


async def test_a_token_lives_as_long_as_it_was_made_for(database: Database) -> None:
    async with database.transaction() as session:
        token = await tokens.create(session, "ann", "viewer", expires_in=3600)
        assert token.expires_at is not None
        assert timedelta(minutes=59) < token.expires_at - token.created_at <= timedelta(minutes=61)
        assert await tokens.identify(session, token.token) is not None
        await session.execute(update(api_token).values(expires_at=database_now()))
        assert await tokens.identify(session, token.token) is None
        with pytest.raises(Conflict, match="has expired"):
            await tokens.rotate(session, token.id)
        for wrong in (0, -1, tokens.LONGEST_LIFE + 1):
            with pytest.raises(InvalidValue, match="seconds"):
                await tokens.create(session, "ann", "viewer", expires_in=wrong)


async def test_a_rotated_token_ends_at_once_or_after_the_overlap_and_never_later_than_before(
    database: Database,
) -> None:
    async with database.transaction() as session:
        first = await tokens.create(session, "ann", "operator", name="laptop", expires_in=7200)
        second = await tokens.rotate(session, first.id)
        assert (second.subject, second.role, second.name) == ("ann", "operator", "laptop")
        assert second.expires_at is not None
        assert timedelta(minutes=119) < second.expires_at - second.created_at <= timedelta(minutes=121)
        assert await tokens.identify(session, first.token) is None
        third = await tokens.rotate(session, second.id, overlap=3600)
        old = await tokens.get(session, second.id)
        assert old.expires_at is not None
        assert old.expires_at < second.expires_at - timedelta(minutes=50)
        assert await tokens.identify(session, second.token) is not None
        fourth = await tokens.rotate(session, second.id, overlap=7000)
        assert (await tokens.get(session, second.id)).expires_at == old.expires_at
        assert fourth.expires_at is not None
        assert fourth.expires_at - fourth.created_at > timedelta(minutes=119), (
            "the lifetime is the one that was asked for"
        )
        assert len(await tokens.of_subject(session, "ann")) == 3
        with pytest.raises(NotFound):
            await tokens.rotate(session, first.id)
        assert third.token != fourth.token


async def test_a_token_is_stored_as_a_hash_only(database: Database) -> None:
    async with database.transaction() as session:
        token = await tokens.create(session, "ann", "viewer")
    (row,) = await rows(database, api_token)
    assert row["token_hash"] == tokens.digest(token.token)
    assert token.token.removeprefix("aw_") not in str(row)


async def test_an_unknown_role_is_refused(database: Database) -> None:
    with pytest.raises(InvalidValue, match="unknown role 'root'; use one of viewer, operator, admin"):
        async with database.transaction() as session:
            await tokens.create(session, "ann", "root")


# --- the audit


async def test_the_audit_lists_the_newest_first_and_finds_a_write(database: Database) -> None:
    async with database.transaction() as session:
        for number in range(5):
            detail = {"n": number, "ü": None}
            await audit.record(
                session, actor="ann", action="asset_store.set", target="a/key", detail=detail, write_id=f"w{number}"
            )
        await audit.record(session, actor="bob", action="watcher.pause", target="files")
    async with database.reading() as session:
        page = await audit.listed(session, None, PageRequest(limit=2, offset=1))
        assert ([entry.write_id for entry in page.rows], page.total) == (["w4", "w3"], 6)
        page = await audit.listed(session, "w0", PageRequest(limit=10))
        [entry] = page.rows
        assert (entry.actor, entry.detail, page.total) == ("ann", '{"n": 0, "\\u00fc": null}', 1)
        [newest] = (await audit.listed(session, None, PageRequest(limit=1))).rows
        assert (newest.action, newest.detail, newest.write_id) == ("watcher.pause", "{}", None)
        assert newest.at.tzinfo is UTC
