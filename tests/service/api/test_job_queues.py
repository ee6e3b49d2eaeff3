"""What a changed schedule left in a job's queue is a problem until a person runs or drops it, by REST and on the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from store.catalog import catalog_sync
from tests.databases import on_both
from tests.service.api.application import CONFIGURED, Api
from tests.service.scheduler.settings import consumed, job_on, leading_scheduler, queued, set_paused, tell
from tests.service.web.browsing import Browser, browsing

pytestmark = [pytest.mark.service, on_both]
PATH = "/api/v2/dags/report/queue"


async def reload(api: Api, schedule: object, **batch: object) -> None:
    """Let the job `report` have another schedule."""
    others = [job for job in CONFIGURED.jobs if job.dag_id != "report"]
    job = job_on("report", schedule, max_events=2, **batch)
    changed = replace(CONFIGURED, hash=f"{schedule} {batch}", jobs=[*others, job])
    async with api.database.transaction() as connection:
        await catalog_sync.apply(connection, changed, api.database.dialect)


async def waiting(api: Api) -> list[tuple[str, str, str]]:
    problems = await api.get("/api/v2/problems")
    return [(each["level"], each["url"], each["remedy"]) for each in problems if each["kind"] == "waiting"]


async def test_events_of_a_job_that_lost_its_schedule_are_a_problem_until_they_are_run(api: Api) -> None:
    await reload(api, "orders")
    event_ids = await tell(api.database, *[api.asset_ids["orders"]] * 3)
    assert await waiting(api) == []
    await reload(api, None)
    await set_paused(api.database, "report", paused=True)
    scheduler = await leading_scheduler(api.database)
    await scheduler.check()
    remedy = "`watcher jobs queue report --run` makes runs of them, `--drop` discards them"
    assert await waiting(api) == [("warning", "/jobs/report", remedy)]
    shown = await api.get(PATH)
    assert (shown["kept"], shown["schedule"], "no schedule" in shown["reason"]) == (3, None, True)
    assert [(each["asset"], each["queued"], each["is_scheduled"]) for each in shown["assets"]] == [("orders", 3, False)]

    refused = await api.client.post(PATH, json={"action": "run", "expected_count": 2})
    assert (refused.status_code, refused.json()["detail"].startswith("3 events")) == (409, True)
    assert await queued(api.database, "report") == event_ids
    done = await api.client.post(PATH, json={"action": "run", "expected_count": 3})
    assert (done.status_code, done.json()) == (200, {"dag_id": "report", "action": "run", "events": 3})
    assert [*(await consumed(api.database, "report")).values()] == [event_ids[:2], event_ids[2:]]
    assert (await queued(api.database, "report"), await waiting(api)) == ([], [])
    assert (await api.client.post(PATH, json={"action": "run"})).status_code == 409
    (entry, *_) = (await api.get("/api/v2/audit"))["audit"]
    assert (entry["action"], entry["target"]) == ("job.queue.run", "report")


@pytest.mark.feature("partitions")
async def test_the_queue_of_a_paused_job_says_what_it_lacks_besides(api: Api) -> None:
    async def reasons() -> list[str]:
        """Return the reason while the job is paused and while it is not."""
        both = list[str]()
        for paused in (True, False):
            await set_paused(api.database, "report", paused=paused)
            both.append((await api.get(PATH))["reason"])
        return both

    paused = "the job is paused; resume it"
    await reload(api, {"all": ["orders", "landing"]})
    await tell(api.database, api.asset_ids["orders"], key="1")
    assert await reasons() == [f"{paused}; besides, it waits for landing", "waits for landing"]
    await reload(api, {"all": ["orders", "landing"]}, mode="per_partition")
    lacks = "1 partition waits for the rest of its condition"
    assert await reasons() == [f"{paused}; besides, {lacks}", lacks]
    await tell(api.database, *[api.asset_ids[name] for name in ("orders", "landing")], key="2")
    assert await reasons() == [f"{paused}; besides, {lacks}", f"{lacks}; 1 partition is about to have a run"]
    await reload(api, {"all": ["orders", "landing"]})
    assert await reasons() == [paused, "a run is about to start"]
    await reload(api, "orders", mode="each")
    assert await reasons() == [paused, "a run is about to start"]


async def test_what_the_schedule_waits_for_stays_in_the_queue(api: Api) -> None:
    await reload(api, {"all": ["orders", "landing"]})
    (kept,) = await tell(api.database, api.asset_ids["orders"])
    (due,) = await tell(api.database, api.asset_ids["landing"])
    await reload(api, {"all": ["landing", "private"]})
    assert (await api.get(PATH))["kept"] == 1
    assert (await api.client.post(PATH, json={"action": "run", "expected_count": 1})).status_code == 200
    assert (await queued(api.database, "report"), [*(await consumed(api.database, "report")).values()]) == (
        [due],
        [[kept]],
    )


async def test_events_that_are_dropped_on_the_page_are_recorded_as_dropped(api: Api) -> None:
    await reload(api, "orders")
    await tell(api.database, *[api.asset_ids["orders"]] * 2)
    await reload(api, None)
    async with browsing(api.context) as client:
        browser = Browser(client, api)
        page = await browser.open("/jobs/report")
        assert "/jobs/report/queue" in page.forms
        await browser.send("/jobs/report/queue", 409, action="drop", expected_count="1")
        page = await browser.send("/jobs/report/queue", action="drop", expected_count="2")
        assert "/jobs/report/queue" not in page.forms
    assert (await queued(api.database, "report"), await consumed(api.database, "report")) == ([], {})
    await reload(api, "orders")
    ever = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    assert (await api.client.post("/api/v2/dags/report/replay", json=ever)).json()["dropped"] == 2
