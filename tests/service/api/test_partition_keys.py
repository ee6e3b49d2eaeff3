"""Partition keys on their way from a request to events, queues, runs, jobs and the events of outlets."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from sqlalchemy import update

from store.catalog import catalog_sync
from store.database import schema
from store.database.schema import queued_event
from store.keys import Batching
from store.partition_keys import Completeness
from tests.databases import on_both
from tests.schedulers import make_scheduler
from tests.service.api.application import CONFIGURED, Api, Try
from tests.service.scheduler.settings import HOME
from watcher.host.leader_election import Leadership

RUNS: Final = "/api/v2/dags/load_orders/dagRuns"
EVENTS: Final = "/api/v2/assets/events"
AN_HOUR: Final = timedelta(hours=1)


async def posted(api: Api, path: str, **body: Any) -> Any:
    answer = await api.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def told(api: Api, asset: str, key: str | None) -> Any:
    return await posted(api, EVENTS, asset_id=api.asset_ids[asset], partition_key=key)


async def scheduled(api: Api) -> list[tuple[str, str | None]]:
    """The runs of the job after a look of the scheduler, newest last, each with its key."""
    lease = timedelta(seconds=15)
    leadership = Leadership(database=api.database, owner=HOME, heartbeat=lease / 3, lease=lease, on_taken=lambda: None)
    await leadership.campaign()
    await make_scheduler(api.database, leadership).check()
    listed = (await api.get(RUNS, order_by="id"))["dag_runs"]
    return [(each["dag_run_id"], each["partition_key"]) for each in listed]


async def finished(api: Api, run_id: str) -> Any:
    """What the process of the run was told when it claimed its try; it ends with success."""
    one: Try = await api.start_try(run_id)
    claim = await one.done("POST", "tries/claim", body={"nonce": "n"})
    await one.done("POST", "tries/finish", body={"state": "success"})
    return claim


async def test_the_key_of_a_run_of_one_key_goes_to_its_job_and_its_outlets(api: Api) -> None:
    event = await told(api, "landing", "eu|2026-11-20")
    await told(api, "customers", "eu|2026-11-20")
    assert event["partition_key"] == "eu|2026-11-20"
    [(run_id, key)] = await scheduled(api)
    assert key == "eu|2026-11-20"

    claim = await finished(api, run_id)
    assert claim["partition_key"] == key
    assert {one["partition_key"] for some in claim["triggering_asset_events"].values() for one in some} == {key}
    outlets = (await api.get(EVENTS, asset_id=api.asset_ids["orders"]))["asset_events"]
    assert [one["partition_key"] for one in outlets] == [key]
    async with api.database.reading() as connection:
        waiting = (await connection.execute(schema.queued_event.select())).all()
    assert [(row.dag_id, row.partition_key) for row in waiting] == [("report", key)]

    consumers = (await api.get(EVENTS, asset_id=api.asset_ids["landing"]))["asset_events"][0]["created_dagruns"]
    assert [one["partition_key"] for one in consumers] == [key]


async def test_a_run_of_several_keys_or_of_none_has_none(api: Api) -> None:
    for keys in (("a", "b"), ("a", None), (None, None)):
        for asset, key in zip(("landing", "customers"), keys, strict=True):
            await told(api, asset, key)
        run_id, key = (await scheduled(api))[-1]
        assert key is None, keys
        assert (await finished(api, run_id))["partition_key"] is None
    assert len(await scheduled(api)) == 3


async def test_a_requested_key_is_kept_and_survives_a_clear(api: Api) -> None:
    made = await posted(api, RUNS, logical_date=None, dag_run_id="mine", partition_key="k")
    assert made["partition_key"] == "k"
    assert (await finished(api, "mine"))["partition_key"] == "k"
    await posted(api, f"{RUNS}/mine/clear", dry_run=False)
    assert (await api.get(f"{RUNS}/mine"))["partition_key"] == "k"


async def test_runs_are_filtered_by_their_keys_as_in_airflow(api: Api) -> None:
    for name, key in (("one", "2026-11-20"), ("two", "2026-12-01"), ("three", "2026_11"), ("none", None)):
        await posted(api, RUNS, logical_date=None, dag_run_id=name, partition_key=key)

    async def listed(**query: str) -> set[str]:
        return {each["dag_run_id"] for each in (await api.get(RUNS, **query))["dag_runs"]}

    assert await listed(partition_key_pattern="%11%") == {"one", "three"}
    assert await listed(partition_key_pattern="~") == {"one", "two", "three"}
    assert await listed(partition_key_prefix_pattern="~") == {"one", "two", "three"}
    assert await listed(partition_key_prefix_pattern="2026-1") == {"one", "two"}
    assert await listed(partition_key_pattern="%12%", partition_key_prefix_pattern="2026-11") == set()
    await posted(api, RUNS, logical_date=None, dag_run_id="parts", partition_key="2026-11-20|eu")
    assert await listed(partition_key_pattern="20|e") == {"parts"}, "`|` is a character of keys"
    assert await listed(partition_key_prefix_pattern="2026-11-20|eu") == {"parts"}
    assert await listed(partition_key_pattern="2026-12|2026_11") == set()
    assert await listed(run_id_pattern="thr|two") == {"three", "two"}
    body = {"dag_ids": ["load_orders"]}
    assert len((await posted(api, "/api/v2/dags/~/dagRuns/list", **body))["dag_runs"]) == 5


async def test_what_a_partition_lacks_is_listed_shown_and_a_problem(api: Api) -> None:
    (load, report) = CONFIGURED.jobs
    batch = Batching(mode="per_partition", by=("day",))
    both = {"all": ["landing", "customers"]}
    definition = replace(load.definition, schedule=both, batch=batch, deadline=timedelta(0))
    keyed = [replace(each, partition_parts='["day", "region"]') for each in CONFIGURED.assets]
    async with api.database.transaction() as connection:
        new = replace(CONFIGURED, assets=keyed, jobs=[replace(load, definition=definition), report])
        await catalog_sync.apply(connection, new, api.database.dialect)
    for asset, key in (("landing", "2026|eu"), ("landing", "2026|us"), ("customers", "2027|eu"), ("landing", None)):
        await told(api, asset, key)
    assert await scheduled(api) == []

    assert (await api.get("/api/v2/dags/load_orders"))["timetable_partitioned"]
    listed = await api.get("/api/v2/dags/load_orders/queue")
    shown = [(each["partition_key"], each["events"], each["lacks"]) for each in listed["partitions"]]
    assert shown == [("2026", 2, "`customers`"), ("2027", 1, "`landing`"), (None, 1, "`customers`")]
    assert listed["reason"] == "3 partitions wait for the rest of their conditions"
    second = await api.get("/api/v2/dags/load_orders/queue", limit=1, offset=1)
    assert second == {**listed, "partitions": listed["partitions"][1:2]}
    beyond = await api.get("/api/v2/dags/load_orders/queue", offset=3)
    assert (beyond["partitions"], beyond["total_entries"], beyond["reason"]) == ([], 3, listed["reason"])
    [problem] = [each for each in (await api.get("/api/v2/problems")) if each["kind"] == "waiting_too_long"]
    assert "`customers` has not come since" in problem["message"]
    assert "for the partition 2026 and 2 more" in problem["message"]

    await told(api, "customers", "2026|us")
    assert [key for _, key in await scheduled(api)] == ["2026"]
    await told(api, "landing", "2026|eu")
    await told(api, "customers", "2026|eu")
    assert [key for _, key in await scheduled(api)] == ["2026"], "runs of one key do not overlap"
    left = await api.get("/api/v2/dags/load_orders/queue")
    assert (left["partition_counts"], left["total_entries"]) == ({"lacking": 2, "busy": 1, "due": 0}, 3)
    assert [(each["partition_key"], each["lacks"]) for each in left["partitions"]] == [
        ("2027", "`landing`"),
        (None, "`customers`"),
        ("2026", None),
    ]


async def test_which_files_of_a_manifest_lack_is_listed_until_they_have_come_or_a_person_runs_it(api: Api) -> None:
    (load, report) = CONFIGURED.jobs
    batch = Batching(mode="per_partition", complete=Completeness(manifest="*.list"))
    definition = replace(load.definition, schedule="landing", batch=batch, deadline=timedelta(0))
    async with api.database.transaction() as connection:
        new = replace(CONFIGURED, jobs=[replace(load, definition=definition), report])
        await catalog_sync.apply(connection, new, api.database.dialect)

    async def of_files(key: str, *names: str, **more: Any) -> None:
        extra = {"files": [{"bucket": "b", "key": f"{key}/{name}"} for name in names], **more}
        await posted(api, EVENTS, asset_id=api.asset_ids["landing"], partition_key=key, extra=extra)

    async def lacking() -> dict[str, str]:
        partitions = (await api.get("/api/v2/dags/load_orders/queue"))["partitions"]
        return {each["partition_key"]: each["lacks"] for each in partitions}

    names = [f"{number}.csv" for number in range(7)]
    await of_files("2026", *names[:1])
    await of_files("2027", "m.list")
    assert await scheduled(api) == []
    assert (await lacking())["2026"] == "a file that matches `*.list`"
    assert "write it again" in (await lacking())["2027"]
    await of_files("2026", "m.list", last=True, manifests={"s3://b/2026/m.list": names})
    assert await scheduled(api) == []
    first = "`1.csv`, `2.csv`, `3.csv`, `4.csv`, `5.csv` and 1 more"
    assert (await lacking())["2026"] == f"6 of the 7 files that `s3://b/2026/m.list` names: {first}"
    problems = await api.get("/api/v2/problems")
    [problem] = [each for each in problems if each["kind"] == "waiting_too_long"]
    assert "6 of the 7 files" in problem["message"]
    await of_files("2026", *names)
    [(run_id, key)] = await scheduled(api)
    claim = await finished(api, run_id)
    assert (key, claim["partition_complete"], claim["late"]) == ("2026", True, False)

    await posted(api, "/api/v2/dags/load_orders/queue", action="run", partition="2027")
    await finished(api, (await scheduled(api))[-1][0])
    await of_files("2027", "m.list", last=True, manifests={"s3://b/2027/m.list": ["never.csv"]})
    [*_, (late_run, _)] = await scheduled(api)
    claim = await finished(api, late_run)
    assert (claim["partition_key"], claim["late"]) == ("2027", True), "nothing waits for what it names"


async def test_an_incomplete_partition_is_run_once_when_its_deadline_is_over(api: Api) -> None:
    (load, report) = CONFIGURED.jobs
    batch = Batching(mode="per_partition", complete=Completeness(items=3), run_after=timedelta(hours=2))
    definition = replace(load.definition, schedule="landing", batch=batch)
    async with api.database.transaction() as connection:
        new = replace(CONFIGURED, jobs=[replace(load, definition=definition), report])
        await catalog_sync.apply(connection, new, api.database.dialect)
    await told(api, "landing", "2026")
    await told(api, "landing", "2026")
    assert await scheduled(api) == []
    async with api.database.transaction() as connection:
        await connection.execute(update(queued_event).values(created_at=datetime.now(UTC) - timedelta(hours=3)))
    [(run_id, key)] = await scheduled(api)
    claim = await finished(api, run_id)
    assert (key, claim["partition_complete"], claim["late"]) == ("2026", False, False)
    assert len(claim["triggering_asset_events"]["landing"]) == 2
    assert len(await scheduled(api)) == 1
    await told(api, "landing", "2026")
    [_, (late_run, _)] = await scheduled(api)
    claim = await finished(api, late_run)
    assert (claim["partition_complete"], claim["late"]) == (True, True)


@pytest.mark.feature("partitions")
@on_both
@pytest.mark.parametrize("by", ["a person", "max_wait"])
async def test_a_run_of_what_a_changed_schedule_left_is_the_run_of_its_partition(api: Api, by: str) -> None:
    (load, report) = CONFIGURED.jobs
    keyed = [replace(each, partition_parts='["day", "region"]') for each in CONFIGURED.assets]
    batch = Batching(
        mode="per_partition", by=("day",), complete=Completeness(part="region", values=("eu", "us")), max_wait=AN_HOUR
    )

    async def waits_for(schedule: str) -> None:
        definition = replace(load.definition, schedule=schedule, batch=batch)
        async with api.database.transaction() as connection:
            new = replace(CONFIGURED, assets=keyed, jobs=[replace(load, definition=definition), report])
            await catalog_sync.apply(connection, new, api.database.dialect)

    await waits_for("landing")
    for region in ("us", "asia"):
        await told(api, "landing", f"2026|{region}")
    await waits_for("customers")
    await told(api, "customers", "2027|us")
    assert await scheduled(api) == []
    if by == "a person":
        await posted(api, "/api/v2/dags/load_orders/queue", action="run", expected_count=2)
    else:
        async with api.database.transaction() as connection:
            long_ago = datetime.now(UTC) - 2 * AN_HOUR
            await connection.execute(update(queued_event).values(created_at=long_ago))
    runs = await scheduled(api)
    assert [key for _, key in runs] == ["2026", "2026"]
    claims = [await finished(api, run_id) for run_id, _ in runs]
    assert [(claim["partition_complete"], claim["late"]) for claim in claims] == [(False, False)] * 2

    await told(api, "customers", "2026|us")
    [*_, (late_run, key)] = await scheduled(api)
    claim = await finished(api, late_run)
    assert (key, claim["partition_complete"], claim["late"]) == ("2026", True, True)
    await told(api, "landing", "2027|us")
    assert len(await scheduled(api)) == 3, "the other partition waits for its second region, as before"


async def test_a_person_runs_an_incomplete_partition_as_it_is(api: Api) -> None:
    (load, report) = CONFIGURED.jobs
    complete = Completeness(part="region", values=("eu", "us"))
    batch = Batching(mode="per_partition", by=("day",), complete=complete)
    keyed = [replace(each, partition_parts='["day", "region"]') for each in CONFIGURED.assets]
    definition = replace(load.definition, schedule="landing", batch=batch)
    async with api.database.transaction() as connection:
        new = replace(CONFIGURED, assets=keyed, jobs=[replace(load, definition=definition), report])
        await catalog_sync.apply(connection, new, api.database.dialect)
    for key in ("2026|eu", "2026|eu", "2027|eu"):
        await told(api, "landing", key)
    assert await scheduled(api) == []
    path = "/api/v2/dags/load_orders/queue"
    shown = await api.get(path)
    assert [each["lacks"] for each in shown["partitions"]] == ["`landing` with region us"] * 2
    for body in ({"action": "drop", "partition": "2026"}, {"action": "run", "partition": "2026", "expected_count": 2}):
        assert (await api.client.post(path, json=body)).status_code == 422
    assert (await api.client.post(path, json={"action": "run", "partition": "2028"})).status_code == 409
    done = await posted(api, path, action="run", partition="2026")
    assert done == {"dag_id": "load_orders", "action": "run", "events": 2}
    [(run_id, key)] = await scheduled(api)
    claim = await finished(api, run_id)
    assert (key, claim["partition_complete"], claim["late"]) == ("2026", False, False)
    (entry, *_) = (await api.get("/api/v2/audit"))["audit"]
    assert (entry["action"], entry["detail"]) == ("job.queue.run", {"partition": "2026", "events": 2})

    await told(api, "landing", "2026|asia")
    [_, (late_run, _)] = await scheduled(api)
    claim = await finished(api, late_run)
    assert (claim["partition_key"], claim["partition_complete"], claim["late"]) == ("2026", True, True)

    await told(api, "landing", "2027|us")
    [_, _, (whole_run, _)] = await scheduled(api)
    claim = await finished(api, whole_run)
    assert (claim["partition_key"], claim["partition_complete"], claim["late"]) == ("2027", True, False)
    assert len(claim["triggering_asset_events"]["landing"]) == 2
