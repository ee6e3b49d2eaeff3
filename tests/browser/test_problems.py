"""People see what is wrong on the first page, at both widths, and are one click away from each."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.browser.conftest import sign_in
from tests.browser.site import Site
from tests.browser.test_people_at_work import SOON, axe, checked

pytestmark = [pytest.mark.browser, pytest.mark.service]
REASON = "the table orders has no column city"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
async def test_a_failed_run_is_on_the_first_page_with_its_reason_and_a_way_to_it(
    chromium: Browser, site: Site, tmp_path_factory: pytest.TempPathFactory, scheme: str, width: int
) -> None:
    await site.client.post("/api/v2/dags/always_fails/dagRuns", json={"logical_date": None})

    async def problem() -> Any:
        problems = await site.get("/api/v2/problems")
        return next((each for each in problems if each["subject"].get("dag_id") == "always_fails"), None)

    listed = await site.until(problem)
    assert (listed["kind"], listed["level"], REASON in listed["message"]) == ("run_failed", "error", True)
    viewport = {"width": width, "height": 800}
    context = await chromium.new_context(base_url=site.url, color_scheme=scheme, viewport=viewport)
    page = await context.new_page()
    await sign_in(page, site.admin)
    entry = page.locator(".attention li.error", has_text=REASON)
    await expect(entry).to_be_visible(timeout=SOON)
    await expect(entry).to_contain_text("since")
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert await checked(page, axe(tmp_path_factory.getbasetemp())) == []
    await entry.get_by_role("link").first.click()
    await expect(page.get_by_text("always_fails").first).to_be_visible()
    assert "/runs" in page.url
    await context.close()
