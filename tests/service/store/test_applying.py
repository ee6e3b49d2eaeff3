"""The configuration's mirror: whatever was there before, afterwards it equals the configuration."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from store.base import AssetScope
from store.catalog.catalog_sync import Declared
from store.database import Database, configuration_lock
from store.database.schema import asset, job, job_inlet, job_outlet, job_schedule_asset, queued_event, setting, watcher
from store.errors import Conflict
from store.metastore import MetastoreStoreBackend
from tests.databases import emptied, statements_of
from tests.service.store.words import append, apply, declared, event, foreign_asset, rows

MIRROR = (asset, watcher, job, job_schedule_asset, job_inlet, job_outlet, queued_event, setting)


async def everything(database: Database) -> dict[str, list[dict[str, Any]]]:
    return {table.name: await rows(database, table) for table in MIRROR}


async def named(database: Database) -> dict[str, tuple[int, str, bool]]:
    """Assets by name: id, uri, active."""
    return {row["name"]: (row["id"], row["uri"], row["active"]) for row in await rows(database, asset)}


async def test_a_first_configuration_is_mirrored_whole(database: Database) -> None:
    wanted = declared(
        assets={"a": "test://a", "b": "test://b"},
        watchers={"files": "a"},
        jobs={"load": ["a", "b"], "report": []},
        paused=["report"],
    )
    load = replace(wanted.jobs[0], assets={**wanted.jobs[0].assets, "inlet": {"a"}, "outlet": {"b"}})
    applied = await apply(database, replace(wanted, jobs=[load, wanted.jobs[1]]))
    a, b = applied.asset_ids["a"], applied.asset_ids["b"]
    assert await named(database) == {"a": (a, "test://a", True), "b": (b, "test://b", True)}
    assert [(row["name"], row["asset_id"], row["active"]) for row in await rows(database, watcher)] == [
        ("files", a, True)
    ]
    assert [(row["dag_id"], row["paused"]) for row in await rows(database, job)] == [("load", False), ("report", True)]
    assert await rows(database, job_schedule_asset) == [
        {"dag_id": "load", "asset_id": one, "filtered": False} for one in sorted([a, b])
    ]
    assert await rows(database, job_inlet) == [{"dag_id": "load", "asset_id": a}]
    assert await rows(database, job_outlet) == [{"dag_id": "load", "asset_id": b}]
    async with database.reading() as session:
        assert await configuration_lock.applied_hash(session) == "hash"


async def test_many_assets_take_as_many_statements_as_a_few(database: Database) -> None:
    """Only an INSERT that SQLAlchemy divides takes more."""

    def of(number: int, trigger: str) -> Declared:
        names = [f"a{n}" for n in range(number)]
        all_of_them = declared(
            assets={name: f"test://{trigger}/{name}" for name in names}, watchers={f"of_{name}": name for name in names}
        )
        return replace(all_of_them, watchers=[replace(each, trigger=trigger) for each in all_of_them.watchers])

    counts = []
    for number in (2, 200):
        for trigger in ("one", "another"):
            with statements_of(database) as statements:
                await apply(database, of(number, trigger))
            counts.append(len(statements))
    assert all(many - few < 10 for few, many in zip(counts[:2], counts[2:], strict=True)), counts


async def test_applying_the_same_again_changes_nothing_and_touches_no_asset(database: Database) -> None:
    wanted = declared(assets={"a": "test://a"}, watchers={"files": "a"}, jobs={"load": ["a"]})
    first = await apply(database, wanted)
    await append(database, [event(first.asset_ids["a"])])
    before = await everything(database)
    with statements_of(database) as statements:
        second = await apply(database, wanted)
    assert (second.asset_ids, second.dequeued) == (first.asset_ids, 0)
    assert await everything(database) == before
    assert not [statement for statement, _ in statements if re.match(r"INSERT INTO (?!setting)", statement)]


async def test_a_renamed_asset_keeps_its_id_and_its_entries(database: Database) -> None:
    first = await apply(database, declared(assets={"old": "test://a"}))
    backend = MetastoreStoreBackend(database)
    await backend.aset(AssetScope(name="old"), "key", "1")
    second = await apply(database, declared(assets={"new": "test://a"}))
    assert second.asset_ids == {"new": first.asset_ids["old"]}
    assert await backend.aget(AssetScope(name="new"), "key") == "1"


async def test_an_asset_may_move_to_another_uri(database: Database) -> None:
    first = await apply(database, declared(assets={"a": "test://a"}))
    await apply(database, declared(assets={"a": "test://b"}))
    assert await named(database) == {"a": (first.asset_ids["a"], "test://b", True)}


async def test_assets_may_exchange_their_uris_in_a_ring(database: Database) -> None:
    first = await apply(database, declared(assets={"a": "test://1", "b": "test://2", "c": "test://3"}))
    second = await apply(database, declared(assets={"a": "test://2", "b": "test://3", "c": "test://1"}))
    assert second.asset_ids == first.asset_ids
    assert {name: uri for name, (_, uri, _) in (await named(database)).items()} == {
        "a": "test://2",
        "b": "test://3",
        "c": "test://1",
    }


async def test_a_new_asset_takes_over_the_uri_that_another_gave_up(database: Database) -> None:
    """The name says who is who: the old name keeps its id although the uri went to a new name."""
    first = await apply(database, declared(assets={"a": "test://1"}))
    second = await apply(database, declared(assets={"b": "test://1", "a": "test://2"}))
    assert second.asset_ids["a"] == first.asset_ids["a"]
    assert second.asset_ids["b"] != first.asset_ids["a"]
    assert {name: uri for name, (_, uri, _) in (await named(database)).items()} == {"a": "test://2", "b": "test://1"}


async def test_what_is_no_longer_configured_becomes_inactive_and_comes_back_as_it_was(database: Database) -> None:
    wanted = declared(assets={"a": "test://a", "b": "test://b"}, watchers={"files": "a"}, jobs={"load": ["a"]})
    first = await apply(database, wanted)
    await append(database, [event(first.asset_ids["a"]), event(first.asset_ids["a"])])
    async with database.transaction() as session:
        await session.execute(update(watcher).values(state="running", paused=True))
        await session.execute(update(job).values(paused=True))
    gone = await apply(database, declared(assets={"b": "test://b"}))
    assert gone.dequeued == 2
    stored = await everything(database)
    assert {name: active for name, (_, _, active) in (await named(database)).items()} == {"a": False, "b": True}
    assert [(row["active"], row["state"]) for row in stored["watcher"]] == [(False, "stopped")]
    assert [row["active"] for row in stored["job"]] == [False]
    assert stored["job_schedule_asset"] == stored["queued_event"] == []
    back = await apply(database, wanted)
    assert back.asset_ids == first.asset_ids
    stored = await everything(database)
    assert [(row["active"], row["paused"]) for row in stored["watcher"]] == [(True, True)]
    assert [(row["active"], row["paused"]) for row in stored["job"]] == [(True, True)]


async def test_a_removed_edge_drops_no_queued_event(database: Database) -> None:
    jobs = {"load": ["a", "b"], "report": ["a"]}
    names = {"a": "test://a", "b": "test://b"}
    ids = (await apply(database, declared(assets=names, jobs=jobs))).asset_ids
    await append(database, [event(ids["a"]), event(ids["b"])])
    applied = await apply(database, declared(assets=names, jobs=jobs | {"load": ["b"]}))
    assert (applied.dequeued, applied.kept) == (0, {"load": 1})
    kept = [(row["dag_id"], row["asset_id"]) for row in await rows(database, queued_event)]
    assert kept == [("load", ids["a"]), ("load", ids["b"]), ("report", ids["a"])]
    back = await apply(database, declared(assets=names, jobs=jobs))
    assert (back.dequeued, back.kept) == (0, {})


async def test_a_removed_job_drops_its_queue_and_no_other(database: Database) -> None:
    names = {"a": "test://a"}
    ids = (await apply(database, declared(assets=names, jobs={"load": ["a"], "report": ["a"]}))).asset_ids
    await append(database, [event(ids["a"]), event(ids["a"])])
    applied = await apply(database, declared(assets=names, jobs={"report": ["a"]}))
    assert (applied.dequeued, applied.kept) == (2, {})
    assert {row["dag_id"] for row in await rows(database, queued_event)} == {"report"}


async def test_pausing_in_the_configuration_counts_only_when_the_job_is_new(database: Database) -> None:
    await apply(database, declared(assets={}, jobs={"load": []}))
    await apply(database, declared(assets={}, jobs={"load": [], "new": []}, paused=["load", "new"]))
    assert [(row["dag_id"], row["paused"]) for row in await rows(database, job)] == [("load", False), ("new", True)]


async def test_an_asset_that_came_by_an_alias_is_adopted_by_its_uri(database: Database) -> None:
    there = await foreign_asset(database, "test://x", "test://x", "alias")
    applied = await apply(database, declared(assets={"x": "test://x"}))
    assert applied.asset_ids == {"x": there}
    (row,) = await rows(database, asset)
    assert (row["origin"], row["name"]) == ("yaml", "x")


@pytest.mark.parametrize("origin", ["alias", "api"])
async def test_assets_of_other_origins_are_left_alone(database: Database, origin: str) -> None:
    there = await foreign_asset(database, "x", "test://x", origin)
    await apply(database, declared(assets={"a": "test://a"}))
    assert (await named(database))["x"] == (there, "test://x", True)


@pytest.mark.parametrize("origin", ["alias", "api", "yaml"])
async def test_a_uri_that_belongs_to_an_unconfigured_asset_is_refused_and_nothing_applied(
    database: Database, origin: str
) -> None:
    await apply(database, declared(assets={"a": "test://a"}))
    await foreign_asset(database, "x", "test://x", origin)
    before = await everything(database)
    sentence = "the uri of asset a belongs to asset x, which is not configured; give a another uri, or configure it under the name x"
    with pytest.raises(Conflict, match=re.escape(sentence)):
        await apply(database, declared(assets={"a": "test://x", "b": "test://b"}))
    assert await everything(database) == before


async def test_processes_that_apply_at_once_leave_one_whole_configuration(database: Database) -> None:
    one = declared(assets={"a": "test://1", "b": "test://2"}, watchers={"files": "a"}, jobs={"load": ["a"]})
    other = declared(assets={"b": "test://1", "a": "test://2"}, watchers={"files": "b"}, jobs={"load": ["b"], "x": []})
    one, other = replace(one, hash="one"), replace(other, hash="other")
    async with anyio.create_task_group() as tasks:
        for wanted in (one, other) * 4:
            tasks.start_soon(apply, database, wanted)
    async with database.reading() as session:
        last = {"one": one, "other": other}[await configuration_lock.applied_hash(session) or ""]
    before = await everything(database)
    await apply(database, last)
    assert await everything(database) == before


def configurations() -> st.SearchStrategy[Declared]:
    names = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)
    uris = st.permutations([f"test://{number}" for number in range(4)])

    def build(names: list[str], uris: list[str], edges: list[tuple[str, str]]) -> Declared:
        assets = dict(zip(names, uris, strict=False))
        jobs: dict[str, list[str]] = {"one": [], "two": []}
        for dag_id, name in edges:
            if name in assets:
                jobs[dag_id].append(name)
        return declared(assets=assets, watchers={f"of_{name}": name for name in names}, jobs=jobs)

    edges = st.lists(st.tuples(st.sampled_from(["one", "two"]), st.sampled_from("abcd")), max_size=4)
    return st.builds(build, names, uris, edges)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(configurations(), min_size=1, max_size=4))
async def test_after_any_history_the_mirror_equals_the_last_configuration(
    database: Database, history: list[Declared]
) -> None:
    await emptied(database)
    applied: set[str] = set()
    for wanted in history:
        try:
            ids = (await apply(database, wanted)).asset_ids
        except Conflict:
            owned = {row["uri"] for row in await rows(database, asset)}
            assert any(a.uri in owned and a.name in applied for a in wanted.assets)
            continue
        applied |= {a.name for a in wanted.assets}
        active = {row["name"]: (row["id"], row["uri"]) for row in await rows(database, asset) if row["active"]}
        assert active == {a.name: (ids[a.name], a.uri) for a in wanted.assets}
        edges = {(row["dag_id"], row["asset_id"]) for row in await rows(database, job_schedule_asset)}
        assert edges == {(j.dag_id, ids[name]) for j in wanted.jobs for name in j.assets["schedule"]}
        watching = {row["name"]: row["asset_id"] for row in await rows(database, watcher) if row["active"]}
        assert watching == {w.name: ids[w.asset] for w in wanted.watchers}
