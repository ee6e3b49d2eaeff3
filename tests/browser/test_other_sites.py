"""Pages of other sites in the browser of a person who has signed in can read nothing and change nothing."""

from __future__ import annotations

import pytest
from playwright.async_api import Page

from tests.browser.conftest import REBOUND
from tests.browser.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.service]
PAUSE = "/watchers/customers_rows/pause"
FOREIGN = """
<iframe src="{url}/watchers/customers_rows"></iframe>
<form method="post" action="{url}/watchers/customers_rows/pause"></form>
"""
ATTEMPTS = """
    async (url) => {
        const brought = {credentials: "include"};
        const sent = [`/watchers/customers_rows/pause`, `/api/v2/watchers/customers_rows/pause`].flatMap((path) => [
            fetch(url + path, {...brought, method: "POST", mode: "no-cors"}),
            fetch(url + path, {...brought, method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"}),
        ]);
        const read = [`/api/v2/watchers`, `/watchers/customers_rows`].map((path) => fetch(url + path, brought));
        const answers = await Promise.allSettled([...sent, ...read]);
        const texts = answers.map(async (answer) => answer.status === "fulfilled" ? await answer.value.text() : "");
        return (await Promise.all(texts)).join("");
    }
"""


async def paused(site: Site) -> bool:
    return (await site.get("/api/v2/watchers/customers_rows"))["paused"]


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:3000"], ids=["other site", "other port"])
async def test_a_page_of_another_site_can_do_nothing(page: Page, site: Site, origin: str) -> None:
    """The browser sends the cookie with every request to another port of this machine."""
    await page.context.route(
        f"{origin}/", lambda route: route.fulfill(body=FOREIGN.replace("{url}", site.url), content_type="text/html")
    )
    await page.goto(f"{origin}/")
    _, frame = page.frames
    await frame.wait_for_load_state()
    assert "customers_rows" not in await frame.content()

    assert await page.evaluate(ATTEMPTS, site.url) == ""
    async with page.expect_navigation() as navigation:
        await page.evaluate("document.forms[0].submit()")
    answer = await navigation.value
    assert answer is not None
    assert answer.status == 403 or "/sign-in" in answer.url
    assert not await paused(site)


async def test_a_host_name_that_was_rebound_to_the_daemon_is_refused(page: Page, site: Site) -> None:
    """The name is refused even with a session cookie, and even if the person enters a token there."""
    rebound = site.url.replace("127.0.0.1", REBOUND)
    (session,) = await page.context.cookies(site.url)
    await page.context.add_cookies([{"name": session["name"], "value": session["value"], "url": rebound}])
    await page.goto(f"{rebound}/watchers/customers_rows")
    assert "/sign-in" in page.url
    send = "([method, path]) => fetch(path, {method}).then(answer => answer.status)"
    assert await page.evaluate(send, ["GET", "/api/v2/watchers"]) == 401
    assert await page.evaluate(send, ["POST", f"/api/v2{PAUSE}"]) == 401
    await page.evaluate(send, ["POST", PAUSE])
    assert not await paused(site)

    await page.get_by_label("Token").fill(site.admin)
    async with page.expect_navigation() as navigation:
        await page.get_by_role("button", name="Sign in").click()
    answer = await navigation.value
    assert answer is not None
    assert answer.status == 421
