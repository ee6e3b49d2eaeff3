"""Nothing is wider than its place, no button has two lines, and nothing is cut that cannot be read, at both widths."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from tests.browser.conftest import sign_in
from tests.browser.filled_site import LARGE, LONG_NAMES, NOTHING, FilledSite, Size, filled_site

pytestmark = [pytest.mark.browser]
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SIZES = {"nothing": NOTHING, "long names": LONG_NAMES, "large": LARGE}
LISTS = ("/", "/watchers", "/jobs", "/assets", "/runs", "/runs?state=failed", "/timeline", "/audit", "/search?q=job")
FAULTS = """
    () => {
        const visible = (each) => each.checkVisibility() && each.getClientRects().length && !each.closest(".hidden, .skip, svg, thead");
        const all = [...document.body.querySelectorAll("*")].filter(visible);
        const name = (each) => each.tagName + "." + each.className + ": " + each.textContent.trim().slice(0, 60);
        const scrolls = (each) => ["auto", "scroll"].includes(getComputedStyle(each).overflowX);
        const isCut = (each) => getComputedStyle(each).textOverflow === "ellipsis" && each.scrollWidth > each.clientWidth + 1;
        const right = document.documentElement.clientWidth;
        const inScroller = (each) => { for (let up = each.parentElement; up; up = up.parentElement) if (scrolls(up)) return true; return false; };
        const inCut = (each) => each.parentElement.closest(".cut, .who") !== null;
        const isBroken = (each) => {
            const range = document.createRange();
            range.selectNodeContents(each);
            const bottoms = [...range.getClientRects()].filter((box) => box.width > 1).map((box) => box.bottom);
            return Math.max(...bottoms) - Math.min(...bottoms) > 12;
        };
        const isReadable = (each) => {
            const row = each.closest("tr, li, header");
            const menu = row?.querySelector("details.menu > div") ?? row?.nextElementSibling?.querySelector("details");
            return menu ? menu.textContent.includes(each.textContent.trim()) || each.querySelector("time") !== null : each.title !== "" || each.matches(".who");
        };
        return {
            outside: all.filter((each) => !inScroller(each) && !inCut(each) && !each.closest(".menu > div")
                && each.getBoundingClientRect().right > right + 1).map(name),
            overflowing: all.filter((each) => !inCut(each) && getComputedStyle(each).overflowX === "visible" && getComputedStyle(each).display !== "inline"
                && each.scrollWidth > each.clientWidth + 1 && !each.querySelector(".menu, .hidden")).map(name),
            brokenButtons: all.filter((each) => each.matches("button, .state, td.n, time") && isBroken(each)).map(name),
            unreadable: all.filter((each) => isCut(each) && !isReadable(each)).map(name),
        };
    }
"""


@pytest.fixture(scope="module")
async def sites(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, FilledSite]]:  # noqa: ARG001  nothing is filled without a browser
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(filled_site(tmp_path_factory.mktemp("filled"), size))
            for name, size in SIZES.items()
        }


async def opened(chromium: Browser, site: FilledSite, viewport: Any, **options: Any) -> Page:
    context = await chromium.new_context(
        base_url=site.url, viewport=viewport, **{"timezone_id": "Europe/Berlin", **options}
    )
    page = await context.new_page()
    await sign_in(page, site.admin)
    return page


def paths(size: Size, site: FilledSite) -> tuple[str, ...]:
    if not size.watchers:
        return LISTS
    each = (f"/watchers/{site.watcher(0)}", f"/jobs/{site.job(0)}", "/assets/1", "/assets/1/events", "/events/8")
    return (*LISTS, *each)


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", SIZES)
async def test_everything_has_room(chromium: Browser, sites: dict[str, FilledSite], name: str, viewport: Any) -> None:
    page = await opened(chromium, sites[name], viewport)
    faults = {}
    for path in paths(SIZES[name], sites[name]):
        await page.goto(path)
        found = {kind: each[:5] for kind, each in (await page.evaluate(FAULTS)).items() if each}
        if await page.evaluate("document.documentElement.scrollWidth - innerWidth") > 0:
            found["wider"] = ["the page"]
        if found:
            faults[path] = found
    assert faults == {}
    await page.context.close()


async def test_the_overview_of_a_large_installation_is_a_screen_and_a_half(
    chromium: Browser, sites: dict[str, FilledSite]
) -> None:
    page = await opened(chromium, sites["large"], WIDE)
    answer = await page.goto("/")
    assert answer is not None
    assert len(await answer.body()) <= 100_000
    assert await page.evaluate("document.body.scrollHeight") <= 1.6 * WIDE["height"]
    for state in ("failing 13", "running 387"):
        assert await page.locator("#watchers .counts li", has_text=state).count() == 1
    await page.context.close()


@pytest.mark.parametrize(("viewport", "height"), [(WIDE, 56), (PHONE, 120)], ids=["wide", "phone"])
async def test_the_header_is_one_line_or_a_little_of_a_phone(
    chromium: Browser, sites: dict[str, FilledSite], viewport: Any, height: int
) -> None:
    page = await opened(chromium, sites["long names"], viewport)
    assert await page.evaluate("document.querySelector('header').offsetHeight") <= height
    await page.context.close()


async def test_a_rows_menu_opens_by_the_keyboard_and_without_a_script(
    chromium: Browser, sites: dict[str, FilledSite]
) -> None:
    page = await opened(chromium, sites["long names"], WIDE, java_script_enabled=False)
    await page.goto("/runs")
    menu = page.locator("#runs details.menu").first
    assert not await menu.locator("dl").is_visible()
    await menu.locator("summary").press("Enter")
    run = await page.locator("#runs tbody th a").first.get_attribute("title")
    assert await menu.locator("dd").first.text_content() == run
    assert "UTC" in (await page.locator("#runs tbody th").first.text_content() or "")
    await page.context.close()
