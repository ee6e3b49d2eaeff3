"""Readiness and warnings of a process depend only on what it has in memory."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from store.errors import DatabaseUnavailable
from triggers.base import TriggerBatch
from watcher.host.health import Health, WatcherReport
from watcher.host.watchdog import Block


def report(
    state: str = "", error: str | None = None, *, starts_now: bool = True, has_position: bool = False
) -> WatcherReport:
    made = WatcherReport(starts_now=starts_now, has_position=has_position)
    if state:
        made.show(state, error, 1 if error else 0)
    return made


def test_a_process_without_problems_is_ready() -> None:
    health = Health(watchers={"files": report("running", has_position=True)})
    health.beat("triggerer", timedelta(hours=1))
    assert health.reasons(None) == []
    assert health.warnings() == []


def test_while_a_process_starts_that_is_the_only_reason() -> None:
    health = Health(starts_since=datetime(2026, 11, 28, 21, 5, 7, tzinfo=UTC), watchers={"files": report("starting")})
    health.beat("triggerer", timedelta(0))
    outage = DatabaseUnavailable("the disk is full; free some space there")
    assert health.reasons(outage) == [
        "the daemon has been starting since 2026-11-28 21:05:07 UTC; wait until everything has started"
    ]


def test_each_reason_against_readiness_is_named() -> None:
    health = Health(waits_for="this process is being stopped", watchers={"files": report("starting")})
    health.beat("triggerer", timedelta(0))
    health.end("scheduler")
    reasons = health.reasons(DatabaseUnavailable("the disk is full; free some space there"))
    beginnings = [
        "this process is being stopped",
        "the scheduler has ended by itself",
        "the last commit failed: the disk is full",
        "the triggerer's heartbeat is late",
        "the watcher files has no position yet",
    ]
    assert [reason[: len(beginning)] for reason, beginning in zip(reasons, beginnings, strict=True)] == beginnings


@pytest.mark.parametrize(
    ("watcher", "is_awaited"),
    [
        (report(), True),
        (report("starting"), True),
        (report("running", has_position=True), False),
        (report("starting", starts_now=False), False),
        (report("failing", "no such table"), False),
        (report("blocked", "another source"), False),
        (report("failing", "no such table", has_position=True), False),
    ],
)
def test_a_watcher_that_starts_at_now_is_awaited_until_it_has_a_position_or_has_failed(
    watcher: WatcherReport, is_awaited: bool
) -> None:
    health = Health(watchers={"files": watcher})
    assert bool(health.reasons(None)) == is_awaited


def test_readiness_does_not_wait_for_a_watcher_that_has_failed_once() -> None:
    watcher = report("failing", "no such table")
    watcher.show("starting", None, 0)
    assert Health(watchers={"files": watcher}).reasons(None) == []


def test_a_watcher_that_nobody_seems_to_host_is_awaited_until_it_is_hosted_here() -> None:
    health = Health(unhosted=frozenset({"files", "rows"}), watchers={"rows": report("running", has_position=True)})
    (reason,) = health.reasons(None)
    assert reason.startswith("the watcher files has no position yet, starts at now")


def test_a_recent_block_of_the_event_loop_is_a_warning() -> None:
    block = Block(task="watcher files", watcher="files", since=time.monotonic() - 60, seconds=30.0)
    health = Health(recent_block=lambda: block)
    (warning,) = health.warnings()
    assert warning == (
        "nothing was polled or started for 30.0 s, 30 s ago, because the watcher files held all up; if it comes again, give the watcher "
        "files `isolation: process`, or correct its trigger"
    )
    assert health.reasons(None) == []


def test_a_block_by_no_watcher_names_what_to_look_at_and_no_task() -> None:
    block = Block(task="Task-194", watcher="", since=time.monotonic() - 60, seconds=30.0)
    (warning,) = Health(recent_block=lambda: block).warnings()
    assert warning == (
        "nothing was polled or started for 30.0 s, 30 s ago; if it comes again, check whether CPU, memory or the disk of the machine is "
        "short"
    )


def test_lag_is_known_after_a_complete_poll_and_counts_from_its_start() -> None:
    now = time.monotonic()
    assert WatcherReport(polled_at=now).polled is None
    polled = WatcherReport(polled_at=now, whole_since=now - 7.5).polled
    assert polled is not None
    assert polled.lag == 8
    assert WatcherReport(polled_at=now, whole_since=now + 1).polled.lag == 0


class _Resting:
    """A trigger whose source is polled together with those of others."""

    looked_at: float | None = None
    up_to: str | None = None


def resting(looked_at: float) -> tuple[WatcherReport, _Resting]:
    """Return the report of a watcher that polled an hour ago, and was polled together with others since."""
    trigger = _Resting()
    trigger.looked_at, trigger.up_to = looked_at, "10:00"
    an_hour_ago = time.monotonic() - 3600
    made = WatcherReport(state="running", has_position=True, polled_at=an_hour_ago, whole_since=an_hour_ago)
    made.shared_polls, made.up_to = trigger, (7, "09:00")
    return made, trigger


def test_a_shared_poll_counts_even_when_the_next_poll_fails() -> None:
    watcher, trigger = resting(looked_at=time.monotonic() - 1)
    before = watcher.polled
    trigger.looked_at = None  # the watcher polls by itself, and fails
    watcher.show("failing", "no such table", 1)
    after = watcher.polled
    for polled in (before, after):
        assert polled is not None
        assert polled.ago < timedelta(minutes=1)
        assert (polled.lag, polled.version, polled.up_to) == (0, 7, '"10:00"')


def test_a_shared_poll_is_the_newest_idle_poll() -> None:
    watcher, trigger = resting(looked_at=time.monotonic() - 600)
    health = Health(watchers={"files": watcher})
    watcher.history.note(TriggerBatch(whole_since=time.monotonic() - 3600))
    [before] = health.history("files", None).newest_first()
    trigger.looked_at = time.monotonic() - 1
    [now] = health.history("files", None).newest_first()
    assert health.history("files", None).newest_first() == [now]
    assert (now.error, now.seconds, now.times, before.times) == (None, None, 1, 1)
    assert datetime.now(UTC) - datetime.fromisoformat(now.started) < timedelta(minutes=1)
    watcher.history.fail("no such table")
    assert [poll.error for poll in health.history("files", None).newest_first()] == ["no such table", None]
