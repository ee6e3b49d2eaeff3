"""The content and links of pages, and the way from a stored value to the log line of its write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import structlog
from sqlalchemy import delete, insert, update

from store.base import AssetStoreWriterKind, Writer
from store.catalog import catalog_sync
from store.database.schema import asset_event, database_now, run, task_instance, task_try
from store.keys import AssetRef, Batching
from store.runs import runs
from store.state.entries import EntryChange
from tests.databases import on_both
from tests.service.api.application import CONFIGURED, Api, adapted, claimed
from tests.service.web.browsing import Browser, Page, browsing

pytestmark = on_both
log = structlog.get_logger()


async def written_by_the_watcher(api: Api, write_id: str, value: str = '{"seen": 3}') -> None:
    """Commit a watermark like a detection: log it, write it, and log the confirmation."""
    writer = Writer(kind=AssetStoreWriterKind.WATCHER, watcher="landing_files", write_id=write_id)
    ref = AssetRef(id=api.asset_ids["landing"], name="landing", uri="s3://bucket/landing")
    log.info("watcher.polled", watcher="landing_files")
    log.info("store.writing", watcher="landing_files", write_id=write_id)
    async with api.database.transaction() as connection:
        change = EntryChange(asset=ref, key="landing_files.watermark", value=value, writer=writer)
        await api.context.entries.apply(connection, change)
    log.info("store.written", watcher="landing_files", write_id=write_id)
    log.info("watcher.polled", watcher="landing_files")


def link_of_writer(page: Page) -> str:
    """Return the first link of a `last updated by`."""
    (first, *_) = [a for a in page.all("a") if a.get("class") == "writer"]
    return str(page.answer.url.join(first["href"]))


async def test_a_watermark_leads_to_the_log_line_of_its_write(browser: Browser) -> None:
    await written_by_the_watcher(browser.api, "w1")

    page = await browser.open(browser.asset("landing"))
    assert "landing_files.watermark version 1" in page.text
    link = link_of_writer(page)
    assert link.endswith("/watchers/landing_files/log?around=w1#line")
    landed = await browser.open(link)

    assert landed.with_id("line") == {"id": "line", "class": "info marked"}
    assert [a["class"] for a in landed.all("li")] == ["info", "info marked", "info"]  # a write is one line


async def test_a_log_is_shown_at_a_time(browser: Browser) -> None:
    await written_by_the_watcher(browser.api, "w1")
    log_page = "/watchers/landing_files/log"

    for early in ("2026-01-31T12:00", "2026-01-31T12:00:00Z"):
        page = await browser.open(f"{log_page}?at={early}")
        assert "Around the time 2026-01-31T12:00:00Z , which is marked" in page.text
        assert [a["class"] for a in page.all("li")] == ["info marked", "info", "info"]
    assert (await browser.open(f"{log_page}?at=9999-01-01")).with_id("line") is None
    assert "is not a time" in (await browser.open(f"{log_page}?at=noon", 422)).text


async def test_a_jobs_value_leads_to_the_log_line_of_its_write(browser: Browser) -> None:
    one = await claimed(browser.api)
    await one.put("orders", "rows", 12)

    landed = await browser.open(link_of_writer(await browser.open(browser.asset("orders"))))

    assert landed.path.startswith("/runs/load_orders/manual__1/log/load/1?around=")
    assert landed.with_id("line") is not None


async def test_a_persons_value_leads_to_its_audit_entry(browser: Browser) -> None:
    await browser.api.put("orders", "note", "by hand")

    landed = await browser.open(link_of_writer(await browser.open(browser.asset("orders"))))

    assert landed.path.startswith("/audit?write_id=")
    assert landed.with_id("line") == {"id": "line", "class": "marked"}


async def test_a_log_url_opens_as_the_page_in_a_browser_and_as_lines_in_a_program(browser: Browser) -> None:
    await written_by_the_watcher(browser.api, "w1")
    (entry,) = (await browser.api.get(browser.api.store("landing")))["asset_store"]
    log_url = entry["last_updated_by"]["log_url"]

    landed = await browser.open(log_url)
    assert landed.path == "/watchers/landing_files/log?around=w1"
    lines = await browser.client.get(log_url, headers={"Accept": "*/*"})
    assert lines.headers["content-type"] == "application/x-ndjson"


async def test_every_page_answers_and_every_link_leads_to_a_page(browser: Browser) -> None:
    await written_by_the_watcher(browser.api, "w1")
    await (await claimed(browser.api)).put("orders", "rows", 12)
    await browser.api.put("orders", "note", "by hand")
    await browser.api.client.post("/api/v2/assets/events", json={"asset_id": browser.api.asset_ids["landing"]})
    seen = await every_page(browser, ["/", "/runs", "/graph", "/search?q=o", "/search", "/sign-in"])
    assert {"/assets", "/audit", "/jobs/load_orders", "/runs/load_orders/manual__1"} <= seen
    assert len(seen) > 25


async def every_page(browser: Browser, ahead: list[str]) -> set[str]:
    """Open these pages and all pages that they link to. Each answers."""
    seen: set[str] = set()
    while ahead:
        path = ahead.pop()
        if path in seen or path.startswith("/api/"):
            continue
        seen.add(path)
        page = await browser.open(path)
        assert page.answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert not [a for _, a in page.elements if "style" in a or any(name.startswith("on") for name in a)], path
        ahead += page.links
    return seen


@pytest.mark.parametrize("is_kept", [True, False], ids=["deleted by a person", "past its time"])
async def test_deleted_things_are_named_without_a_link_and_their_writes_are_still_shown(
    browser: Browser, is_kept: bool
) -> None:
    api = browser.api
    await written_by_the_watcher(api, "w1")
    one = await claimed(api)
    await one.put("orders", "rows", 12)
    sources: list[dict[str, Any]] = [
        {"source_watcher": "landing_files"},
        {"source_dag_id": "load_orders", "source_run_id": "manual__1", "source_task_id": "load"},
    ]
    async with api.database.transaction() as connection:
        for source in sources:
            event = {"asset_id": api.asset_ids["orders"], "trace_id": "t", "timestamp": database_now()}
            await connection.execute(insert(asset_event).values(**event, **source))
        await connection.execute(delete(task_try))
        await connection.execute(delete(task_instance))
        await connection.execute(update(run).values(state=runs.DELETED) if is_kept else delete(run))
        await catalog_sync.apply(connection, replace(CONFIGURED, watchers=[]), api.database.dialect)

    seen = await every_page(browser, [browser.asset("orders"), browser.asset("landing")])

    assert {link.partition("?")[0] for link in seen if link.startswith(("/watchers/", "/runs/"))} == {
        "/watchers/landing_files/log",
        "/runs/load_orders/manual__1/log/load/1",
    }
    page = await browser.open(browser.asset("orders"))
    assert "landing_files" in page.text
    landed = await browser.open(link_of_writer(page))
    assert landed.with_id("line") is not None
    assert ("The last lines" in landed.text) is is_kept


async def test_the_page_of_a_job_shows_queued_events_that_its_schedule_no_longer_waits_for(browser: Browser) -> None:
    api = browser.api
    asset_id = api.asset_ids["landing"]
    await api.client.post("/api/v2/assets/events", json={"asset_id": asset_id})
    (load, report) = CONFIGURED.jobs
    for schedule, reason, queue in (
        ("customers", "waits for customers", "they go with the next run"),
        (None, "the job has no schedule", "the schedule no longer waits for it"),
    ):
        names = frozenset() if schedule is None else frozenset({schedule})
        changed = replace(load, definition=replace(load.definition, schedule=schedule), assets={"schedule": names})
        async with api.database.transaction() as connection:
            new = replace(CONFIGURED, jobs=[changed, report])
            assert (await catalog_sync.apply(connection, new, api.database.dialect)).kept == {"load_orders": 1}
        page = await browser.open("/jobs/load_orders")
        assert reason in page.text
        assert "landing 1 queued: the schedule no longer waits for it" in page.text
        assert queue in page.text
    await api.client.delete(f"/api/v2/dags/load_orders/assets/{asset_id}/queuedEvents")
    assert "nothing is queued" in (await browser.open("/jobs/load_orders")).text


async def test_the_page_of_a_job_shows_the_partitions_that_wait(browser: Browser) -> None:
    api = browser.api
    (load, report) = CONFIGURED.jobs
    changed = replace(load, definition=replace(load.definition, batch=Batching(mode="per_partition")))
    async with api.database.transaction() as connection:
        await catalog_sync.apply(connection, replace(CONFIGURED, jobs=[changed, report]), api.database.dialect)
    for key in ("<2026>", None):
        body = {"asset_id": api.asset_ids["landing"], "partition_key": key}
        (await api.client.post("/api/v2/assets/events", json=body)).raise_for_status()
    page = await browser.open("/jobs/load_orders")
    assert "2 partitions wait for the rest of their conditions" in page.text
    assert "2 have queued events: 2 lack something" in page.text
    assert "<2026> 1" in page.text
    assert "none 1" in page.text
    assert page.text.count("customers") >= 2


@pytest.mark.feature("partitions")
async def test_many_partitions_that_wait_are_shown_in_parts(browser: Browser) -> None:
    api = browser.api
    (load, report) = CONFIGURED.jobs
    changed = replace(load, definition=replace(load.definition, batch=Batching(mode="per_partition")))
    async with api.database.transaction() as connection:
        await catalog_sync.apply(connection, replace(CONFIGURED, jobs=[changed, report]), api.database.dialect)
    for number in range(51):
        body = {"asset_id": api.asset_ids["landing"], "partition_key": f"key-{number}-"}
        (await api.client.post("/api/v2/assets/events", json=body)).raise_for_status()
    first = await browser.open("/jobs/load_orders")
    waiting = first.text.partition("Partitions that wait")[2].partition("Last partitions")[0]
    assert ("key-49-" in waiting, "key-50-" in waiting) == (True, False)
    assert "/jobs/load_orders?partitions=50" in first.links
    second = await browser.open("/jobs/load_orders?partitions=50")
    waiting = second.text.partition("Partitions that wait")[2].partition("Last partitions")[0]
    assert ("key-49-" in waiting, "key-50-" in waiting) == (False, True)
    assert "51 have queued events" in second.text


async def test_errors_are_pages_too(browser: Browser) -> None:
    for path in (
        "/assets/999",
        "/events/999",
        "/watchers/nobody",
        "/runs/a/b",
        "/jobs/nobody",
        "/nothing",
        "/watchers/nobody/log",
    ):
        page = await browser.open(path, 404)
        assert page.answer.headers["content-type"].startswith("text/html"), path
    page = await browser.open("/assets/one", 422)
    assert "asset id is not a whole number" in page.text
    assert (await browser.client.get("/favicon.ico")).headers["content-type"] == "image/svg+xml"
    assert (await browser.client.get("/assets/999", headers={"Accept": "*/*"})).json()["detail"]


async def test_a_try_links_to_sparks_history_server(api: Api) -> None:
    async with browsing(adapted(api.context, spark_history_url="http://history:18080")) as client:
        browser = Browser(client, api)
        one = await claimed(api)
        body = {"stages": 1, "tasks": 2, "tasks_done": 2, "application_id": "local-17"}
        await one.done("POST", "tries/progress", body=body)
        page = await browser.open("/runs/load_orders/manual__1")
        assert "http://history:18080/history/local-17/" in {a["href"] for a in page.all("a")}
