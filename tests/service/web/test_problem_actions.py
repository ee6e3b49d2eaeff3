"""Each problem of the overview has its button: one problem is acted on at once, all like it after a page with the numbers."""

from __future__ import annotations

import re
from time import monotonic

import pytest
from sqlalchemy import update

from store.database.schema import run, watcher
from store.detection import positions
from store.processes import audit
from store.runs import run_lists, runs
from store.runs.run_lists import RunFilter
from store.runs.tries import bad_records
from tests.databases import on_both
from tests.service.api.application import Api
from tests.service.web.browsing import Browser, Page
from watcher.host.health import WatcherReport
from watcher.host.loops import Hint

pytestmark = on_both


async def failed(api: Api, dag_id: str, *run_ids: str, reason: str = "no memory") -> None:
    async with api.database.transaction() as connection:
        for run_id in run_ids:
            await runs.create_run(connection, dag_id, run_id, "load", triggered_by="rest_api", conf="{}", note=None)
            await runs.move_run(connection, dag_id, run_id, "running")
            await runs.move_run(connection, dag_id, run_id, "failed", reason=reason)


async def states(api: Api) -> dict[str, str]:
    async with api.database.reading() as connection:
        return {f"{r.dag_id}.{r.run_id}": r.state for r in await run_lists.latest(connection, RunFilter(), limit=50)}


async def audited(api: Api) -> list[tuple[str, str]]:
    async with api.database.reading() as connection:
        return [(entry.action, entry.target) for entry in await audit.latest(connection, limit=20)]


def count_of(page: Page) -> str:
    (count,) = re.findall(r'name="expected_count" value="(\d+)"', page.answer.text)
    return str(count)


async def test_a_failed_run_is_run_again_from_the_overview_and_leads_to_its_log(browser: Browser) -> None:
    await failed(browser.api, "report", "r1")
    page = await browser.open("/")
    assert "/runs/report/r1/retry" in page.forms
    assert "a run of report has failed : no memory" in page.text
    assert "watcher runs retry" not in page.text, "a person with a browser has a button"
    log = await browser.open("/runs/report/r1/line")
    assert log.path == "/runs/report/r1", "the run never had a try, and so no log"
    await browser.send("/runs/report/r1/retry")
    assert await states(browser.api) == {"report.r1": "queued"}


async def test_the_log_line_of_a_failure_is_one_click_away(browser: Browser) -> None:
    await browser.api.start_try("manual__1")
    async with browser.api.database.transaction() as connection:
        await runs.move_run(connection, "load_orders", "manual__1", "running")
        reason = "ValueError: no column city (log line 12)"
        await runs.move_run(connection, "load_orders", "manual__1", "failed", reason=reason)
    assert "/runs/load_orders/manual__1/line" in (await browser.open("/")).links
    answer = await browser.client.get("/runs/load_orders/manual__1/line", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"].endswith("/runs/load_orders/manual__1/log/load/1?line=12#line")


async def test_all_failed_runs_of_a_cause_are_run_again_after_a_page_that_names_jobs_and_numbers(
    browser: Browser,
) -> None:
    api = browser.api
    await failed(api, "report", "r1", "r2", "r3")
    await failed(api, "load_orders", "r4")
    await failed(api, "load_orders", "other", reason="the disk is full")
    overview = await browser.open("/")
    assert "4 runs of 2 jobs have failed" in overview.text
    assert "/problems/run_failed" not in overview.forms, "the button leads to a page first"
    page = await browser.open("/problems/run_failed?subject=r1")
    assert "load_orders 1 report 3" in page.text
    assert "Nothing has changed yet" in page.text
    count = count_of(page)
    assert count == "4"
    refused = await browser.send("/problems/run_failed", 409, subject="r1", expected_count="5")
    assert "4 runs match now" in refused.text
    assert (await browser.send("/problems/run_failed", subject="r2", expected_count=count)).path == "/"
    after = await states(api)
    assert {name for name, state in after.items() if state == "failed"} == {"load_orders.other"}
    assert (await audited(api))[0] == ("run.clear", "~")
    await browser.open("/problems/run_failed?subject=r1", 404)


async def test_a_run_that_somebody_marked_meanwhile_is_left_alone(browser: Browser) -> None:
    await failed(browser.api, "report", "r1", "r2", "r3")
    async with browser.api.database.transaction() as connection:
        await connection.execute(update(run).where(run.c.run_id == "r2").values(state="success"))
    await browser.send("/problems/run_failed", 409, subject="r1", expected_count="3")
    await browser.send("/problems/run_failed", subject="r1", expected_count="2")
    assert await states(browser.api) == {"report.r1": "queued", "report.r2": "success", "report.r3": "queued"}


async def test_bad_records_of_a_cause_are_resolved_together(browser: Browser) -> None:
    api = browser.api
    async with api.database.transaction() as connection:
        for run_id in ("r1", "r2"):
            await runs.create_run(connection, "report", run_id, "load", triggered_by="rest_api", conf="{}", note=None)
            await bad_records.note(connection, "report", run_id, 3)
            await runs.move_run(connection, "report", run_id, "success", reason="x of a.csv")
    page = await browser.open("/problems/bad_records?subject=r2")
    await browser.send("/problems/bad_records", subject="r2", expected_count=count_of(page))
    assert [action for action, _ in await audited(api)] == ["run.resolve", "run.resolve"]
    assert "bad records" not in (await browser.open("/")).text


async def test_failing_watchers_are_tried_now_one_or_all(browser: Browser) -> None:
    api = browser.api
    async with api.database.transaction() as connection:
        one = (await connection.execute(watcher.select().limit(1))).mappings().one()
        await connection.execute(watcher.insert(), [{**one, "name": "other_files"}])
        for name in ("landing_files", "other_files"):
            await positions.claim(connection, name, "here", api.database.dialect)
    health = api.context.process.health
    health.watchers["landing_files"] = WatcherReport(
        state="failing", error="the bucket is gone", retry_at=monotonic() + 240
    )
    page = await browser.open("/")
    assert "/watchers/landing_files/poll" in page.forms
    health.watchers["other_files"] = WatcherReport(
        state="failing", error="the bucket is gone", retry_at=monotonic() + 240
    )
    page = await browser.open("/problems/watcher_failing?subject=other_files")
    assert {"/watchers/landing_files", "/watchers/other_files"} <= set(page.links)
    await browser.send("/problems/watcher_failing", subject="other_files", expected_count=count_of(page))
    assert api.wakes == [Hint(what="polls", names=frozenset({name})) for name in ("landing_files", "other_files")]
    assert await audited(api) == [("watcher.poll", "other_files"), ("watcher.poll", "landing_files")]


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_who_may_act_on_one_may_act_on_all(stranger: Browser, role: str) -> None:
    await failed(stranger.api, "report", "r1", "r2")
    overview = await stranger.sign_in(role)
    may = role == "operator"
    assert ("Run again: all 2" in overview.text) is may
    page = await stranger.open("/problems/run_failed?subject=r1")
    assert ("/problems/run_failed" in page.forms) is may
    await stranger.send("/problems/run_failed", 200 if may else 403, subject="r1", expected_count="2")
    foreign = {"Origin": "https://evil.example"}
    answer = await stranger.client.post("/problems/run_failed", data={"subject": "r1"}, headers=foreign)
    assert answer.status_code == 403
