"""A suspicious watermark leads to the log line of its write, with a mouse and a real daemon."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.service]


async def to_the_marked_line(page: Page, site: Site, asset: str, key: str) -> str:
    """Open the asset like a person, click on the writer of the entry, and return the text of the marked line in view."""
    await site.entry(asset, key)
    await page.goto("/")
    await page.get_by_role("link", name="Assets").click()
    await page.get_by_role("link", name=asset, exact=True).click()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=key))
    await expect(row).to_be_visible()
    await row.locator("a.writer").click()
    line = page.locator("#line")
    await expect(line).to_be_in_viewport()
    background = await line.evaluate("line => getComputedStyle(line.cells ? line.cells[0] : line).backgroundColor")
    assert background not in {"rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"}
    return await line.inner_text()


async def test_a_watchers_value_leads_to_its_log_line(page: Page, site: Site) -> None:
    site.put_file("first.json")
    line = await to_the_marked_line(page, site, "landing_orders", "landing_files.watermark")
    assert "store.written" in line
    assert f"write_id={re.search('around=(.*)#', page.url)[1]}" in line


async def test_a_jobs_value_leads_to_its_log_line(page: Page, site: Site) -> None:
    site.put_file("second.json")
    line = await to_the_marked_line(page, site, "orders_table", "files_loaded")
    assert "store.written" in line


async def test_a_persons_value_leads_to_its_audit_entry(page: Page, site: Site) -> None:
    path = f"/api/v2/assets/{await site.asset_id('orders_table')}/store/note"
    (await site.client.put(path, json={"value": "seen"})).raise_for_status()
    line = await to_the_marked_line(page, site, "orders_table", "note")
    assert "root" in line
