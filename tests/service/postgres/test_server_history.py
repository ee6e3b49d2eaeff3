"""What a server says about its history after a restart, a crash, a promotion and a restore: the facts of docs/postgres.md."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields

import psycopg
import pytest

from tests.effort import PATIENCE
from tests.servers import running_postgres
from tests.service.postgres.conftest import ORDERS, MortalServer, mortal

pytestmark = pytest.mark.service

INSERT = "INSERT INTO orders (note) VALUES ('a')"
STOP_RECEIVING = ["ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"]


@dataclass(frozen=True)
class ServerFacts:
    """What one statement says. Positions are bytes from the beginning of the WAL."""

    timeline: int
    control_timeline: int
    boot: str
    inserted: int
    written: int
    replayed: int | None
    received: int | None
    xmax: int


SAYS = """
SELECT ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int, (pg_control_checkpoint()).timeline_id,
    pg_postmaster_start_time()::text, pg_current_wal_insert_lsn() - '0/0', pg_current_wal_lsn() - '0/0',
    pg_last_wal_replay_lsn() - '0/0', pg_last_wal_receive_lsn() - '0/0',
    pg_snapshot_xmax(pg_current_snapshot())::text::int8"""


def execute(server: MortalServer, *statements: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as session:
        for statement in statements:
            session.execute(statement)


def facts(server: MortalServer) -> ServerFacts:
    with psycopg.connect(server.dsn) as session:
        row = session.execute(SAYS).fetchone() or ()
    texts = {field.name for field in fields(ServerFacts) if field.type == "str"}
    values = [
        value if name.name in texts or value is None else int(value)
        for name, value in zip(fields(ServerFacts), row, strict=True)
    ]
    return ServerFacts(*values)


def one(server: MortalServer, query: str) -> object:
    with psycopg.connect(server.dsn) as session:
        [value] = session.execute(query).fetchone() or [None]
    return value


def rows(server: MortalServer) -> object:
    return one(server, "SELECT count(*) FROM orders")


def wait_for(server: MortalServer, condition: str) -> None:
    end = time.monotonic() + PATIENCE
    while one(server, f"SELECT {condition}") is not True:
        assert time.monotonic() < end, condition
        time.sleep(0.02)


def last_write(server: MortalServer) -> object:
    """Return the id and the transaction of the row that was inserted last."""
    return one(server, "SELECT (id, xmin) FROM orders ORDER BY id DESC LIMIT 1")


@pytest.fixture(params=[18, pytest.param(16, marks=pytest.mark.slow)])
def origin(request: pytest.FixtureRequest) -> Iterator[MortalServer]:
    """A primary with one row, whose WAL is written late when a commit does not wait for it."""
    with running_postgres(version=request.param, wal_writer_delay="10s", autovacuum="off") as server:
        origin = mortal(server)
        execute(origin, ORDERS, INSERT)
        yield origin
        if not (origin.data / "postmaster.pid").exists():
            origin.start()


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Starts copies, which are stopped at the end."""
    with ExitStack() as stack:
        yield stack


def start(server: MortalServer, running: ExitStack) -> None:
    server.start()
    running.callback(server.stop, "immediate")


def leave_behind(origin: MortalServer, standby: MortalServer) -> None:
    """Let the standby receive nothing any more, and write a row that it lacks."""
    wait_for(standby, f"pg_last_wal_replay_lsn() >= '{one(origin, 'SELECT pg_current_wal_insert_lsn()')}'::pg_lsn")
    execute(standby, *STOP_RECEIVING)
    wait_for(standby, "NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
    execute(origin, INSERT, INSERT)


def test_a_fresh_server_and_one_that_was_shut_down_cleanly_have_replayed_and_received_nothing(
    origin: MortalServer,
) -> None:
    before = facts(origin)
    origin.restart("fast")
    after = facts(origin)
    for each in (before, after):
        assert (each.timeline, each.control_timeline, each.replayed, each.received) == (1, 1, None, None)
    assert after.boot != before.boot
    assert after.inserted > before.inserted
    assert after.xmax == before.xmax


def test_after_a_crash_the_replayed_position_is_the_end_of_the_wal_that_survived(origin: MortalServer) -> None:
    before = facts(origin)
    origin.restart("immediate")
    after = facts(origin)
    assert (after.timeline, after.received) == (1, None)
    assert before.inserted == after.replayed
    assert after.inserted > before.inserted


def test_a_commit_is_seen_above_the_written_position_and_a_crash_takes_it_back(origin: MortalServer) -> None:
    execute(origin, "SELECT pg_switch_wal()", "SET synchronous_commit = off", INSERT)
    seen = facts(origin)
    assert rows(origin) == 2
    assert seen.written < seen.inserted
    origin.restart("immediate")
    after = facts(origin)
    assert rows(origin) == 1
    assert after.replayed is not None
    assert after.replayed < seen.inserted
    assert after.xmax < seen.xmax


def test_commits_are_seen_in_another_order_than_they_have_in_the_wal(origin: MortalServer) -> None:
    """A commit that waits for a standby is seen after an asynchronous one that follows it. A crash takes back only the latter."""
    execute(origin, "ALTER SYSTEM SET synchronous_standby_names = 'nowhere'", "SELECT pg_reload_conf()")
    with psycopg.connect(origin.dsn, autocommit=True) as first, ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(first.execute, "INSERT INTO orders (note) VALUES ('first')")
        wait_for(origin, "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')")
        execute(origin, "SET synchronous_commit = off", "INSERT INTO orders (note) VALUES ('second')")
        seen_first = facts(origin)
        assert one(origin, "SELECT array_agg(note ORDER BY id) FROM orders") == ["a", "second"]
        execute(origin, f"SELECT pg_cancel_backend({first.info.backend_pid})")
        waiting.result()
    assert one(origin, "SELECT array_agg(note ORDER BY id) FROM orders") == ["a", "first", "second"]
    execute(origin, "ALTER SYSTEM RESET synchronous_standby_names")
    origin.restart("immediate")
    assert one(origin, "SELECT array_agg(note ORDER BY id) FROM orders") == ["a", "first"]
    replayed = facts(origin).replayed
    assert replayed is not None
    assert replayed < seen_first.inserted


def test_a_crash_of_one_backend_takes_commits_back_without_a_new_boot(origin: MortalServer) -> None:
    with psycopg.connect(origin.dsn, autocommit=True) as session:
        session.execute("SELECT pg_switch_wal()")
        session.execute("SET synchronous_commit = off")
        session.execute(INSERT)
        before = facts(origin)
        assert rows(origin) == 2
        os.kill(session.info.backend_pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    end = time.monotonic() + PATIENCE
    while (after := after_the_crash(origin)) is None:
        assert time.monotonic() < end
    assert rows(origin) == 1
    assert (after.boot, after.timeline, after.received) == (before.boot, before.timeline, None)
    assert before.replayed is None
    assert after.replayed is not None
    assert after.replayed < before.inserted


def after_the_crash(server: MortalServer) -> ServerFacts | None:
    """The facts once the server has replayed its WAL; None while it has not, or has not even noticed the crash."""
    with suppress(psycopg.OperationalError):
        if (seen := facts(server)).replayed is not None:
            return seen
    time.sleep(0.05)
    return None


@pytest.mark.slow
def test_a_promoted_standby_keeps_its_boot_and_shows_the_fork_until_it_is_restarted(
    origin: MortalServer, running: ExitStack
) -> None:
    standby = running.enter_context(origin.with_standby())
    boot = one(standby, "SELECT pg_postmaster_start_time()::text")
    leave_behind(origin, standby)
    old = facts(origin)
    standby.promote()
    promoted = facts(standby)
    assert rows(standby) == 1
    assert promoted.boot == boot
    assert promoted.timeline == 2
    assert promoted.replayed is not None
    assert promoted.received is not None
    assert promoted.replayed <= old.inserted
    assert promoted.replayed <= promoted.inserted
    assert promoted.xmax < old.xmax
    execute(standby, INSERT, "CHECKPOINT")
    later = facts(standby)
    assert (later.control_timeline, later.replayed) == (2, promoted.replayed)

    standby.restart("fast")
    restarted = facts(standby)
    assert (restarted.timeline, restarted.replayed, restarted.received) == (2, None, None)
    standby.restart("immediate")
    crashed = facts(standby)
    assert crashed.replayed is not None
    assert crashed.replayed > promoted.replayed
    assert crashed.received is None


def test_a_promotion_replays_what_was_received_even_while_replay_is_paused(
    origin: MortalServer, running: ExitStack
) -> None:
    standby = running.enter_context(origin.with_standby())
    execute(standby, "SELECT pg_wal_replay_pause()")
    wait_for(standby, "pg_get_wal_replay_pause_state() = 'paused'")
    execute(origin, INSERT)
    wait_for(standby, f"pg_last_wal_receive_lsn() >= '{one(origin, 'SELECT pg_current_wal_flush_lsn()')}'::pg_lsn")
    assert rows(standby) == 1
    standby.promote()
    assert rows(standby) == 2


@pytest.mark.slow
def test_two_standbys_of_one_primary_are_promoted_to_the_same_timeline(
    origin: MortalServer, running: ExitStack
) -> None:
    first, second = (origin.standby(name) for name in ("first", "second"))
    for standby in (first, second):
        start(standby, running)
        leave_behind(origin, standby)
        standby.promote()
        assert facts(standby).timeline == 2
        assert facts(standby).received is not None
    assert rows(first) != rows(second)


def test_a_snapshot_of_the_disk_goes_on_on_its_timeline_below_the_old_position(
    origin: MortalServer, running: ExitStack
) -> None:
    origin.stop("immediate")
    snapshot = origin.copied("snapshot")
    origin.start()
    execute(origin, INSERT, INSERT)
    old = facts(origin)
    start(snapshot, running)
    restored = facts(snapshot)
    assert rows(snapshot) == 1
    assert (restored.timeline, restored.received) == (1, None)
    assert restored.replayed is not None
    assert restored.replayed < old.inserted
    assert restored.inserted < old.inserted
    assert restored.xmax < old.xmax
    snapshot.restart("fast")
    assert facts(snapshot).replayed is None


def test_a_copy_that_was_shut_down_cleanly_pairs_the_same_ids_with_the_same_transactions(
    origin: MortalServer, running: ExitStack
) -> None:
    origin.stop("fast")
    copy = origin.copied("copy")
    origin.start()
    execute(origin, INSERT, INSERT)
    old, written = facts(origin), last_write(origin)
    start(copy, running)
    assert facts(copy).replayed is None
    assert facts(copy).xmax < old.xmax
    execute(copy, INSERT, INSERT)
    assert last_write(copy) == written
    execute(copy, INSERT)
    assert (facts(copy).timeline, facts(copy).replayed, facts(copy).received) == (1, None, None)
    assert facts(copy).inserted > old.inserted
    assert facts(copy).xmax > old.xmax


def test_a_recovery_from_an_archive_begins_a_timeline_and_has_received_nothing(
    origin: MortalServer, running: ExitStack
) -> None:
    backup = origin.backed_up("backup")
    backup.recover_to_a_new_timeline()
    execute(origin, INSERT)
    start(backup, running)
    wait_for(backup, "NOT pg_is_in_recovery()")
    restored = facts(backup)
    assert rows(backup) == 1
    assert (restored.timeline, restored.received) == (2, None)
    assert restored.replayed is not None
    assert restored.replayed < facts(origin).inserted


def test_a_base_backup_that_is_started_as_it_is_stays_on_its_timeline(origin: MortalServer, running: ExitStack) -> None:
    backup = origin.backed_up("backup")
    execute(origin, INSERT)
    start(backup, running)
    restored = facts(backup)
    assert rows(backup) == 1
    assert (restored.timeline, restored.received) == (1, None)
    assert restored.replayed is not None


def test_after_a_crash_a_sequence_goes_on_above_what_it_has_handed_out(origin: MortalServer) -> None:
    origin.restart("immediate")
    execute(origin, INSERT)
    assert one(origin, "SELECT max(id) FROM orders") == 34


def test_a_role_without_rights_may_ask_all_of_it(origin: MortalServer) -> None:
    execute(origin, "CREATE ROLE nobody")
    with psycopg.connect(origin.dsn) as session:
        session.execute("SET ROLE nobody")
        assert session.execute(SAYS).fetchone() is not None
