"""The page of the timeline: what was wrong in an hour, a day or a week, the runs, failures first, and all events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import insert, update

from store.catalog.watcher_states import TOO_MANY
from store.database.schema import asset, asset_event, job, run, task_instance, task_try, watcher, watcher_state
from tests.databases import on_both
from tests.service.web.browsing import Browser, Page

pytestmark = on_both
NOW = datetime.now(UTC).replace(microsecond=0)


async def made(browser: Browser, dag_id: str, state: str, ago: timedelta, took: timedelta) -> str:
    """Make a run that began so long ago, and return its id."""
    name = f"{state}_{ago.total_seconds()}"
    times = {"queued_at": NOW - ago, "run_after": NOW - ago}
    if state != "queued":
        times["start_date"] = NOW - ago
    if state in {"success", "failed", "deleted"}:
        times["end_date"] = NOW - ago + took
    names = {"dag_id": dag_id, "run_id": name, "state": state, "trace_id": "0" * 32}
    async with browser.api.database.transaction() as connection:
        row = insert(run).values(run_type="manual", triggered_by="rest_api", **names, **times)
        await connection.execute(row)
    return name


def bars(page: Page) -> list[str]:
    """Return the classes of all bars, from top to bottom."""
    states = {"success", "failed", "running", "queued"}
    classes = [rect.get("class", "").split() for rect in page.all("rect")]
    return [names[0] for names in classes if names and names[0] in states]


async def test_a_day_of_runs_with_the_job_that_failed_first(browser: Browser) -> None:
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    fine = await made(browser, "load_orders", "success", 6 * hour, minute)
    await made(browser, "load_orders", "deleted", 5 * hour, minute)
    late = await made(browser, "report", "failed", 3 * hour, minute)
    await made(browser, "report", "running", 2 * hour, minute)
    overlapping = await made(browser, "report", "success", 25 * hour, 2 * hour)
    await made(browser, "report", "success", 50 * hour, minute)

    page = await browser.open("/timeline")

    assert bars(page) == ["success", "running", "failed", "success"]
    assert page.text.index("report") < page.text.index("load_orders")
    assert "1 failed run" in page.text
    assert {f"/runs/load_orders/{fine}", f"/runs/report/{late}", f"/runs/report/{overlapping}"} <= set(page.links)
    assert "/runs?state=failed&job=report" in page.links

    assert len(bars(await browser.open("/timeline?zoom=week"))) == 5
    day_before = await browser.open(f"/timeline?until={(NOW - 40 * hour).isoformat().replace('+00:00', 'Z')}")
    assert bars(day_before) == ["success"]
    assert "No run failed" in day_before.text


async def test_runs_that_cannot_be_told_apart_are_one_bar_with_their_number(browser: Browser) -> None:
    day = timedelta(days=1)
    for number in range(40):
        await made(browser, "report", "success", day / 2 - timedelta(milliseconds=number), timedelta(seconds=1))
    page = await browser.open("/timeline")
    assert len(bars(page)) in {1, 2}
    assert "40 runs" in page.text
    assert "/runs?state=success&job=report" in page.links


async def test_events_are_ticks_that_count_them_all(browser: Browser) -> None:
    event = {"asset_id": browser.api.asset_ids["landing"], "extra": "{}", "trace_id": "0" * 32}
    ages = [timedelta(minutes=5 + 20 * number) for number in range(30)]
    rows = [{**event, "timestamp": NOW - age, "event_id": f"e{age}"} for age in [*ages, timedelta(days=2)]]
    async with browser.api.database.transaction() as connection:
        await connection.execute(insert(asset_event), rows)
    page, week = await browser.open("/timeline"), await browser.open("/timeline?zoom=week")
    assert "Events 30 " in page.text
    assert "Events 31 " in week.text
    assert len([rect for rect in page.all("rect") if rect.get("class") == "tick"]) == 30


async def test_a_time_that_is_none_is_refused_in_words(browser: Browser) -> None:
    for text in ("noon", "9999-12-31", "0001-01-01"):
        assert "is not a time" in (await browser.open(f"/timeline?until={text}", 422)).text
    assert "Timeline" in (await browser.open("/timeline?until=2026-01-31T06:00:00%2B05:30")).text
    await browser.open("/timeline?zoom=year", 422)
    assert "No run in this time" in (await browser.open("/timeline")).text


async def changed(browser: Browser, name: str, *changes: tuple[timedelta, str, str | None]) -> None:
    """Record changes of a watcher's state, each with how long ago it was."""
    new = [{"watcher": name, "at": NOW - ago, "state": state, "sentence": why} for ago, state, why in changes]
    async with browser.api.database.transaction() as connection:
        await connection.execute(insert(watcher_state), new)


def rows_of(page: Page) -> list[str]:
    """Return the pages of the rows' names, from top to bottom."""
    kinds = ("/watchers/", "/assets/", "/jobs/")
    return list(dict.fromkeys(link for link in page.links if link.startswith(kinds)))


async def test_a_watcher_that_was_not_running_all_the_time_has_a_row_with_what_was_wrong(browser: Browser) -> None:
    hour = timedelta(hours=1)
    await changed(
        browser,
        "landing_files",
        (40 * hour, "blocked", "an id went back"),
        (34 * hour, "running", None),
        (22 * hour, "failing", "the bucket is gone"),
        (18 * hour, "running", None),
        (5 * hour, "paused", None),
        (4 * hour, "running", None),
    )
    await changed(browser, "unknown", (hour, "failing", "of a watcher that is not configured"))

    page = await browser.open("/timeline")

    assert "1 watcher did not run all the time" in page.text
    assert "not running for 5 h" in page.text
    assert "failing, " in page.text
    assert "the bucket is gone" in page.text
    assert "of a watcher that is not configured" not in page.text
    assert "/watchers/landing_files" in page.links
    classes = [rect.get("class") for rect in page.all("rect")]
    assert ("failing bad" in classes, "paused warn" in classes) == (True, True)

    for path in ("/timeline?zoom=hour", f"/timeline?until={(NOW - 60 * hour).isoformat().replace('+00:00', 'Z')}"):
        assert "did not run all the time" not in (await browser.open(path)).text
    assert "not running for 11 h" in (await browser.open("/timeline?zoom=week")).text


async def test_a_state_that_stands_for_what_is_not_recorded_ends_after_a_day(browser: Browser) -> None:
    await changed(browser, "landing_files", (timedelta(days=6), "unstable", TOO_MANY))
    bars_of_week = [
        rect for rect in (await browser.open("/timeline?zoom=week")).all("rect") if rect.get("class") == "unstable warn"
    ]
    assert [round(float((rect.get("width") or "").rstrip("%"))) for rect in bars_of_week] == [14]


async def test_tries_that_failed_before_their_runs_succeeded_are_marks_and_a_sentence(browser: Browser) -> None:
    minute = timedelta(minutes=1)
    names = [await made(browser, "load_orders", "success", age * minute, 30 * minute) for age in (90, 200)]
    cleared = await made(browser, "load_orders", "success", 300 * minute, 30 * minute)
    kinds = {names[0]: "failed", names[1]: None, cleared: "success"}
    async with browser.api.database.transaction() as connection:
        for number, (run_id, finish_state) in enumerate(kinds.items()):
            instance = {"id": f"i{number}", "dag_id": "load_orders", "run_id": run_id, "task_id": "load_orders"}
            await connection.execute(insert(task_instance).values(**instance, try_number=2, state="success"))
            for attempt in (1, 2):
                of_try = {"task_instance_id": f"i{number}", "try_number": attempt, "tag": f"t{number}{attempt}"}
                began = NOW - (300 - 10 * attempt) * minute if run_id == cleared else NOW - (80 - 10 * attempt) * minute
                ended = {"intent_at": began, "ended_at": began + minute}
                state = finish_state if attempt == 1 else "success"
                keys = {"home_id": "h", "token_hash": "x", "finish_state": state}
                await connection.execute(insert(task_try).values(**of_try, **ended, **keys))

    page = await browser.open("/timeline")

    assert "No run failed for good" in page.text
    assert "2 runs failed, both succeeded when run again" in page.text
    assert "failed before the run succeeded" in page.text
    assert [rect.get("class") for rect in page.all("rect")].count("up-for-retry warn") in {1, 2}


async def test_an_asset_that_is_late_has_a_row(browser: Browser) -> None:
    async with browser.api.database.transaction() as connection:
        late = update(asset).where(asset.c.id == browser.api.asset_ids["landing"])
        await connection.execute(late.values(expect_every_seconds=3600, created_at=NOW - timedelta(hours=4)))
    page = await browser.open("/timeline")
    assert "1 asset is late" in page.text
    assert f"/assets/{browser.api.asset_ids['landing']}" in page.links
    assert [rect.get("class") for rect in page.all("rect")] == ["late bad"]


async def test_at_most_fifty_rows_the_worst_first_and_the_rest_is_counted(browser: Browser) -> None:
    hour = timedelta(hours=1)
    asset_id = browser.api.asset_ids["landing"]
    async with browser.api.database.transaction() as connection:
        new = [{"name": f"w{number:02}", "asset_id": asset_id, "trigger": "s3.new_files"} for number in range(52)]
        await connection.execute(insert(watcher), new)
    for number in range(52):
        await changed(browser, f"w{number:02}", (hour, "paused", None))
    await changed(browser, "w51", (hour / 2, "blocked", "an id went back"))
    await made(browser, "report", "failed", hour, hour / 2)
    await made(browser, "load_orders", "success", hour, hour / 2)

    page = await browser.open("/timeline")

    assert rows_of(page)[:3] == ["/watchers/w51", "/jobs/report", "/watchers/w00"]
    assert len(rows_of(page)) == 50
    assert "There are 3 more watchers , 1 more job ." in page.text
    assert {"/watchers", "/jobs"} <= set(page.links)


async def test_a_week_of_forty_jobs_and_six_thousand_runs_is_small(browser: Browser) -> None:
    row = {"run_type": "manual", "triggered_by": "rest_api", "trace_id": "0" * 32}
    async with browser.api.database.transaction() as connection:
        definition = (await connection.execute(job.select())).mappings().first()
        assert definition is not None
        jobs = [{**definition, "dag_id": f"job_with_a_name_of_some_length_{number:02}"} for number in range(40)]
        await connection.execute(insert(job), jobs)
        runs = [
            {
                **row,
                "dag_id": jobs[number % 40]["dag_id"],
                "run_id": f"asset_triggered__2026-01-31T06:00:00.{number:06}+00:00",
                "state": "failed" if number % 7 == 0 else "success",
                **dict.fromkeys(("queued_at", "run_after", "start_date"), NOW - timedelta(minutes=1.67 * number)),
                "end_date": NOW - timedelta(minutes=1.67 * number - 1),
            }
            for number in range(6000)
        ]
        await connection.execute(insert(run), runs)
    page = await browser.open("/timeline?zoom=week")
    assert len(page.answer.content) < 300_000
    assert {"success good", "failed bad"} <= {shape.get("class") for shape in page.all("path")}
    assert len(bars(page)) == 250


async def test_the_hours_are_labelled_with_their_zone(browser: Browser) -> None:
    page = await browser.open("/timeline")
    labels = [label.get("data-at", "") for label in page.all("text") if label.get("data-form") == "hour"]
    assert len(labels) >= 22
    assert "Hours UTC" in page.text
    assert "Days UTC" in (await browser.open("/timeline?zoom=week")).text
