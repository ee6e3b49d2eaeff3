"""Posted events that are stored together."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from uuid import uuid4

import anyio
import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from store.database import Database
from store.database.asset_events import NewEvent
from store.database.schema import asset_event, audit
from store.detection.event_lists import StoredEvent
from store.detection.events import AppendedEvents
from store.detection.interest import NO_HOOKS
from store.errors import CommitUnknown, NotFound
from tests.databases import counted_commits, on_both
from tests.service.api.application import Api
from watcher.serving.api.event_posts import MOST_CHARACTERS, MOST_POSTS, EventPosts

REFUSING_POISON = {
    "sqlite": [
        "CREATE TRIGGER refuse BEFORE INSERT ON asset_event WHEN new.extra LIKE '%poison%' BEGIN SELECT RAISE(ABORT, 'no'); END"
    ],
    "postgresql": [
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$",
        "CREATE TRIGGER refuse BEFORE INSERT ON asset_event FOR EACH ROW WHEN (new.extra LIKE '%poison%') EXECUTE FUNCTION refuse()",
    ],
}
SLOW_COMMIT = [
    "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END'",
    "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON asset_event DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
]


def post(asset_id: int, extra: str) -> NewEvent:
    return NewEvent(asset_id=asset_id, extra=extra, trace_id=uuid4().hex, source_actor="ann")


def ignore(_appended: AppendedEvents) -> None:
    """Do nothing, because no job waits for these events."""


async def outcomes(*posts: Awaitable[StoredEvent]) -> list[StoredEvent | Exception]:
    """Return the answers to posts that are sent at once in this order."""
    ends: dict[int, StoredEvent | Exception] = {}

    async def end(place: int, post: Awaitable[StoredEvent]) -> None:
        try:
            ends[place] = await post
        except Exception as error:  # noqa: BLE001  the tests check the error
            ends[place] = error

    async with anyio.create_task_group() as tasks:
        for place, post in enumerate(posts):
            tasks.start_soon(end, place, post)
    return [ends[place] for place in range(len(posts))]


async def stored(database: Database) -> list[str]:
    """Return the events, after checking that each has exactly one audit entry."""
    async with database.reading() as connection:
        events = (await connection.execute(select(asset_event).order_by(asset_event.c.id))).all()
        entries = (await connection.execute(select(audit).where(audit.c.action == "asset_event.create"))).all()
    assert sorted(json.loads(entry.detail)["event_id"] for entry in entries) == [row.id for row in events]
    assert {entry.actor for entry in entries} <= {"ann"}
    assert len({entry.write_id for entry in entries}) == len({row.trace_id for row in events}) == len(events)
    return [row.extra for row in events]


@on_both
async def test_posts_during_a_transaction_are_stored_in_order_by_the_next_one(api: Api) -> None:
    posts, landing, orders = EventPosts(), api.asset_ids["landing"], api.asset_ids["orders"]
    woken: list[AppendedEvents] = []
    with counted_commits(api.database) as commits:
        ends = await outcomes(
            *(
                posts.store(api.database, NO_HOOKS, woken.append, post((landing, orders)[n % 2], json.dumps({"n": n})))
                for n in range(MOST_POSTS)
            )
        )
    assert len(woken) == len(commits) <= 2
    assert {dag_id for appended in woken for dag_id in appended.dag_ids} == {"load_orders", "report"}
    assert [json.loads(extra)["n"] for extra in await stored(api.database)] == [*range(MOST_POSTS)]
    for number, end in enumerate(ends):
        assert isinstance(end, StoredEvent)
        assert end.extra == {"n": number}
        assert end.asset.name == ("landing", "orders")[number % 2]


@on_both
async def test_a_post_for_an_unknown_asset_is_refused_and_the_others_are_stored(api: Api) -> None:
    posts, landing = EventPosts(), api.asset_ids["landing"]
    ends = await outcomes(
        *(posts.store(api.database, NO_HOOKS, ignore, post(of, "{}")) for of in (landing, 998, landing, 999, 999))
    )
    assert [type(end) for end in ends] == [StoredEvent, NotFound, StoredEvent, NotFound, NotFound]
    assert "999" in str(ends[4])
    assert ends[3] is not ends[4]
    assert len(await stored(api.database)) == 2


@on_both
async def test_a_post_that_the_database_refuses_fails_alone(api: Api) -> None:
    async with api.database.transaction() as connection:
        for statement in REFUSING_POISON[api.database.dialect]:
            await connection.execute(text(statement))
    posts, landing = EventPosts(), api.asset_ids["landing"]
    extras = ['{"n": 1}', '{"n": 2}', '{"n": "poison"}', '{"n": 4}']
    ends = await outcomes(*(posts.store(api.database, NO_HOOKS, ignore, post(landing, extra)) for extra in extras))
    assert isinstance(ends.pop(2), DBAPIError)
    assert [type(end) for end in ends] == [StoredEvent] * 3
    assert await stored(api.database) == [extras[0], extras[1], extras[3]]


async def test_all_posts_of_a_transaction_get_its_unknown_outcome(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deferred trigger waits within COMMIT for a lock that this test holds."""
    async with api.database.transaction() as connection:
        for statement in SLOW_COMMIT:
            await connection.execute(text(statement))
    monkeypatch.setattr("store.database.engine.COMMIT_DEADLINE", 0.2)
    posts, landing = EventPosts(), api.asset_ids["landing"]
    async with api.database.reading() as holder:
        await holder.execute(text("SELECT pg_advisory_xact_lock(1)"))
        ends = await outcomes(*(posts.store(api.database, NO_HOOKS, ignore, post(landing, "{}")) for _ in range(4)))
    assert [type(end) for end in ends] == [CommitUnknown] * 4
    assert len({id(end) for end in ends}) == 4


@on_both
async def test_a_post_whose_client_leaves_before_its_turn_is_never_stored(api: Api) -> None:
    posts, landing, gone = EventPosts(), api.asset_ids["landing"], anyio.CancelScope()

    async def go() -> None:
        with gone:
            await posts.store(api.database, NO_HOOKS, ignore, post(landing, '{"n": 2}'))

    async with anyio.create_task_group() as tasks, api.database.transaction() as connection:
        if api.database.dialect == "postgresql":
            await connection.execute(text("LOCK TABLE asset_event"))
        tasks.start_soon(posts.store, api.database, NO_HOOKS, ignore, post(landing, '{"n": 1}'))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(go)
        tasks.start_soon(posts.store, api.database, NO_HOOKS, ignore, post(landing, '{"n": 3}'))
        await anyio.wait_all_tasks_blocked()
        gone.cancel()
    assert await stored(api.database) == ['{"n": 1}', '{"n": 3}']


@on_both
async def test_the_size_of_a_transaction_is_limited(api: Api) -> None:
    posts, landing = EventPosts(), api.asset_ids["landing"]
    large = json.dumps({"n": "x" * (MOST_CHARACTERS * 2 // 3)})
    with counted_commits(api.database) as commits:
        await outcomes(*(posts.store(api.database, NO_HOOKS, ignore, post(landing, large)) for _ in range(4)))
    assert len(commits) == 4
    with counted_commits(api.database) as commits:
        await outcomes(
            *(posts.store(api.database, NO_HOOKS, ignore, post(landing, "{}")) for _ in range(2 * MOST_POSTS + 1))
        )
    assert len(commits) == 3
