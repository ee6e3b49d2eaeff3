"""Actions on all that a filter matches: by REST and on the pages, with the count that the person saw; another count is 409."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest
from sqlalchemy import update

from store.database.schema import run, watcher
from store.processes import audit
from store.runs import run_lists, runs
from store.runs.run_lists import RunFilter
from tests.databases import on_both
from tests.service.api.application import Api
from tests.service.web.browsing import Browser, Page

pytestmark = [pytest.mark.service, on_both]


async def some_runs(api: Api) -> None:
    """Make five runs of `report` and two of `load_orders`: 3 and 1 have failed, one succeeded, one is queued."""
    states = {"report": ["failed", "failed", "failed", "success", None], "load_orders": ["failed", None]}
    async with api.database.transaction() as connection:
        for dag_id, of_job in states.items():
            for number, state in enumerate(of_job):
                run_id = f"r{number}"
                await runs.create_run(connection, dag_id, run_id, "load", triggered_by="rest_api", conf="{}", note=None)
                if state is not None:
                    await runs.move_run(connection, dag_id, run_id, state, reason="no memory")


async def states(api: Api) -> dict[str, str]:
    async with api.database.reading() as connection:
        return {
            f"{each.dag_id}.{each.run_id}": each.state
            for each in await run_lists.latest(connection, RunFilter(), limit=20)
        }


def count_in(page: Page, address: str) -> str:
    form = re.search(rf'<form method="post" action="[^"]*{address}">.*?</form>', page.answer.text, re.DOTALL)
    assert form is not None, page.answer.text
    [count] = re.findall(r'name="expected_count" value="(\d+)"', form[0])
    return str(count)


async def test_all_failed_runs_of_a_job_are_cleared_by_rest(browser: Browser) -> None:
    api = browser.api
    await some_runs(api)
    path = "/api/v2/dags/report/dagRuns/clear?state=failed"
    preview = await api.client.post(path, json={})
    assert (preview.status_code, preview.json()) == (
        200,
        {"dry_run": True, "expected_count": 3, "cleaned": 0, "superseded": 0},
    )
    refused = await api.client.post(path, json={"dry_run": False, "expected_count": 2})
    assert (refused.status_code, "3 runs match now, and not 2" in refused.json()["detail"]) == (409, True)
    assert (await states(api))["report.r0"] == "failed"
    done = await api.client.post(path, json={"dry_run": False, "expected_count": 3})
    assert done.json() == {"dry_run": False, "expected_count": 3, "cleaned": 0, "superseded": 0}
    after = await states(api)
    assert [after[f"report.r{number}"] for number in range(5)] == ["queued", "queued", "queued", "success", "queued"]
    assert after["load_orders.r0"] == "failed"


async def test_the_page_of_failed_runs_runs_them_again_after_the_count_was_shown(browser: Browser) -> None:
    await some_runs(browser.api)
    assert "/runs" not in (await browser.open("/runs")).forms
    page = await browser.open("/runs?state=failed")
    assert count_in(page, "runs") == "4"
    refused = await browser.send("/runs", 409, action="clear", state="failed", expected_count="5")
    assert "4 runs match now" in refused.text
    page = await browser.send("/runs", action="clear", state="failed", expected_count="4")
    assert page.path == "/runs"
    after = await states(browser.api)
    assert sorted(after.values()) == ["queued"] * 6 + ["success"]
    async with browser.api.database.reading() as connection:
        (entry, *_) = await audit.latest(connection, limit=1)
    assert (entry.action, entry.target) == ("run.clear", "~")


async def aged_runs(api: Api) -> None:
    """Make `some_runs`; those of `report` changed last on January 30, and r1 failed for another reason."""
    await some_runs(api)
    async with api.database.transaction() as connection:
        of_report = update(run).where(run.c.dag_id == "report", run.c.end_date.is_not(None))
        await connection.execute(of_report.values(end_date=datetime(2026, 1, 30, 22, tzinfo=UTC)))
        await connection.execute(of_report.where(run.c.run_id == "r1").values(reason="no such column: 100%_off"))


FILTERS = {
    "text=MEMORY": {"report.r0", "report.r2", "load_orders.r0"},
    "text=100%25_": {"report.r1"},
    "text=port": {"report.r0", "report.r1", "report.r2"},
    "text=r0&job=report": {"report.r0"},
    "until=2026-01-30T22:01": {"report.r0", "report.r1", "report.r2"},
    "until=2026-01-30T22:00": set(),
    "since=2026-01-30T22:01": {"load_orders.r0"},
    "since=2026-01-30T23:00%2B01:00&until=2026-01-30T23:00&text=memory": {"report.r0", "report.r2"},
}


@pytest.mark.parametrize("query", FILTERS)
async def test_runs_of_a_time_or_with_a_text_are_shown_counted_and_run_again(query: str, browser: Browser) -> None:
    await aged_runs(browser.api)
    page = await browser.open(f"/runs?state=failed&{query}")
    rows = [a["href"].rpartition("/runs/") for a in page.all("a") if a.get("tabindex") != "-1"]
    shown = {name.replace("/", ".") for _, is_run, name in rows if is_run and "/" in name}
    assert shown == FILTERS[query]
    if not shown:
        assert "in these times" in page.text
        return
    fields = {name: value for name, [value] in parse_qs(query).items()}
    count = count_in(page, "runs")
    assert count == str(len(shown))
    await browser.send("/runs", action="clear", state="failed", expected_count=count, **fields)
    after = await states(browser.api)
    assert {name for name, state in after.items() if state == "failed"} == {
        name for name in ("report.r0", "report.r1", "report.r2", "load_orders.r0") if name not in shown
    }


async def test_a_time_that_is_none_is_refused_by_a_sentence(browser: Browser) -> None:
    for query in ("since=yesterday", "until=0001-01-01T00:00%2B14:00"):
        refused = await browser.client.get(f"/runs?{query}")
        assert (refused.status_code, "write it as 2026-01-31T22:00" in refused.text) == (422, True)


async def test_rest_clears_runs_of_a_time_with_a_text(browser: Browser) -> None:
    api = browser.api
    await aged_runs(api)
    query = "state=failed&text=Memory&updated_at_lt=2026-01-31T00:00:00Z"
    listed = (await api.client.get(f"/api/v2/dags/~/dagRuns?{query}")).json()
    assert {each["dag_run_id"] for each in listed["dag_runs"]} == {"r0", "r2"}
    path = f"/api/v2/dags/~/dagRuns/clear?{query}"
    assert (await api.client.post(path, json={"dry_run": False, "expected_count": 3})).status_code == 409
    done = await api.client.post(path, json={"dry_run": False, "expected_count": 2})
    assert done.json() == {"dry_run": False, "expected_count": 2, "cleaned": 0, "superseded": 0}


async def test_the_jobs_of_a_list_are_paused_and_resumed(browser: Browser) -> None:
    page = await browser.open("/jobs?state=active")
    count = count_in(page, "jobs")
    assert count == "2"
    await browser.send("/jobs", 409, action="pause", state="active", expected_count="3")
    await browser.send("/jobs", action="pause", state="active", text="", expected_count=count)
    jobs = await browser.api.get("/api/v2/dags", dag_id_pattern="~")
    assert [job["is_paused"] for job in jobs["dags"]] == [True, True]
    body = {"is_paused": False, "expected_count": 1}
    refused = await browser.api.client.patch("/api/v2/dags?dag_id_pattern=~&paused=true", json=body)
    assert refused.status_code == 409
    page = await browser.open("/jobs?state=paused")
    await browser.send("/jobs", action="resume", state="paused", expected_count=count_in(page, "jobs"))
    assert "No job is paused" in (await browser.open("/jobs?state=paused")).text
    await browser.send("/jobs", 422, action="remove", expected_count="2")
    await browser.send("/jobs", 422, action="pause", state="gone", expected_count="2")


async def test_the_watchers_of_a_list_are_paused_and_resumed(browser: Browser) -> None:
    api = browser.api
    async with api.database.transaction() as connection:
        one = (await connection.execute(watcher.select().limit(1))).mappings().one()
        await connection.execute(watcher.insert(), [{**one, "name": f"other_{number}"} for number in range(2)])
        await connection.execute(update(watcher).where(watcher.c.name == "other_0").values(paused=True))
    page = await browser.open("/watchers?text=OTHER")
    assert re.findall(r'name="expected_count" value="(\d+)"', page.answer.text) == ["1", "1"]
    await browser.send("/watchers", 409, action="pause", text="other", expected_count="2")
    await browser.send("/watchers", action="pause", text="other", expected_count="1")
    paused = {each["name"] for each in (await api.get("/api/v2/watchers"))["watchers"] if each["paused"]}
    assert paused == {"other_0", "other_1"}
    done = await api.client.patch("/api/v2/watchers?text=other", json={"paused": False, "expected_count": 2})
    assert done.json() == {"watchers": ["other_0", "other_1"], "total_entries": 2}
    assert (await api.client.patch("/api/v2/watchers", json={"paused": True, "expected_count": 9})).status_code == 409


async def test_only_operators_act_on_all(stranger: Browser) -> None:
    await some_runs(stranger.api)
    await stranger.sign_in("viewer")
    for path, fields in {"/runs": {"state": "failed"}, "/jobs": {}, "/watchers": {}}.items():
        assert (await stranger.open(f"{path}?state={fields['state']}" if fields else path)).forms == ["/sign-out"]
        await stranger.send(path, 403, action="pause", expected_count="1", **fields)
