"""Messages in the outbox reach another system in order, whatever happens in between. Both databases are real."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import anyio
import pytest

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset
from store.database import Database
from store.database.asset_events import NewEvent
from store.detection import events
from store.detection.interest import EventOrigin
from store.features.airflow import neighbour
from store.features.airflow.neighbour import DeclaredForward
from store.features.outbox import outbox
from store.features.outbox.outbox import NewMessage, OutboxMessage, StuckLane
from tests.databases import on_both, statements_of
from tests.effort import PATIENCE
from tests.features import HOOKS
from tests.service.store.words import event
from watcher.features.outbox.delivery import Delivered, DeliveryRefused, Failed, Outcome, Unclear
from watcher.features.outbox.sender import Sender
from watcher.host.leader_election import Leadership

pytestmark = [pytest.mark.service, on_both]
HOME = "55555555-5555-5555-5555-555555555555"
AGES = timedelta(days=1)


@dataclass
class Mailbox:
    """A system that keeps what arrives, by lane. It answers with `answers`, and with success after the last of them."""

    name: str = "mailbox"
    timeout: timedelta = timedelta(milliseconds=200)
    arrived: dict[str, list[str | None]] = field(default_factory=lambda: defaultdict(list))
    answers: dict[str, Iterator[Outcome]] = field(default_factory=dict)
    lost_answers_arrive: bool = True
    looks: int = 0

    async def deliver(self, message: OutboxMessage) -> Outcome:
        outcome = next(self.answers.get(message.lane, iter(())), Delivered())
        if isinstance(outcome, Delivered) or (isinstance(outcome, Unclear) and self.lost_answers_arrive):
            self.arrived[message.lane].append(message.message_id)
        return outcome

    async def look_up(self, message: OutboxMessage) -> Outcome | None:
        self.looks += 1
        return Delivered() if message.message_id in self.arrived[message.lane] else None


@asynccontextmanager
async def sending(database: Database, mailbox: Mailbox) -> AsyncIterator[Sender]:
    leadership = Leadership(database=database, owner=HOME, heartbeat=AGES, lease=AGES, on_taken=lambda: None)
    await leadership.campaign()
    sender = Sender(database=database, leadership=leadership, destinations=[mailbox])
    async with anyio.create_task_group() as tasks:
        await tasks.start(sender.run)
        yield sender
        tasks.cancel_scope.cancel()


def new(lane: str, *names: str) -> list[NewMessage]:
    return [NewMessage(destination="mailbox", lane=lane, message_id=name, body="{}") for name in names]


async def put(database: Database, *messages: NewMessage) -> None:
    async with database.transaction() as connection:
        await outbox.put(connection, messages)


async def depth(database: Database) -> int:
    async with database.reading() as connection:
        return sum((await outbox.depths(connection)).values())


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.01)


async def emptied(database: Database) -> None:
    with anyio.fail_after(PATIENCE):
        while await depth(database):
            await anyio.sleep(0.02)


async def stuck(database: Database) -> Sequence[StuckLane]:
    """Return the lanes that are stuck, once there are some."""
    with anyio.fail_after(PATIENCE):
        while True:
            async with database.reading() as connection:
                if lanes := await outbox.stuck(connection):
                    return lanes
            await anyio.sleep(0.01)


async def test_each_lane_keeps_its_order_and_lanes_do_not_wait_for_each_other(database: Database) -> None:
    mailbox = Mailbox(answers={"stuck": iter([DeliveryRefused(reason="there is no such asset")] * 1_000)})
    await put(database, *new("stuck", "s1"), *new("a", "a1", "a2"), *new("b", "b1"))
    async with sending(database, mailbox) as sender:
        await until(lambda: len(mailbox.arrived["a"]) == 2 and len(mailbox.arrived["b"]) == 1)
        await put(database, *new("a", "a3"), *new("new", "n1"))
        sender.wake()
        await until(lambda: len(mailbox.arrived["a"]) == 3 and len(mailbox.arrived["new"]) == 1)
        (lane,) = await stuck(database)
    assert mailbox.arrived["a"] == ["a1", "a2", "a3"]
    assert (lane.lane, lane.error, lane.refused) == ("stuck", "there is no such asset", True)


async def test_a_failed_message_is_retried_and_the_rest_of_its_lane_waits(database: Database) -> None:
    mailbox = Mailbox(answers={"a": iter([Failed(reason="busy"), Failed(reason="busy")])})
    await put(database, *new("a", "a1", "a2"))
    async with sending(database, mailbox):
        await emptied(database)
    assert mailbox.arrived["a"] == ["a1", "a2"]


@pytest.mark.parametrize("arrives", [True, False])
async def test_an_unclear_attempt_is_looked_up_and_repeated_only_if_it_did_not_arrive(
    database: Database, arrives: bool
) -> None:
    mailbox = Mailbox(answers={"a": iter([Unclear(reason="cut")])}, lost_answers_arrive=arrives)
    await put(database, *new("a", "a1", "a2"))
    async with sending(database, mailbox):
        await emptied(database)
    assert mailbox.arrived["a"] == ["a1", "a2"]
    assert mailbox.looks == 1


@pytest.mark.parametrize("arrived", [True, False])
async def test_an_attempt_that_a_crash_cut_short_is_looked_up_first(database: Database, arrived: bool) -> None:
    mailbox = Mailbox()
    await put(database, *new("a", "a1"))
    async with database.transaction() as connection:
        message = await outbox.first(connection, "mailbox", "a")
        assert message is not None
        await outbox.begin(connection, message.id)
    if arrived:
        mailbox.arrived["a"].append("a1")
    async with sending(database, mailbox):
        await emptied(database)
    assert (mailbox.arrived["a"], mailbox.looks) == (["a1"], 1)


async def test_a_process_that_stands_by_sends_nothing(database: Database) -> None:
    mailbox = Mailbox()
    await put(database, *new("a", "a1"))
    standby = Leadership(database=database, owner="other", heartbeat=AGES, lease=AGES, on_taken=lambda: None)
    sender = Sender(database=database, leadership=standby, destinations=[mailbox])
    with statements_of(database) as sent:
        async with anyio.create_task_group() as tasks:
            await tasks.start(sender.run)
            sender.wake()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert (sent, mailbox.arrived) == ([], {})


async def forwarded(database: Database, *names: str) -> dict[str, int]:
    """Return the ids of the assets a and b, after setting which of them are forwarded."""
    forwards = [DeclaredForward(asset=name, target=f"their_{name}") for name in names]
    declared = Declared(
        hash="",
        assets=[DeclaredAsset(name=name, uri=f"x-test:{name}", group="", extra="{}") for name in "ab"],
        watchers=[],
        jobs=[],
        features={"airflow": partial(neighbour.apply, forwards=forwards)},
    )
    async with database.transaction() as connection:
        return dict((await catalog_sync.apply(connection, declared, database.dialect)).asset_ids)


async def owed(database: Database) -> list[tuple[str, str | None, str, str | None]]:
    """Return the first message of each lane: lane, message id, body, target."""
    async with database.reading() as connection:
        lanes = await outbox.lanes_due(connection, outbox.AIRFLOW)
        heads = [await outbox.first(connection, outbox.AIRFLOW, lane) for lane in sorted(lanes)]
    return [(head.lane, head.message_id, head.body, head.target) for head in heads if head is not None]


async def stored(database: Database, *new_events: NewEvent, origin: EventOrigin = EventOrigin.POST) -> Collection[str]:
    """Store events, and return whom to wake."""
    async with database.transaction() as connection:
        return (await events.append(connection, new_events, origin=origin, hooks=HOOKS)).wakes


async def test_events_of_forwarded_assets_enter_the_outbox_in_their_own_transaction(database: Database) -> None:
    ids = await forwarded(database, "a")
    with suppress(ZeroDivisionError):
        async with database.transaction() as connection:
            await events.append(connection, [event(ids["a"])], origin=EventOrigin.POST, hooks=HOOKS)
            raise ZeroDivisionError
    assert await owed(database) == []
    new_events = [event(ids["a"], '{"n": 1}', event_id="e1"), event(ids["b"]), event(ids["a"])]
    assert await stored(database, *new_events) == {"outbox"}
    assert await stored(database, event(ids["b"])) == set()
    assert await stored(database, event(ids["a"]), origin=EventOrigin.LISTENING) == set()
    assert await owed(database) == [(str(ids["a"]), "e1", '{"n": 1}', "their_a")]
    assert await depth(database) == 2
    await forwarded(database, "a", "b")
    assert await depth(database) == 2
    await forwarded(database, "b")
    assert await depth(database) == 0, "nothing is owed to an asset that is forwarded no more"


async def test_the_first_message_of_a_lane_says_when_it_is_due(database: Database) -> None:
    await put(database, *new("a", *(f"a{n}" for n in range(300))), *new("b", "b1"))
    async with database.transaction() as connection:
        first = await outbox.first(connection, "mailbox", "a")
        assert first is not None
        await outbox.postpone(connection, first.id, AGES, "no", refused=False, is_unclear=False)
    async with database.reading() as connection:
        due = await outbox.lanes_due(connection, "mailbox")
        assert await outbox.lanes_due(connection, "nobody") == {}
    assert due.keys() == {"a", "b"}
    assert (due["a"] > 1_000, due["b"]) == (True, 0)
