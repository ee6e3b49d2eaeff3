"""The lists of watchers and jobs: filters stand in the address, parts follow each other by name, and only operators act."""

from __future__ import annotations

import json
from time import time

from sqlalchemy import update

from store.database.schema import job, watcher
from store.runs import runs
from tests.service.web.browsing import Browser


async def test_the_lists_lead_to_each_watcher_and_job(browser: Browser) -> None:
    watchers, jobs = await browser.open("/watchers"), await browser.open("/jobs")
    assert "/watchers/landing_files" in watchers.links or any(link.startswith("/watchers/") for link in watchers.links)
    assert any(link.startswith("/jobs/") for link in jobs.links)
    for page in (watchers, jobs):
        assert {"/watchers", "/jobs"} <= set(page.links)


async def test_filters_select_by_state_and_by_text_in_the_name(browser: Browser) -> None:
    everything = [link for link in (await browser.open("/jobs")).links if link.startswith("/jobs/")]
    name = everything[0].removeprefix("/jobs/")
    async with browser.api.database.transaction() as connection:
        await connection.execute(update(job).where(job.c.dag_id == name).values(paused=True))
    paused = await browser.open("/jobs?state=paused")
    assert [link for link in paused.links if link.startswith("/jobs/")] == [f"/jobs/{name}"]
    assert f"/jobs/{name}" not in (await browser.open("/jobs?state=active")).links
    assert f"/jobs/{name}" in (await browser.open(f"/jobs?text={name[1:].upper()}")).links
    assert "No job has nothing_like_it in its name" in (await browser.open("/jobs?text=nothing_like_it")).text
    assert "No watcher has <b>x</b> in its name" in (await browser.open("/watchers?text=<b>x</b>")).text
    assert "No watcher is blocked" in (await browser.open("/watchers?state=blocked")).text


async def test_the_last_runs_of_a_job_are_drawn_where_people_look_and_lead_to_each_run(browser: Browser) -> None:
    await browser.api.start_try("manual__1")
    async with browser.api.database.transaction() as connection:
        await runs.move_run(connection, "load_orders", "manual__1", "running")
        await runs.move_run(connection, "load_orders", "manual__1", "failed", reason="no such column")
    for path in ("/", "/jobs", "/jobs/load_orders", "/runs?job=load_orders", "/watchers"):
        page = await browser.open(path)
        (drawing,) = [svg for svg in page.all("svg") if svg.get("class") == "strip"]
        assert drawing["aria-label"].startswith("the last 1 runs: 1 failed; the newest is failed"), path
        assert [mark["class"] for mark in page.all("path")] == ["failed bad"], path
        assert "/runs/load_orders/manual__1" in page.links, path
    assert not [svg for svg in (await browser.open("/runs")).all("svg") if svg.get("class") == "strip"]


async def test_a_long_list_goes_on_behind_the_last_name(browser: Browser) -> None:
    async with browser.api.database.transaction() as connection:
        columns = {column.name: column for column in job.c}
        one = (await connection.execute(job.select().limit(1))).mappings().one()
        rows = [{**one, "dag_id": f"many_{number:03}"} for number in range(120)]
        assert set(columns) == set(one)
        await connection.execute(job.insert(), rows)
    seen: list[str] = []
    address: str | None = "/jobs?text=many_"
    while address is not None:
        page = await browser.open(address)
        seen += [link.removeprefix("/jobs/") for link in page.links if link.startswith("/jobs/many_")]
        following = [a["href"] for a in page.all("a") if a.get("rel") == "next"]
        address = str(page.answer.url.join(following[0]).raw_path.decode()) if following else None
    assert seen == [f"many_{number:03}" for number in range(120)]


async def test_a_viewer_sees_no_buttons_in_the_lists(stranger: Browser) -> None:
    await stranger.sign_in("viewer")
    for path in ("/watchers", "/jobs"):
        assert (await stranger.open(path)).forms == ["/sign-out"]
    stranger.client.cookies.clear()
    await stranger.sign_in("operator")
    for path in ("/watchers", "/jobs"):
        assert len((await stranger.open(path)).forms) > 1


async def test_the_page_of_a_watcher_draws_its_polls_and_the_hours_of_its_events(browser: Browser) -> None:
    empty = await browser.open("/watchers/landing_files")
    assert not [svg for svg in empty.all("svg") if "polls" in svg.get("class", "")]
    history = '[{"started": "2026-01-31T12:00:00.000Z", "found": 3, "committed": 1}, {"started": "2026-01-31T12:01:00.000Z", "error": "gone"}]'
    async with browser.api.database.transaction() as connection:
        await connection.execute(update(watcher).where(watcher.c.name == "landing_files").values(polls=history))
    for _ in range(4):
        await browser.api.client.post("/api/v2/assets/events", json={"asset_id": browser.api.asset_ids["landing"]})

    page = await browser.open("/watchers/landing_files")

    (strip,) = [svg for svg in page.all("svg") if "polls" in svg.get("class", "")]
    assert strip["aria-label"] == "The last polls: 1 found something, 1 failed"
    assert [mark["class"] for mark in page.all("path")] == ["found good", "error bad"]
    assert len([rect for rect in page.all("rect") if rect.get("class") == "tick"]) == 1
    assert "4 events, " in page.text


async def test_the_page_of_a_watcher_draws_its_lag_by_hour_with_axes(browser: Browser) -> None:
    assert "Not known yet." in (await browser.open("/watchers/landing_files")).text
    hour = int(time() // 3600)
    lag = {"newest": hour - 1, "seconds": [90.0, None, 7200.0, 3600.0]}
    async with browser.api.database.transaction() as connection:
        row = update(watcher).where(watcher.c.name == "landing_files")
        await connection.execute(row.values(polls=json.dumps({"polls": [], "lag": lag})))
    page = await browser.open("/watchers/landing_files")
    assert len([*page.all("circle")]) == 3
    assert len([line for line in page.all("line") if line.get("class") == "lag"]) == 1
    assert "Lag by hour, at most 2 h" in {svg.get("aria-label") for svg in page.all("svg")}
    assert "behind by 1 h at most, " in page.text
