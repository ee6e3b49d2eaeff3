"""Actions on pages: each form does the same as the API, for people with the role, and only from our own pages."""

from __future__ import annotations

import json
import re
from time import monotonic
from urllib.parse import urlencode

import pytest
from sqlalchemy import delete

from store.database.schema import api_session
from store.detection import positions
from store.processes import audit
from store.runs import run_lists, runs
from store.runs.run_lists import RunFilter
from store.runs.tries import bad_records
from tests.databases import on_both
from tests.service.web.browsing import HOME, Browser
from watcher.host.health import WatcherReport
from watcher.host.loops import Hint

pytestmark = on_both


async def actions(browser: Browser) -> list[str]:
    async with browser.api.database.reading() as connection:
        return [entry.action for entry in await audit.latest(connection, limit=20)]


async def test_a_watcher_is_paused_and_resumed(browser: Browser) -> None:
    page = await browser.open("/watchers/landing_files")
    assert "/watchers/landing_files/pause" in page.forms
    page = await browser.send("/watchers/landing_files/pause")
    assert (page.path, page.forms[0]) == ("/watchers/landing_files", "/watchers/landing_files/resume")
    assert "paused" in page.text
    await browser.send("/watchers/landing_files/resume")
    assert await actions(browser) == ["watcher.resume", "watcher.pause"]


async def test_a_watcher_is_tried_now(browser: Browser) -> None:
    async with browser.api.database.transaction() as connection:
        await positions.claim(connection, "landing_files", "here", browser.api.database.dialect)
    browser.api.context.process.health.watchers["landing_files"] = WatcherReport(
        state="failing", error="the bucket is gone", retry_at=monotonic() + 240.5
    )
    page = await browser.open("/watchers/landing_files")
    assert "Next try in 4" in re.sub(r"\s+", " ", page.text)
    assert "/watchers/landing_files/poll" in page.forms
    page = await browser.send("/watchers/landing_files/poll")
    assert page.path == "/watchers/landing_files"
    assert browser.api.wakes == [Hint(what="polls", names=frozenset({"landing_files"}))]
    assert await actions(browser) == ["watcher.poll"]
    page = await browser.send("/watchers/landing_files/pause")
    assert "/watchers/landing_files/poll" not in page.forms


async def test_a_run_is_started_with_a_conf_cancelled_and_retried(browser: Browser) -> None:
    page = await browser.send("/jobs/report/start", conf='{"day": "2026-01-31"}')
    run = page.answer.url.path
    assert run.startswith("/runs/report/manual__")
    assert '"day": "2026-01-31"' in page.text
    assert page.forms == [f"{run}/cancel"]
    page = await browser.send(f"{run}/cancel")
    assert (page.forms, "cancelled" in page.text) == ([f"{run}/retry"], True)
    page = await browser.send(f"{run}/retry")
    assert page.forms == [f"{run}/cancel"]
    for wrong in ("{", "[1]", "[" * 100_000):
        refused = await browser.send("/jobs/report/start", 422, conf=wrong)
        assert "the conf" in refused.text


async def test_a_replay_is_previewed_and_begun(browser: Browser) -> None:
    times = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    page = await browser.open(f"/jobs/load_orders/replay?{urlencode(times)}")
    assert "Nothing has changed yet" in page.text
    assert "/jobs/load_orders/replay" in page.forms
    count = re.search(r'name="expected_count" value="(\d+)"', page.answer.text)
    assert count is not None
    page = await browser.send("/jobs/load_orders/replay", **times, expected_count=count[1])
    assert page.path == "/jobs/load_orders"
    assert await actions(browser) == ["job.replay"]
    page = await browser.open(f"/jobs/load_orders/replay?{urlencode({**times, 'asset': 'landing'})}")
    assert "Replay 0 events of landing" in page.text
    assert {"name": "asset", "type": "hidden", "value": "landing"} in [*page.all("input")]
    local = urlencode({"from": "2020-01-01T00:00", "to": "2020-01-02T00:00:30"})  # as a browser's field writes it
    assert "Nothing has changed yet" in (await browser.open(f"/jobs/load_orders/replay?{local}")).text
    backwards = urlencode({"from": times["to"], "to": times["from"]})
    assert "must be earlier" in (await browser.open(f"/jobs/load_orders/replay?{backwards}", 422)).text


async def test_bad_records_are_on_the_overview_until_somebody_resolves_them(browser: Browser) -> None:
    run = (await browser.send("/jobs/report/start", conf="{}")).answer.url.path
    dag_id, run_id = "report", run.rpartition("/")[2]
    async with browser.api.database.transaction() as connection:
        await bad_records.note(connection, dag_id, run_id, 1234)
        await runs.move_run(connection, dag_id, run_id, "success", reason="x of a.csv")
    assert "a run of report has left out 1234 bad records : x of a.csv" in (await browser.open("/")).text
    page = await browser.open(run)
    assert ("Bad records" in page.text, page.forms) == (True, [f"{run}/retry", f"{run}/resolve"])
    page = await browser.send(f"{run}/resolve")
    assert (page.forms, "resolved" in page.text) == ([f"{run}/retry"], True)
    assert "bad records" not in (await browser.open("/")).text
    assert (await actions(browser))[0] == "run.resolve"


async def test_files_that_a_try_did_not_get_are_on_the_page_of_its_run(browser: Browser) -> None:
    run = (await browser.send("/jobs/report/start", conf="{}")).answer.url.path
    assert "clean_source" not in (await browser.open(run)).text
    async with browser.api.database.transaction() as connection:
        counts = json.dumps({"cleaned": 2, "moved": 1})
        await runs.move_run(connection, "report", run.rpartition("/")[2], "running", changed_items=counts)
    assert "2 files that clean_source has deleted are left out" in (await browser.open(run)).text
    answer = await browser.api.get(f"/api/v2/dags/report/dagRuns/{run.rpartition('/')[2]}")
    assert answer["cleaned"] == 2


async def test_a_value_is_restored_from_its_history_unless_it_has_changed(browser: Browser) -> None:
    for value in ({"rows": 1, "city": "Kyiv"}, {"rows": 2, "city": "Kyiv"}):
        await browser.api.put("orders", "k/ä", value)
    entry = f"{browser.asset('orders')}/entry?key=k/ä"
    page = await browser.open(entry)
    assert '- "rows": 1,' in page.text
    assert '+ "rows": 2,' in page.text
    fields = {a["name"]: a["value"] for a in page.all("input") if a.get("type") == "hidden" and "name" in a}
    page = await browser.send(f"{browser.asset('orders')}/undo", **fields)
    assert re.search(r"Version 3, written .* by api anonymous", page.text)
    await browser.send(f"{browser.asset('orders')}/undo", 409, **fields)
    assert (await actions(browser))[0] == "asset_store.undo"


async def test_pages_of_other_sites_cannot_send_forms(browser: Browser) -> None:
    for path in ("/watchers/landing_files/pause", "/jobs/report/start", "/sign-in"):
        answer = await browser.client.post(path, headers={"Origin": "https://evil.example"})
        assert answer.status_code in {403, 422}, path
    assert await actions(browser) == []


@pytest.mark.parametrize(
    ("role", "shown"),
    [
        ("viewer", set()),
        ("operator", {"/jobs/report/start", "/watchers/landing_files/pause"}),
        ("admin", {"/jobs/report/start", "/watchers/landing_files/pause", "undo"}),
    ],
)
async def test_no_page_shows_a_button_that_would_be_refused(stranger: Browser, role: str, shown: set[str]) -> None:
    for value in (1, 2):
        await stranger.api.put("orders", "k", value)
    assert (await stranger.sign_in(role)).path == "/"
    undo = f"{stranger.asset('orders')}/undo"
    pages = ["/watchers/landing_files", "/jobs/report", f"{stranger.asset('orders')}/entry?key=k"]
    forms = {form for path in pages for form in (await stranger.open(path)).forms}
    expected = {undo if form == "undo" else form for form in shown}
    assert {form for form in forms if form in {undo, "/jobs/report/start", "/watchers/landing_files/pause"}} == expected
    for path in {undo, "/jobs/report/start", "/watchers/landing_files/pause"} - expected:
        assert "this needs the role" in (await stranger.send(path, 403)).text


async def test_a_form_that_was_sent_after_the_session_had_ended_is_sent_again_after_a_click(stranger: Browser) -> None:
    await stranger.sign_in("operator")
    stranger.client.headers["Referer"] = f"{HOME}/jobs/report?x=1"
    async with stranger.api.database.transaction() as connection:
        await connection.execute(delete(api_session))
    page = await stranger.send("/jobs/report/start", 401, conf='{"day": "<1>"}')
    assert "The session has ended" in page.text
    hidden = {a["name"]: a["value"] for a in page.all("input") if a.get("type") == "hidden"}
    wrong = await stranger.send("/sign-in", 403, token="wrong", **hidden)
    assert hidden == {a["name"]: a["value"] for a in wrong.all("input") if a.get("type") == "hidden"}
    page = await stranger.sign_in("operator", **hidden)
    assert (page.forms, {a["href"] for a in page.all("a") if "jobs" in a["href"]}) == (
        ["/jobs/report/start"],
        {"./jobs/report?x=1"},
    )
    async with stranger.api.database.reading() as connection:
        assert await run_lists.latest(connection, RunFilter(), limit=10) == []
    fields = {a["name"]: a["value"] for a in page.all("input") if a.get("type") == "hidden" and a["name"] != "q"}
    assert fields == {"conf": '{"day": "<1>"}'}
    started = await stranger.send("/jobs/report/start", **fields)
    assert started.path.startswith("/runs/report/manual__")


async def test_a_form_of_another_site_is_not_kept(stranger: Browser) -> None:
    answer = await stranger.client.post("/watchers/landing_files/pause", headers={"Origin": "https://evil.example"})
    assert (answer.status_code, answer.url.path, "landing_files" in answer.text) == (200, "/sign-in", False)


async def test_an_error_stands_in_a_page_with_navigation(browser: Browser, stranger: Browser) -> None:
    for page in (await browser.open("/jobs/nobody", 404), await browser.open("/nowhere", 404)):
        assert {"/watchers", "/jobs", "/runs"} <= set(page.links)
    await stranger.sign_in("viewer")
    stranger.client.headers["Referer"] = f"{HOME}/jobs/report"
    refused = await stranger.send("/jobs/report/start", 403)
    assert {"/watchers", "/jobs/report"} <= set(refused.links)
    stranger.client.cookies.clear()
    assert "/watchers" not in (await stranger.open("/nowhere", 404)).links


async def test_a_stranger_signs_in_and_comes_to_the_requested_page(stranger: Browser) -> None:
    page = await stranger.open("/audit?before=7")
    assert page.path.startswith("/sign-in?next=")
    (following,) = [a["value"] for a in page.all("input") if a.get("name") == "next"]
    assert "Invalid token" in (await stranger.send("/sign-in", 403, token="wrong", next=following)).text
    assert (await stranger.sign_in("viewer", next=following)).path == "/audit?before=7"
    assert (await stranger.send("/sign-out")).path == "/sign-in"
    assert (await stranger.open("/audit")).path.startswith("/sign-in")
    for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example"):
        page = await stranger.sign_in("viewer", next=elsewhere)
        assert str(page.answer.url).startswith(f"{HOME}/")
