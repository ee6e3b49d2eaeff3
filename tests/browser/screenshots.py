"""The pictures of docs/web.md, light and dark, wide and phone: `python -m tests.browser.screenshots docs/pictures/pages`.

With `--all` it takes pictures of every page, for people who work on the pages.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path

import anyio
from playwright.async_api import Browser, Page, async_playwright

from tests.browser.conftest import program, sign_in
from tests.browser.site import Site, running_site

SIZES = {"wide": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}
MAIN = {"overview", "asset", "entry", "log", "watcher", "failed-run", "graph"}
QUALITY = 60


async def main(folder: Path, *, everything: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        async with running_site(Path(work)) as site, async_playwright() as playwright:
            browser = await playwright.chromium.launch(**program())
            pages = await something_of_everything(site)
            chosen = {name: path for name, path in pages.items() if everything or name in MAIN}
            for size in SIZES:
                for scheme in ("light", "dark"):
                    await photograph(browser, site, chosen, folder, size, scheme)
            await browser.close()


async def something_of_everything(site: Site) -> dict[str, str]:
    """Create events, successful runs, a failed run, and values of all writer kinds. Return the pages by name."""
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
    landing = await site.asset_id("landing_orders")
    (event, *_) = (await site.get(f"/api/v2/assets/events?asset_id={landing}"))["asset_events"]
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
        "event": f"/events/{event['id']}",
        "audit": "/audit",
        "search": "/search?q=orders",
        "graph": "/graph",
    }


async def photograph(browser: Browser, site: Site, pages: dict[str, str], folder: Path, size: str, scheme: str) -> None:
    context = await browser.new_context(base_url=site.url, viewport=SIZES[size], color_scheme=scheme)
    page = await context.new_page()
    await sign_in(page, site.admin)
    for name, path in pages.items():
        await page.set_viewport_size(SIZES[size])
        await page.goto(path)
        if size == "phone":
            await page.set_viewport_size({**SIZES[size], "height": await page.evaluate("document.body.scrollHeight")})
        (folder / f"{name}-{size}-{scheme}.webp").write_bytes(await picture(page))
    await context.close()


async def picture(page: Page) -> bytes:
    """Convert a picture to WebP, which Playwright cannot write."""
    session = await page.context.new_cdp_session(page)
    taken = await session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    return base64.b64decode(taken["data"])


if __name__ == "__main__":
    *options, given = sys.argv[1:]
    anyio.run(lambda: main(Path(given), everything="--all" in options))
