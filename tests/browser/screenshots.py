"""Screenshots of the main pages, light and dark, wide and phone: `python -m tests.browser.screenshots FOLDER`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import anyio
from playwright.async_api import Browser, async_playwright

from tests.browser.conftest import sign_in
from tests.browser.site import Site, running_site

SIZES = {"wide": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}


async def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        async with running_site(Path(work)) as site, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            pages = await something_of_everything(site)
            for size in SIZES:
                for scheme in ("light", "dark"):
                    await photograph(browser, site, pages, folder, size, scheme)
            await browser.close()


async def something_of_everything(site: Site) -> dict[str, str]:
    """Events, runs that did well and one that failed, values written by all kinds; the pages by name."""
    for number in range(3):
        site.put_file(f"orders-{number}.json")
        await site.rows("Kyiv", "Porto")
    await site.entry("orders_table", "files_loaded")
    await site.entry("customers", "customers_rows.watermark")
    table = await site.asset_id("orders_table")
    for value in ({"rows": 120, "checked": False}, {"rows": 124, "checked": True, "by": "ann"}):
        await site.client.put(f"/api/v2/assets/{table}/store/quality", json={"value": value})
    started = await site.client.post("/api/v2/dags/always_fails/dagRuns", json={"logical_date": None})
    failed = f"/api/v2/dags/always_fails/dagRuns/{started.json()['dag_run_id']}"

    async def is_over() -> bool:
        return (await site.get(failed))["state"] == "failed"

    await site.until(is_over)
    (done, *_) = (await site.get("/api/v2/dags/load_orders/dagRuns?state=success"))["dag_runs"]
    watermark = await site.entry("landing_orders", "landing_files.watermark")
    return {
        "overview": "/",
        "asset": f"/assets/{table}",
        "entry": f"/assets/{table}/entry?key=quality",
        "log": f"{watermark['last_updated_by']['log_url']}#line",
        "watcher": "/watchers/customers_rows",
        "run": f"/runs/load_orders/{done['dag_run_id']}",
        "failed-run": f"/runs/always_fails/{started.json()['dag_run_id']}",
        "job": "/jobs/reconcile",
        "runs": "/runs",
        "assets": "/assets",
        "audit": "/audit",
        "search": "/search?q=orders",
        "graph": "/graph",
    }


async def photograph(browser: Browser, site: Site, pages: dict[str, str], folder: Path, size: str, scheme: str) -> None:
    context = await browser.new_context(base_url=site.url, viewport=SIZES[size], color_scheme=scheme)
    page = await context.new_page()
    await page.goto("/sign-in")
    await page.screenshot(path=folder / f"sign-in-{size}-{scheme}.png")
    await sign_in(page, site.admin)
    for name, path in pages.items():
        await page.goto(path)
        await page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", full_page=size == "phone")
    await context.close()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
