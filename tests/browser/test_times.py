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
