"""Features take part in the transactions of events of the assets in which they are interested, and in no others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

import anyio
import pytest
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import catalog_sync
from store.catalog.catalog_sync import AppliedCatalog, AppliedFeature, Declared
from store.database import Database
from store.database.schema import asset_event, asset_interest, queued_event, setting
from store.detection import detections, events
from store.detection.detections import Committed
from store.detection.interest import NO_HOOKS, AddedEvents, EventHooks, EventOrigin
from store.features.clean_source import recording
from store.features.clean_source.recording import CleanedWatcher
from store.features.clean_source.tables import cleaning
from store.keys import TaskInstanceKey, Wake
from store.processes import posts
from store.processes.posts import EventPost
from store.runs import runs
from store.runs.tries import tries
from tests.databases import statements_of
from tests.service.store.words import apply, declared, event, rows, until_somebody_waits
from tests.service.triggerer.group_world import detectors
from watcher.triggerer.group_commit import GroupCommit

pytestmark = pytest.mark.service


@dataclass(frozen=True, kw_only=True)
class Witness:
    """A feature that remembers the events that it was given, and writes a row for each."""

    name: str
    assets: Collection[str]
    seen: list[AddedEvents] = field(default_factory=list)

    async def applies(self, _connection: AsyncConnection, applied: AppliedCatalog) -> AppliedFeature:
        return AppliedFeature(interest=[applied.asset_ids[name] for name in self.assets])

    async def after_events(self, connection: AsyncConnection, added: AddedEvents) -> Collection[Wake]:
        self.seen.append(added)
        notes = [{"key": f"{self.name} {event_id}", "value": added.origin} for event_id in added.ids]
        await connection.execute(insert(setting), notes)
        return {Wake(self.name)}


def hooks_of(*witnesses: Witness) -> EventHooks:
    return EventHooks(features={each.name: each.after_events for each in witnesses})


def with_features(configured: Declared, *witnesses: Witness) -> Declared:
    return replace(configured, features={each.name: each.applies for each in witnesses})


async def appended(
    database: Database, asset_ids: Sequence[int], hooks: EventHooks, origin: EventOrigin = EventOrigin.POST
) -> tuple[Sequence[int], Collection[Wake]]:
    """Store events, and return their ids and whom to wake."""
    async with database.transaction() as connection:
        new = [event(asset_id) for asset_id in asset_ids]
        answer = await events.append(connection, new, origin=origin, hooks=hooks)
    return [event_id for event_id, _ in answer.rows], answer.wakes


async def notes(database: Database) -> list[str]:
    return [row["key"] for row in await rows(database, setting) if " " in row["key"]]


ASSETS = {name: f"test://{name}" for name in "abc"}


async def test_features_get_the_events_of_their_assets_one_feature_after_the_other(database: Database) -> None:
    first, second = Witness(name="first", assets="ab"), Witness(name="second", assets="a")
    ids = (await apply(database, with_features(declared(assets=ASSETS), first, second))).asset_ids
    assets = [ids[name] for name in "cabab"]
    (_, a1, b1, a2, b2), wakes = await appended(database, assets, hooks_of(second, first))
    assert wakes == {"first", "second"}
    assert [added.ids for added in first.seen] == [[a1, b1, a2, b2]]
    assert [added.ids for added in second.seen] == [[a1, a2]]
    assert await notes(database) == sorted([f"first {n}" for n in (a1, b1, a2, b2)] + [f"second {n}" for n in (a1, a2)])


async def test_nobody_is_asked_about_an_asset_in_which_nobody_is_interested(database: Database) -> None:
    witness = Witness(name="witness", assets="a")
    ids = (await apply(database, with_features(declared(assets=ASSETS), witness))).asset_ids
    sent = []
    for hooks in (NO_HOOKS, hooks_of(witness)):
        with statements_of(database) as statements:
            _, wakes = await appended(database, [ids["b"]], hooks)
        assert wakes == set()
        sent.append([statement for statement, _ in statements])
    assert sent[0] == sent[1]
    assert witness.seen == []


async def test_the_interest_of_a_feature_that_is_not_here_is_passed_over(database: Database) -> None:
    witness = Witness(name="witness", assets="a")
    ids = (await apply(database, with_features(declared(assets=ASSETS), witness))).asset_ids
    await appended(database, [ids["a"]], NO_HOOKS)
    assert await notes(database) == []


async def test_interest_is_as_configured_last_but_for_features_that_are_not_here(database: Database) -> None:
    elsewhere = Witness(name="elsewhere", assets="c")
    ids = (await apply(database, with_features(declared(assets=ASSETS), elsewhere))).asset_ids
    for assets in ("ab", "b", ""):
        await apply(database, with_features(declared(assets=ASSETS), Witness(name="here", assets=assets)))
        stored = {(row["asset_id"], row["feature"]) for row in await rows(database, asset_interest)}
        assert stored == {(ids["c"], "elsewhere"), *((ids[name], "here") for name in assets)}


async def test_what_a_feature_raises_undoes_the_transaction(database: Database) -> None:
    async def fail(_connection: AsyncConnection, _events: AddedEvents) -> Collection[Wake]:
        raise ZeroDivisionError

    witness = Witness(name="witness", assets="a")
    configured = declared(assets=ASSETS, jobs={"load": ["a"]})
    ids = (await apply(database, with_features(configured, witness))).asset_ids
    hooks = EventHooks(features={"before": witness.after_events, "witness": fail})
    with suppress(ZeroDivisionError):
        await appended(database, [ids["a"]], hooks)
        pytest.fail("it raises what the feature raised")
    assert await rows(database, asset_event) == await rows(database, queued_event) == []


async def one_detection(database: Database, hooks: EventHooks) -> Collection[Wake]:
    [ready] = await detectors(database, 1)
    await _with_interest(database, "w000")
    async with database.transaction() as connection:
        (answer,) = await detections.commit(connection, [ready.detection()], hooks)
    assert isinstance(answer, Committed)
    return answer.wakes


async def _with_interest(database: Database, name: str) -> None:
    configured = declared(assets={name: f"test://{name}"}, watchers={name: name}, jobs={"load": [name]})
    await apply(database, with_features(configured, Witness(name="witness", assets=[name])))


async def a_post(database: Database, hooks: EventHooks) -> Collection[Wake]:
    await _with_interest(database, "w000")
    new = event((await rows(database, asset_interest))[0]["asset_id"], source_actor="ada")
    async with database.transaction() as connection:
        answer, _ = await posts.store_all(connection, [EventPost(new=new, write_id="w")], hooks)
    return answer.wakes


async def the_end_of_a_job(database: Database, hooks: EventHooks) -> Collection[Wake]:
    configured = declared(assets={"w000": "test://w000"}, jobs={"load": []})
    [job] = configured.jobs
    outlet = replace(configured, jobs=[replace(job, assets={"outlet": frozenset({"w000"})})])
    await apply(database, with_features(outlet, Witness(name="witness", assets=["w000"])))
    async with database.transaction() as connection:
        await runs.create_run(connection, "load", "r", "load", triggered_by="cli", conf="{}", note=None)
        run = await runs.get(connection, "load", "r")
        instance = TaskInstanceKey(dag_id="load", run_id="r", task_id="load", map_index=-1)
        return (await tries.emit_outlet_events(connection, instance, run, hooks)).wakes


@pytest.mark.parametrize(
    ("way", "origin"),
    [
        (one_detection, EventOrigin.DETECTION),
        (a_post, EventOrigin.POST),
        (the_end_of_a_job, EventOrigin.JOB),
    ],
)
async def test_every_way_to_an_event_leads_by_the_features(
    database: Database, way: Callable[[Database, EventHooks], Awaitable[Collection[Wake]]], origin: EventOrigin
) -> None:
    witness = Witness(name="witness", assets=())
    assert await way(database, hooks_of(witness)) == {"witness"}
    [stored] = await rows(database, asset_event)
    assert witness.seen == [AddedEvents(origin=origin, ids=[stored["id"]])]


async def test_in_a_group_a_feature_gets_its_own_watchers_events(database: Database) -> None:
    names = ["w000", "w001", "w002"]
    ready = await detectors(database, len(names))
    witness = Witness(name="witness", assets=["w001"])
    configured = declared(
        assets={name: f"test://{name}" for name in names}, watchers=dict(zip(names, names, strict=True))
    )
    await apply(database, with_features(configured, witness))
    group = GroupCommit(database, hooks_of(witness))
    async with anyio.create_task_group() as tasks:
        for one in ready:
            tasks.start_soon(one.detect, group)
    [mine] = await rows(database, asset_event, asset_event.c.source_watcher == "w001")
    assert [added.ids for added in witness.seen] == [[mine["id"]]]


async def test_a_cleaned_watchers_events_are_recorded_with_their_jobs_and_no_others(database: Database) -> None:
    ready = await detectors(database, 2)
    names = [one.name for one in ready]
    cleaned = {"w000": CleanedWatcher(after=timedelta(seconds=1.5), assets=["w000"])}
    configured = declared(
        assets={name: f"test://{name}" for name in names},
        watchers=dict.fromkeys(names, "w000"),
        jobs={"load": ["w000"]},
    )

    async def applies(connection: AsyncConnection, applied: AppliedCatalog) -> AppliedFeature:
        return await recording.apply(connection, applied, watchers=cleaned)

    await apply(database, replace(configured, features={"clean_source": applies}))
    hooks = EventHooks(features={"clean_source": recording.after_events})
    of_both = [one.detection(asset_id=ready[0].asset_id) for one in ready]
    async with database.transaction() as connection:
        answers = await detections.commit(connection, of_both, hooks)
    assert all(isinstance(answer, Committed) for answer in answers)
    await appended(database, [ready[0].asset_id], hooks)
    [record] = await rows(database, cleaning)
    [event_id] = [row["id"] for row in await rows(database, asset_event, asset_event.c.source_watcher == "w000")]
    assert (record["event_id"], record["watcher"], record["owed"]) == (event_id, "w000", '["load"]')


async def test_what_waited_for_a_reload_is_of_interest_as_that_says(postgres: Database) -> None:
    """The second statement sees what was committed while the first one waited."""
    [one] = await detectors(postgres, 1)
    witness = Witness(name="witness", assets=["w000"])
    configured = declared(assets={"w000": "test://w000"}, watchers={"w000": "w000"}, jobs={"load": ["w000"]})

    async def commit() -> None:
        async with postgres.transaction() as connection:
            await detections.commit(connection, [one.detection()], hooks_of(witness))

    async with anyio.create_task_group() as tasks, postgres.transaction() as connection:
        await catalog_sync.apply(connection, with_features(configured, witness), "postgresql")
        tasks.start_soon(commit)
        await until_somebody_waits(postgres)
    async with postgres.reading() as connection:
        ids = (await connection.execute(select(asset_event.c.id))).scalars().all()
    assert [added.ids for added in witness.seen] == [ids]
