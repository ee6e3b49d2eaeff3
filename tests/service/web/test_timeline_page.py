"""The page of the timeline: the runs of a day or a week, failures first, and all events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sqlalchemy import insert

from store.database.schema import asset_event, run
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
