"""Aliases: events for assets that are known when the job runs, and the jobs that wait for them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import anyio
import pytest
from sqlalchemy import select

from store.catalog import aliases, catalog_sync
from store.database.asset_events import NewEvent
from store.database.schema import asset, asset_alias_asset, asset_alias_event, asset_event, queued_event
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.keys import JobDefinition
from tests.service.api.application import CONFIGURED, Api, Try, job

DAILY = frozenset({"daily"})
ALIASED = replace(
    CONFIGURED,
    aliases={"daily": "shop", "weekly": ""},
    jobs=[
        job("load_orders", {"outlet": {"daily", "weekly"}}, outlet={"orders"}),
        job("consume", {"schedule": DAILY, "inlet": DAILY}),
        job("report", {"schedule": DAILY}, schedule={"landing", "orders"}),
    ],
)


@pytest.fixture
async def aliased(api: Api) -> Api:
    async with api.database.transaction() as session:
        await catalog_sync.apply(session, ALIASED, api.database.dialect)
    return api


def through(uri: str, alias: str = "daily", name: str = "", **extra: Any) -> dict[str, Any]:
    return {"alias": alias, "asset": {"uri": uri, "name": name}, "extra": extra}


async def finished(api: Api, *outlet_events: dict[str, Any], run_id: str = "manual__1", status: int = 200) -> Try:
    one = await api.start_try(run_id)
    await one.done("POST", "tries/claim", body={"nonce": "n"})
    answer = await one.call("POST", "tries/finish", body={"state": "success", "outlet_events": list(outlet_events)})
    assert answer.status_code == status, answer.text
    return one


async def queue(api: Api, dag_id: str) -> list[tuple[str, Any]]:
    q = queued_event.c
    query = (
        select(asset.c.name, asset_event.c.extra)
        .select_from(queued_event)
        .join(asset_event, asset_event.c.id == q.event_id)
        .join(asset, asset.c.id == q.asset_id)
        .where(q.dag_id == dag_id)
        .order_by(q.event_id)
    )
    async with api.database.reading() as session:
        return [(row.name, json.loads(row.extra)) for row in await session.execute(query)]


async def rows(api: Api, table: Any) -> int:
    async with api.database.reading() as session:
        return len((await session.execute(select(table))).all())


async def test_a_new_asset_is_created_and_the_jobs_of_the_alias_get_its_event(aliased: Api) -> None:
    await finished(aliased, through("s3://lake/2026-11-20", rows=3))

    [made] = (await aliased.get("/api/v2/assets", name_pattern="2026"))["assets"]
    assert (made["name"], made["uri"]) == ("s3://lake/2026-11-20", "s3://lake/2026-11-20")
    assert [alias["name"] for alias in made["aliases"]] == ["daily"]
    assert await queue(aliased, "consume") == [("s3://lake/2026-11-20", {"rows": 3})]
    assert sorted(await queue(aliased, "report")) == [("orders", {}), ("s3://lake/2026-11-20", {"rows": 3})]


async def test_later_events_of_the_asset_are_queued_too_and_earlier_ones_are_not(aliased: Api) -> None:
    landing = {"asset_id": aliased.asset_ids["landing"]}
    await aliased.client.post("/api/v2/assets/events", json={**landing, "extra": {"n": 1}})
    await finished(aliased, through("s3://bucket/landing", n=2))
    await aliased.client.post("/api/v2/assets/events", json={**landing, "extra": {"n": 3}})

    assert [extra["n"] for _, extra in await queue(aliased, "consume")] == [2, 3]
    twice = [extra["n"] for name, extra in await queue(aliased, "report") if name == "landing"]
    assert twice == [1, 2, 3], "a job that waits for the asset and for its alias has each event once"


async def test_without_a_resolved_asset_there_is_no_run(aliased: Api) -> None:
    await finished(aliased)
    assert await queue(aliased, "consume") == []


async def test_a_task_emits_one_event_for_each_asset_and_extra(aliased: Api) -> None:
    await finished(
        aliased,
        through("s3://lake/x", a=1, b=2),
        through("s3://lake/x/", b=2, a=1),
        through("s3://lake/x", alias="weekly", a=1, b=2),
        through("s3://lake/x", a=2),
        {"asset": "orders"},
        through("s3://bucket/orders", alias="weekly"),
    )

    assert [extra for _, extra in await queue(aliased, "consume")] == [{"a": 1, "b": 2}, {"a": 2}]
    assert [name for name, _ in await queue(aliased, "report")].count("orders") == 1
    assert await rows(aliased, asset_event) == 3
    assert await rows(aliased, asset_alias_event) == 4
    assert await rows(aliased, asset_alias_asset) == 3


async def test_a_name_is_optional_and_belongs_to_one_uri(aliased: Api) -> None:
    await finished(aliased, through("s3://lake/x", name="day"))
    await finished(aliased, through("s3://lake/x"), run_id="manual__2")
    assert [name for name, _ in await queue(aliased, "consume")] == ["day", "day"]

    for number, event in enumerate(
        (through("s3://lake/y", name="day"), through("orders"), through("x", name="orders"))
    ):
        one = await finished(aliased, event, run_id=f"manual__{number + 3}", status=409)
        assert (await one.call("POST", "tries/token", body={})).status_code == 200, "nothing of the end was kept"
    assert len(await queue(aliased, "consume")) == 2


@pytest.mark.parametrize("uri", ["", "s3://", "airflow://x", "s3://user:secret@x/y", "é"])
async def test_an_invalid_uri_is_refused(aliased: Api, uri: str) -> None:
    await finished(aliased, through(uri), status=422)


async def test_only_an_outlet_alias_is_accepted(aliased: Api) -> None:
    await finished(aliased, through("s3://x/y", alias="nobodys"), status=403)
    await finished(aliased, {"asset": {"uri": "s3://x/y"}}, run_id="manual__2", status=403)
    await finished(aliased, {"asset": "orders", "alias": "daily"}, run_id="manual__3", status=403)
    assert (await aliased.get("/api/v2/assets", uri_pattern="x/y"))["assets"] == []


async def test_an_asset_that_was_configured_once_is_active_again(aliased: Api) -> None:
    async with aliased.database.transaction() as session:
        fewer = replace(ALIASED, assets=[a for a in ALIASED.assets if a.name != "private"])
        await catalog_sync.apply(session, fewer, aliased.database.dialect)
    await finished(aliased, through("s3://bucket/private"))
    assert [name for name, _ in await queue(aliased, "consume")] == ["private"]
    assert [a["name"] for a in (await aliased.get("/api/v2/assets", name_pattern="private"))["assets"]] == ["private"]


async def test_a_reload_keeps_queued_events_of_an_alias_until_their_job_is_removed(aliased: Api) -> None:
    await finished(aliased, through("s3://lake/x"))
    async with aliased.database.transaction() as session:
        assert (await catalog_sync.apply(session, ALIASED, aliased.database.dialect)).dequeued == 0
        daily = JobDefinition(schedule={"any": ["landing", "orders", {"alias": "daily"}]})
        others = [replace(j, definition=daily) for j in ALIASED.jobs if j.dag_id != "consume"]
        unscheduled_job = replace(job("consume"), definition=JobDefinition())
        unscheduled = await catalog_sync.apply(
            session, replace(ALIASED, jobs=[unscheduled_job, *others]), aliased.database.dialect
        )
        assert (unscheduled.dequeued, unscheduled.kept) == (0, {"consume": 1})
        gone = replace(ALIASED, jobs=others)
        assert (await catalog_sync.apply(session, gone, aliased.database.dialect)).dequeued == 1


async def test_aliases_are_listed_as_airflow_lists_them(aliased: Api) -> None:
    answer_json = await aliased.get("/api/v2/assets/aliases")
    daily = answer_json["asset_aliases"][0]
    assert answer_json["total_entries"] == 2
    assert (daily["name"], daily["group"]) == ("daily", "shop")
    assert await aliased.get(f"/api/v2/assets/aliases/{daily['id']}") == daily
    assert (await aliased.get("/api/v2/assets/aliases", name_pattern="week"))["total_entries"] == 1
    for number in (99, -1, 2**70):
        await aliased.get(f"/api/v2/assets/aliases/{number}", status=404)


async def test_a_job_reads_the_assets_and_events_of_its_alias(aliased: Api) -> None:
    await finished(aliased, through("s3://lake/x", n=1), through("s3://lake/y", n=2))
    reader = await aliased.start_try("manual__r", "consume")
    claim = await reader.done("POST", "tries/claim", body={"nonce": "n"})
    assert claim["inlets"] == [{"alias": "daily"}]

    answer_json = await reader.done("GET", "assets/by-alias", query={"alias_name": "daily"})
    assert [a["uri"] for a in answer_json] == ["s3://lake/x", "s3://lake/y"]
    query = {"name": "daily", "ascending": False, "limit": 1}
    [newest] = (await reader.done("GET", "asset-events/by-asset-alias", query=query))["asset_events"]
    assert newest["extra"] == {"n": 2}
    assert newest["source_dag_run"] == {
        "dag_id": "load_orders",
        "run_id": "manual__1",
        "data_interval_start": None,
        "data_interval_end": None,
    }
    assert newest["source_task_instance"]["task_id"] == "load"
    assert (await reader.put("s3://lake/x", "k", 1)).status_code == 204, "the assets of its alias are within its scope"
    assert (await reader.put("orders", "k", 1)).status_code == 403
    for path, name in (("assets/by-alias", "alias_name"), ("asset-events/by-asset-alias", "name")):
        assert (await reader.call("GET", path, query={name: "weekly"})).status_code == 403


@pytest.mark.service
async def test_an_event_is_queued_exactly_if_its_association_was_committed_before(aliased: Api) -> None:
    """Of two simultaneous transactions, the one that locks the asset's key first commits first, and the other sees its result."""
    landing = aliased.asset_ids["landing"]
    (alias,) = [a for a in (await aliased.get("/api/v2/assets/aliases"))["asset_aliases"] if a["name"] == "daily"]
    appending = anyio.Event()

    async def append() -> None:
        async with aliased.database.transaction() as session:
            appending.set()
            await events.append(
                session, [NewEvent(asset_id=landing, extra="{}", trace_id="t")], origin=EventOrigin.POST, hooks=NO_HOOKS
            )

    async with anyio.create_task_group() as tasks, aliased.database.transaction() as session:
        await aliases.associate(session, [(landing, alias["id"])], "postgresql")
        tasks.start_soon(append)
        await appending.wait()
    assert len(await queue(aliased, "consume")) == 1
