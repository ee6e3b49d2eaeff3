"""This machine's Chromium, driven by Playwright, and one daemon for all tests of a worker."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.browser.site import Site, running_site

REBOUND = "rebound.example"
"""A host name that leads to this machine, like the rebound name of another site's page."""


@pytest.fixture(scope="session")
async def site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:  # noqa: ARG001  no daemon without a browser
    async with running_site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="session")
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**program())
        yield browser
        await browser.close()


def program() -> dict[str, Any]:
    """The path and the arguments of Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("there is no Chromium on this machine; `apt-get install chromium` brings it")
    arguments = [f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    return {"executable_path": path, "args": arguments}


@pytest.fixture
async def page(chromium: Browser, site: Site) -> AsyncIterator[Page]:
    """A page of a person who has signed in as administrator."""
    context = await chromium.new_context(base_url=site.url)
    opened = await context.new_page()
    await sign_in(opened, site.admin)
    yield opened
    await context.close()


async def sign_in(page: Page, token: str) -> None:
    await page.goto("/sign-in")
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url("**/")
