"""Times are in the browser's zone, with a switch to UTC that is kept; pages without JavaScript have UTC."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.browser.conftest import sign_in
from tests.browser.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.service]
DUBAI = "Asia/Dubai"
"""A zone without summer time, 4 hours ahead of UTC."""


async def test_times_are_in_the_browsers_zone_until_the_person_chooses_utc(chromium: Browser, site: Site) -> None:
    context = await chromium.new_context(base_url=site.url, timezone_id=DUBAI)
    page = await context.new_page()
    await sign_in(page, site.admin)
    await page.goto("/timeline?until=2026-01-31T21:10:20Z")
    ending, mark = page.locator("#timeline p time").last, page.locator("svg.hours text").last
    await expect(ending).to_have_text("2026-02-01 01:10:20 GMT+4")
    await expect(mark).to_have_text("01:10")

    await page.get_by_role("button", name=f"Times: {DUBAI}").click()
    await expect(ending).to_have_text("2026-01-31 21:10:20 UTC")
    await expect(mark).to_have_text("21:10")
    await page.reload()
    await expect(ending).to_have_text("2026-01-31 21:10:20 UTC")

    await page.get_by_role("button", name="Times: UTC").click()
    await expect(ending).to_have_text("2026-02-01 01:10:20 GMT+4")
    await page.goto("/timeline?zoom=week&until=2026-01-31T21:10:20Z")
    await expect(page.locator("svg.hours text").first).to_have_text("Jan 26")
    await context.close()


async def test_without_a_zone_or_a_script_times_are_in_utc_and_there_is_no_switch(
    chromium: Browser, site: Site
) -> None:
    for options in ({"timezone_id": "UTC"}, {"timezone_id": DUBAI, "java_script_enabled": False}):
        context = await chromium.new_context(base_url=site.url, **options)
        page = await context.new_page()
        await sign_in(page, site.admin)
        await page.goto("/timeline?until=2026-01-31T21:10:20Z")
        await expect(page.locator("#timeline p time").last).to_have_text("2026-01-31 21:10:20 UTC")
        await expect(page.get_by_role("button", name="Times")).to_have_count(0)
        await context.close()


BERLIN = "Europe/Berlin"
"""A zone in which 02:30 was twice on 2025-10-26, and never on 2026-03-29."""


async def test_fields_for_times_are_in_the_browsers_zone_and_send_utc(chromium: Browser, site: Site) -> None:
    context = await chromium.new_context(base_url=site.url, timezone_id=BERLIN, locale="en-GB")
    page = await context.new_page()
    await sign_in(page, site.admin)
    await page.goto("/runs?since=2026-01-31T22:00")
    since = page.get_by_label("Changed from")
    await expect(since).to_have_value("2026-01-31T23:00")
    await expect(page.locator("label[for=since] .zone")).to_have_text(BERLIN)
    await since.fill("2026-07-01T00:30:00")
    await page.get_by_role("button", name="Show").click()
    assert "since=2026-06-30T22%3A30%3A00Z" in page.url
    await expect(since).to_have_value("2026-07-01T00:30")
    await page.get_by_role("button", name=f"Times: {BERLIN}").click()
    await expect(since).to_have_value("2026-06-30T22:30")
    await page.get_by_role("button", name="Show").click()
    assert "since=2026-06-30T22%3A30%3A00Z" in page.url
    await context.close()


async def test_a_local_time_that_is_twice_or_never_is_refused_with_both(chromium: Browser, site: Site) -> None:
    context = await chromium.new_context(base_url=site.url, timezone_id=BERLIN, locale="en-GB")
    page = await context.new_page()
    await sign_in(page, site.admin)
    await page.goto("/jobs/load_orders")
    since = page.get_by_label("Replay events from")
    for typed, fault, both in (
        ("2025-10-26T02:30:00", "was twice in Europe/Berlin", ("2025-10-26 00:30 UTC", "2025-10-26 01:30 UTC")),
        ("2026-03-29T02:30:00", "never was in Europe/Berlin", ("2026-03-29 00:30 UTC", "2026-03-29 01:30 UTC")),
    ):
        await since.fill(typed)
        message = await since.evaluate("field => field.validationMessage")
        assert fault in message
        assert all(each in message for each in both)
    await since.fill("2026-03-29T03:30:00")
    assert await since.evaluate("field => field.validationMessage") == ""
    await page.locator("#to").fill("2026-03-29T04:30:00")
    await page.get_by_role("button", name="Preview the replay").click()
    assert "from=2026-03-29T01%3A30%3A00Z" in page.url
    await expect(page.locator("#replay")).to_contain_text("Nothing has changed yet")
    await context.close()


async def test_without_a_script_fields_are_in_utc_and_say_so(chromium: Browser, site: Site) -> None:
    context = await chromium.new_context(base_url=site.url, timezone_id=BERLIN, java_script_enabled=False)
    page = await context.new_page()
    await sign_in(page, site.admin)
    await page.goto("/runs?since=2026-01-31T22:00:00Z")
    await expect(page.locator("label[for=since] .zone")).to_have_text("UTC")
    await expect(page.get_by_label("Changed from")).to_have_value("2026-01-31T22:00")
    await page.goto("/jobs/load_orders/replay?from=2026-01-31T22:00&to=2026-01-31T23:00")
    await expect(page.locator("#replay")).to_contain_text("Nothing has changed yet")
    await context.close()
