"""A process gets hints of what another one commits for its tasks. What no hint reports is found by polling."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import get_args

import anyio
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from store.database import Database
from store.database.notifications import notify
from tests.databases import statements_of
from tests.effort import PATIENCE
from tests.postgres_proxy import proxied
from tests.service.scheduler.settings import HOME, configure, consumed, job_on, tell
from watcher.host.hint_relay import CHANNEL, HintRelay
from watcher.host.leader_election import Leadership
from watcher.host.loops import Hint, HintKind
from watcher.scheduling.planning.base import Planners
from watcher.scheduling.planning.scheduler import Scheduler

pytestmark = pytest.mark.service
LOOK = [Hint(what=what) for what in get_args(HintKind)]
"""The hint to check everything: what was sent before this process listened is unknown."""


class Inbox:
    def __init__(self) -> None:
        self.hints: list[Hint] = []

    async def has(self, condition: Callable[[list[Hint]], bool]) -> None:
        with anyio.fail_after(PATIENCE):
            while not condition(self.hints):
                await anyio.sleep(0.005)


@asynccontextmanager
async def relay(url: str, process_id: str) -> AsyncIterator[tuple[HintRelay, Inbox, Database]]:
    inbox = Inbox()
    async with Database.open(url) as database, anyio.create_task_group() as tasks:
        running = HintRelay(database=database, process_id=process_id, deliver=inbox.hints.append)
        await tasks.start(running.run)
        yield running, inbox, database
        tasks.cancel_scope.cancel()


async def test_a_hint_reaches_every_other_process_and_not_its_sender(database_url: str) -> None:
    hint = Hint(what="watchers", names=frozenset({"a", "ö"}))
    async with (
        relay(database_url, "1") as (one, own, _),
        relay(database_url, "2") as (_, second, _),
        relay(database_url, "3") as (_, third, _),
    ):
        one.send(hint)
        for inbox in (second, third):
            await inbox.has(lambda hints: hints[len(LOOK) :] == [hint])
    assert own.hints == second.hints[: len(LOOK)] == third.hints[: len(LOOK)] == LOOK


async def test_hints_that_come_together_go_together(database_url: str) -> None:
    async with relay(database_url, "1") as (one, _, sender), relay(database_url, "2") as (_, second, _):
        with statements_of(sender) as sent:
            for number in range(1_000):
                one.send(Hint(what="queues", names=frozenset({f"job{number}"})))
                one.send(Hint(what="tries", names=frozenset({f"try{number % 3}"})))
            await second.has(lambda hints: len(hints) >= len(LOOK) + 2)
        assert len(sent) == 1
    by_kind = {hint.what: hint.names for hint in second.hints[len(LOOK) :]}
    assert by_kind == {"queues": frozenset(), "tries": {"try0", "try1", "try2"}}, "too many names mean all"


async def test_the_last_hint_is_still_sent_when_the_process_ends(database_url: str) -> None:
    async with relay(database_url, "2") as (_, second, _):
        async with relay(database_url, "1") as (one, _, _):
            one.send(Hint(what="watchers"))
        await second.has(lambda hints: len(hints) == len(LOOK) + 1)


async def test_foreign_messages_on_the_channel_are_ignored(database_url: str) -> None:
    async with relay(database_url, "1") as (one, _, database), relay(database_url, "2") as (_, second, _):
        with capture_logs() as records:
            await notify(
                database, CHANNEL, ["{", "[]", "{}", '{"from": "x"}', '{"from": "x", "what": "queues", "names": 5}']
            )
            one.send(Hint(what="tries"))
            await second.has(lambda hints: len(hints) == len(LOOK) + 1)
    assert {record["event"] for record in records} == {"hints.not_understood"}


async def test_a_lost_session_is_replaced_and_everything_is_checked(database_url: str) -> None:
    async with relay(database_url, "2") as (_, second, _), relay(database_url, "1") as (one, _, database):
        pid = "SELECT pid FROM pg_stat_activity WHERE query ILIKE 'listen%' ORDER BY backend_start LIMIT 1"
        async with database.transaction() as connection:
            await connection.execute(text(f"SELECT pg_terminate_backend(({pid}))"))
        await second.has(lambda hints: hints[len(LOOK) :] == LOOK)
        one.send(Hint(what="tries", names=frozenset({"t"})))
        await second.has(lambda hints: hints[2 * len(LOOK) :] == [Hint(what="tries", names=frozenset({"t"}))])


async def test_behind_a_pooler_everything_is_checked_every_second_and_one_warning_says_why(
    database_url: str,
) -> None:
    async with proxied(database_url) as proxy:
        proxy.keeps_notifications = True
        with capture_logs() as records:
            async with relay(proxy.url, "1") as (_, inbox, _):
                await inbox.has(lambda hints: hints[: 2 * len(LOOK)] == [*LOOK, *LOOK])
    [unheard] = [record for record in records if record["event"] == "hints.unheard"]
    assert "settings.database.url" in unheard["reason"]


async def test_a_hint_that_cannot_be_sent_is_logged_and_the_next_one_goes(database_url: str) -> None:
    async with proxied(database_url) as proxy, relay(database_url, "2") as (_, second, _):
        inbox = Inbox()
        async with Database.open(proxy.url) as database, anyio.create_task_group() as tasks:
            proxy.refuses = 1
            one = HintRelay(database=database, process_id="1", deliver=inbox.hints.append)
            with capture_logs() as records:
                one.send(Hint(what="tries"))
                await one._flush()
            one.send(Hint(what="queues"))
            await one._flush()
            await second.has(lambda hints: hints[len(LOOK) :] == [Hint(what="queues")])
            tasks.cancel_scope.cancel()
    assert [record["event"] for record in records] == ["hints.not_sent"]


class CountedScheduler(Scheduler):
    looks = 0

    async def check(self) -> None:
        self.looks += 1
        await super().check()


async def test_an_event_that_another_process_committed_has_its_run_at_once(database_url: str) -> None:
    """The hint must do it: the leader has not checked everything since it began."""
    lease = timedelta(minutes=10)
    async with (
        Database.open(database_url) as leading,
        relay(database_url, "other") as (other, _, committing),
        anyio.create_task_group() as tasks,
    ):
        ids = await configure(committing, [job_on("one", "a")])
        leadership = Leadership(database=leading, owner=HOME, heartbeat=lease / 3, lease=lease, on_taken=lambda: None)
        scheduler = CountedScheduler(leading, leadership, on_runs=lambda: None, steps={}, planners=Planners())
        await tasks.start(leadership.run)

        def deliver(hint: Hint) -> None:
            if hint.names:
                scheduler.wakeup.set(hint.names)

        await tasks.start(HintRelay(database=leading, process_id="leader", deliver=deliver).run)
        await tasks.start(scheduler.run)
        event_ids = await tell(committing, ids["a"])
        other.send(Hint(what="queues", names=frozenset({"one"})))
        with anyio.fail_after(PATIENCE):
            while not await consumed(committing, "one"):
                await anyio.sleep(0.01)
        assert list((await consumed(committing, "one")).values()) == [event_ids]
        assert scheduler.looks == 1
        tasks.cancel_scope.cancel()
