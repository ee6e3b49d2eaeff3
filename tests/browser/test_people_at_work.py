"""People use a real daemon in a browser: read, pause, rewind, start, sign in, with the keyboard, and without JavaScript."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, Route, expect

from tests.browser.conftest import sign_in
from tests.browser.site import Site
from tests.effort import PATIENCE
from watcher.features.demo.counting import Count, DemoCounts

pytestmark = [pytest.mark.browser, pytest.mark.service]
SOON = PATIENCE * 1000
"""Milliseconds that a page may take to show a change."""


async def test_a_watcher_is_paused_rewound_with_a_preview_and_resumed(page: Page, site: Site) -> None:
    await site.rows("Kyiv", "Lviv", "Oslo")
    await site.entry("customers", "customers_rows.watermark")
    await page.goto("/watchers/customers_rows")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".state.paused")).to_be_visible()

    await page.get_by_role("button", name="Preview the next poll").click()
    await expect(page.get_by_role("heading", name="The next poll would find")).to_be_visible()

    await page.get_by_label("Rewind to another place").fill("nonsense")
    await page.get_by_role("button", name="Preview the rewind").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.go_back()
    await page.get_by_label("Rewind to another place").fill("0")
    await page.get_by_role("button", name="Preview the rewind").click()
    preview = page.locator("#preview")
    await expect(preview).to_contain_text("Nothing has changed yet")
    before = (await site.get("/api/v2/watchers/customers_rows"))["position_version"]
    await page.get_by_role("button", name="Rewind to 0").click()
    await expect(page.get_by_role("button", name="Undo the last rewind")).to_be_visible()
    assert (await site.get("/api/v2/watchers/customers_rows"))["position_version"] == before + 1
    await expect(page.get_by_text("The last rewind can be undone until something is emitted")).to_be_visible()
    await page.get_by_role("button", name="Undo the last rewind").click()
    await expect(page.get_by_role("button", name="Undo the last rewind")).to_have_count(0)

    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator("#doing .state.paused")).to_have_count(0, timeout=SOON)
    await page.goto("/audit")
    for action in ("watcher.pause", "watcher.rewind", "watcher.rewind_undo", "watcher.resume"):
        await expect(page.get_by_text(action, exact=True).first).to_be_visible()


async def test_an_open_log_page_shows_new_lines(page: Page, site: Site) -> None:
    await page.goto("/watchers/landing_files/log")
    lines = page.locator("ol.log li")
    count = await lines.count()
    site.put_file("while-somebody-looks.json")
    await expect(lines.nth(count)).to_be_visible(timeout=SOON)
    await expect(page.locator("ol.log .event", has_text="store.written").last).to_be_visible()


async def test_events_appear_without_a_reload_of_the_page(page: Page, site: Site) -> None:
    await page.goto(f"/assets/{await site.asset_id('landing_orders')}")
    await page.evaluate("document.body.dataset.kept = 'yes'")
    events = page.locator("#events tbody tr")
    newest = await events.first.get_attribute("id") if await events.count() else ""
    site.put_file("appears.json")
    await expect(page.locator("#events tbody tr").first).not_to_have_id(newest or "none", timeout=SOON)
    assert await page.evaluate("document.body.dataset.kept") == "yes"


async def test_a_page_is_refreshed_by_the_stream_and_not_by_the_clock(page: Page, site: Site) -> None:
    await page.add_init_script("window.setInterval = () => 0")  # nothing is read now and then
    async with page.expect_request("**/api/v2/events/stream**"):
        await page.goto(f"/assets/{await site.asset_id('landing_orders')}")
    events = page.locator("#events tbody tr")
    newest = await events.first.get_attribute("id") if await events.count() else ""
    site.put_file("streamed.json")
    await expect(page.locator("#events tbody tr").first).not_to_have_id(newest or "none", timeout=SOON)


async def test_changes_while_a_page_loads_are_shown(page: Page, site: Site) -> None:
    asset_id, event_ids = await site.asset_id("customers"), list[int]()

    async def tell_first(route: Route) -> None:
        async with site.client.stream("GET", "/api/v2/events/stream?types=asset_event") as others:
            lines = others.aiter_lines()
            await anext(lines)
            answer = await site.client.post("/api/v2/assets/events", json={"asset_id": asset_id})
            event_id = answer.raise_for_status().json()["id"]
            while f'"id":{event_id},' not in await anext(lines):
                pass  # a client that comes later does not get it
        event_ids.append(event_id)
        await route.continue_()

    async def was_told() -> list[int]:
        return event_ids

    await page.add_init_script("window.setInterval = () => 0")  # nothing is read now and then
    await page.route("**/api/v2/events/stream**", tell_first, times=1)
    await page.goto(f"/assets/{asset_id}/events")
    [event_id] = await site.until(was_told)
    await expect(page.locator(f"#events #event-{event_id}")).to_be_visible(timeout=SOON)


async def test_a_run_is_started_by_hand_and_a_failed_run_shows_its_reason(page: Page) -> None:
    await page.goto("/jobs/always_fails")
    await page.get_by_label("Start with conf").fill('{"day": "2026-01-31"}')
    await page.get_by_role("button", name="Start a run").click()
    await expect(page.get_by_text('"day": "2026-01-31"')).to_be_visible()
    await expect(page.get_by_role("alert")).to_contain_text("the table orders has no column city", timeout=SOON)
    await expect(page.locator("ol.log")).to_contain_text("ValueError", timeout=SOON)
    await expect(page.get_by_role("button", name="Run again with the same events")).to_be_visible()
    await page.get_by_role("link", name="Go to that line").click()
    await expect(page.locator("#line")).to_contain_text("the table orders has no column city")


@pytest.mark.spark
@pytest.mark.slow
async def test_the_progress_bar_of_a_spark_run_reaches_its_end(page: Page) -> None:
    await page.goto("/jobs/counts")
    await page.get_by_role("button", name="Start a run").click()
    bar = page.get_by_role("progressbar")
    await expect(bar).to_be_visible(timeout=SOON)
    share = "bar => bar.value / bar.max"
    first = await bar.evaluate(share)
    await page.wait_for_function(
        f"first => ({share})(document.querySelector('progress')) > first", arg=first, timeout=SOON
    )
    await expect(page.locator("#state .state.success")).to_be_visible(timeout=SOON)
    assert await bar.evaluate(share) == 1


async def test_a_viewer_sees_no_button_that_would_be_refused(chromium: Browser, site: Site) -> None:
    context = await chromium.new_context(base_url=site.url)
    page = await context.new_page()
    await page.goto("/watchers/customers_rows")
    await expect(page).to_have_url(f"{site.url}/sign-in?next=%2Fwatchers%2Fcustomers_rows")
    await page.get_by_label("Token").fill(await site.token("viewer"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{site.url}/watchers/customers_rows")
    await expect(page.get_by_role("button")).to_have_text(["Sign out", "Reconcile"])  # it reads, and changes nothing
    for path in ("/jobs/always_fails", f"/assets/{await site.asset_id('orders_table')}"):
        await page.goto(path)
        await expect(page.get_by_role("button")).to_have_text(["Sign out"])
    await page.get_by_role("button", name="Sign out").click()
    await page.goto("/audit")
    await expect(page).to_have_url(f"{site.url}/sign-in?next=%2Faudit")
    await context.close()


async def test_a_form_that_was_sent_too_late_is_sent_after_signing_in(chromium: Browser, site: Site) -> None:
    context = await chromium.new_context(base_url=site.url)
    page = await context.new_page()
    await page.goto("/sign-in")
    await sign_in(page, site.admin)
    await page.goto("/watchers/customers_rows")
    await context.clear_cookies()
    await page.get_by_role("button", name="Pause").click()
    await expect(page.get_by_role("alert")).to_contain_text("The session has ended")
    await page.get_by_label("Token").fill(site.admin)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Signed in")).to_be_visible()
    assert not (await site.get("/api/v2/watchers/customers_rows"))["paused"]
    await page.get_by_role("button", name="Send it now").click()
    await expect(page).to_have_url(f"{site.url}/watchers/customers_rows")
    assert (await site.get("/api/v2/watchers/customers_rows"))["paused"]
    await page.get_by_role("button", name="Resume").click()
    await context.close()


async def test_the_log_line_is_reached_with_the_keyboard_alone(page: Page, site: Site) -> None:
    site.put_file("by-keyboard.json")
    await site.entry("landing_orders", "landing_files.watermark")
    await page.goto(f"/assets/{await site.asset_id('landing_orders')}")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")
    writer = page.locator("a.writer").first
    for _ in range(30):
        await page.keyboard.press("Tab")
        if await writer.evaluate("link => link === document.activeElement"):
            break
    outline = await writer.evaluate("link => getComputedStyle(link).outlineWidth")
    assert outline == "3px"
    await page.keyboard.press("Enter")
    await expect(page.locator("#line")).to_be_in_viewport()


@pytest.fixture
async def scriptless(chromium: Browser, site: Site) -> AsyncIterator[Page]:
    context = await chromium.new_context(base_url=site.url, java_script_enabled=False)
    page = await context.new_page()
    await sign_in(page, site.admin)
    yield page
    await context.close()


async def test_pages_are_complete_without_javascript(scriptless: Page, site: Site) -> None:
    await site.entry("landing_orders", "landing_files.watermark")
    await scriptless.goto(f"/assets/{await site.asset_id('landing_orders')}")
    await scriptless.locator("a.writer").first.click()
    await expect(scriptless.locator("#line")).to_be_in_viewport()
    await scriptless.goto("/watchers/returns_files")
    for name in ("Pause", "Resume"):
        await scriptless.get_by_role("button", name=name).click()
    await expect(scriptless.get_by_role("button", name="Pause")).to_be_visible()


@cache
def axe(folder: Path) -> str:
    """The path of axe-core, installed from npm's configured registry."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm on this machine, which brings axe-core")
    packed = subprocess.run(
        [npm, "pack", "axe-core@4", "--silent", "--pack-destination", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if packed.returncode:
        pytest.skip(f"npm could not bring axe-core: {packed.stderr[-200:]}")
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


RUN_AXE = """
    async () => (await axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}))
        .violations.map((found) => found.id + ": " + found.nodes.map((node) => node.html + " " + node.failureSummary).join(" | "))
"""


@pytest.mark.parametrize(("scheme", "width"), [*product(("light", "dark"), (1280, 390))])
async def test_axe_finds_no_fault_on_any_page(
    chromium: Browser, site: Site, tmp_path_factory: pytest.TempPathFactory, scheme: str, width: int
) -> None:
    script = axe(tmp_path_factory.getbasetemp())
    table = await site.asset_id("landing_orders")
    entry = await site.entry("landing_orders", "landing_files.watermark")
    context = await chromium.new_context(
        base_url=site.url, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    page = await context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
    violations = dict[str, list[str]]()
    for path in ("/sign-in", "/sign-in?link=awl_nothing&next=/"):
        await page.goto(path)
        violations[path] = await checked(page, script)
    await sign_in(page, site.admin)
    failed = [each["subject"] for each in await site.get("/api/v2/problems") if each["kind"] == "run_failed"]
    runs = (await site.get("/api/v2/dags/~/dagRuns"))["dag_runs"]
    events = (await site.get("/api/v2/assets/events"))["asset_events"]
    seen = Count(written=82, seen=82, lost=0, repeated=0)
    DemoCounts(phase="", seconds=42.0, files=seen, rows=seen, is_over=True).write(site.folder / "home")
    for path in (
        "/",
        "/demo",
        "/assets",
        f"/assets/{table}",
        f"/assets/{table}/events",
        f"/assets/{table}/entry?key=landing_files.watermark",
        *(f"/events/{event['id']}{query}" for event in events[:1] for query in ("", "?q=json", "?q=nothing")),
        entry["last_updated_by"]["log_url"],
        "/watchers/customers_rows",
        "/watchers/landing_files",
        "/watchers/landing_files/preview",
        "/watchers",
        "/jobs",
        "/jobs/reconcile",
        "/jobs/load_orders/replay?from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z",
        "/timeline",
        "/timeline?zoom=week",
        "/runs?job=load_orders",
        "/runs",
        "/runs?state=failed",
        "/jobs?state=failed",
        *(f"/problems/run_failed?subject={subject['run_id']}" for subject in failed[:1]),
        "/runs?state=success&text=load&since=2026-01-31T22:00",
        "/runs?text=nothing&until=2026-01-31T22:00",
        *(f"/runs/{run['dag_id']}/{run['dag_run_id']}" for run in runs[:2]),
        "/audit",
        "/search?q=orders",
        "/search?q=nothing.json",
        "/graph",
        "/graph?fold=true&text=orders",
        "/nothing",
    ):
        await page.goto(path)
        await page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        violations[path] = await checked(page, script)
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (path, "wider than the window")
    assert {path: found for path, found in violations.items() if found} == {}
    assert errors == []
    await context.close()


async def checked(page: Page, script: str) -> list[str]:
    await page.evaluate(script)
    return await page.evaluate(RUN_AXE)


async def test_the_places_of_a_rewind_are_offered_with_what_follows(page: Page, site: Site) -> None:
    await site.rows("Kyiv", "Lviv")
    await site.entry("customers", "customers_rows.watermark")
    await page.goto("/watchers/customers_rows")
    await expect(page.locator(".places li")).to_have_count(4)
    await expect(page.locator(".places li").first).to_contain_text("every row is reported")
    await page.get_by_role("button", name="Preview: start").click()
    preview = page.locator("#preview")
    await expect(preview).to_contain_text("Nothing has changed yet")
    await expect(page.get_by_role("button", name="Rewind to start")).to_be_visible()
    await page.get_by_label("to an item").fill("1")
    await page.get_by_role("button", name="Preview: that item").click()
    await expect(page.get_by_role("button", name="Rewind to 1")).to_be_visible()
    await page.goto("/watchers/returns_files")
    await expect(page.locator(".places li")).to_have_count(5)
    await page.get_by_label("to a time").fill("2026-01-31T06:00:00")
    await page.get_by_role("button", name="Preview: that time").click()
    await expect(page.get_by_role("button", name="Rewind to 2026-01-31T")).to_be_visible()
