"""Eleven questions of a night on call, each answered within two clicks from the first page; the clicks are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.conftest import sign_in
from tests.browser.site import Site
from tests.browser.test_people_at_work import SOON

pytestmark = [pytest.mark.browser, pytest.mark.service]
REASON: Final = "the table orders has no column city"
FILE: Final = "orders/night.json"
NIGHTLY: Final = "nightly"
MORE: Final = f"""
  {NIGHTLY}:
    schedule: {{cron: "0 3 1 1 *"}}
    spark: {{application: load.py}}
"""
"""What somebody added to the configuration in this night. It runs once a year, so not while it is looked at."""


@dataclass(kw_only=True)
class Visit:
    """A person who begins on the first page. A search counts as a click."""

    page: Page
    clicks: int = 0

    async def click(self, place: Locator) -> None:
        self.clicks += 1
        await place.click(timeout=SOON)

    async def search(self, text: str) -> None:
        self.clicks += 1
        box = self.page.locator("#q")
        await box.fill(text)
        await box.press("Enter")

    async def sees(self, place: Locator, *texts: str) -> None:
        for text in texts:
            await expect(place).to_contain_text(text, timeout=SOON)

    @property
    def trouble(self) -> Locator:
        """What the first page says about the watcher that fails."""
        return self.page.locator(".attention li", has_text="returns_files").first

    @property
    def failure(self) -> Locator:
        return self.page.locator(".attention li", has_text=REASON).first

    def link(self, name: str, within: str = "main") -> Locator:
        return self.page.locator(within).get_by_role("link", name=name, exact=True).first


async def what_is_wrong(visit: Visit) -> None:
    await visit.sees(visit.failure, "error", "since")
    await visit.sees(visit.trouble, "since")


async def why_does_this_watcher_fail_and_when_is_its_next_try(visit: Visit) -> None:
    await visit.sees(visit.trouble, "cannot be listed", "check the watcher's path", "next try at")


async def why_did_this_run_fail_and_where_is_its_line(visit: Visit) -> None:
    await visit.click(visit.failure.get_by_role("link").first)
    if "/runs?" in visit.page.url:
        await visit.click(visit.page.locator("#runs tbody a").first)
    await visit.sees(visit.page.get_by_role("alert"), REASON)
    await visit.sees(visit.page.locator("ol.log"), "ValueError")


async def what_happened_last_night(visit: Visit) -> None:
    await visit.click(visit.link("Timeline", "header"))
    row = visit.page.locator("main tr", has_text="always_fails")
    await expect(row.locator("svg .failed").first).to_be_attached(timeout=SOON)


async def was_this_file_loaded_and_by_which_run(visit: Visit) -> None:
    await visit.search(FILE)
    row = visit.page.locator("#items tr", has_text="landing_files")
    await visit.sees(row, "loaded", "load_orders", "success")


async def what_does_this_job_wait_for(visit: Visit) -> None:
    await visit.click(visit.link("reconcile", "#jobs"))
    await visit.sees(visit.page.locator("#schedule .reason"), "returns")


async def since_when_is_it_behind(visit: Visit) -> None:
    await visit.click(visit.link("landing_files", "#watchers"))
    await visit.sees(visit.page.locator("#doing"), "Behind by")
    await expect(visit.page.locator("#lag")).to_be_visible()


async def run_what_failed_again(visit: Visit) -> None:
    button = visit.failure.get_by_role("button", name="Run again")
    await expect(button).to_be_visible()
    if "all" in (await button.text_content() or ""):
        await visit.click(button)
        await visit.sees(visit.page.locator("#what"), "Nothing has changed yet", REASON)
        await expect(visit.page.get_by_role("button", name="Run again: ")).to_be_visible()


async def which_jobs_suffer_from_this_watcher(visit: Visit) -> None:
    await visit.click(visit.link("landing_orders", "#watchers"))
    await expect(visit.link("load_orders")).to_be_visible()


async def when_does_this_job_run_next(visit: Visit) -> None:
    row = visit.page.locator("#jobs tr", has_text=NIGHTLY)
    await visit.sees(row.locator("td[data-label='Next tick']"), "in ")
    await visit.click(visit.link(NIGHTLY, "#jobs"))
    await visit.sees(visit.page.locator("#schedule"), "Next tick", "in ")
    for act in ("Pause", "Start a run"):
        await expect(visit.page.get_by_role("button", name=act, exact=True)).to_be_visible()


async def what_changed_in_the_configuration(visit: Visit) -> None:
    await visit.click(visit.link("Audit", "header"))
    await visit.click(visit.link("Only changes of the configuration"))
    newest = visit.page.locator("#entries tbody tr").first
    await visit.sees(newest, f"job added: {NIGHTLY}")
    await expect(newest.get_by_role("link", name=NIGHTLY)).to_be_visible()
    await expect(visit.page.get_by_role("button", name="Read the configuration again")).to_be_visible()


Question: TypeAlias = Callable[[Visit], Awaitable[None]]
QUESTIONS: Final[dict[str, tuple[Question, int]]] = {
    "What is wrong?": (what_is_wrong, 0),
    "Why does this watcher fail, and when is its next try?": (why_does_this_watcher_fail_and_when_is_its_next_try, 0),
    "Why did this run fail?": (why_did_this_run_fail_and_where_is_its_line, 2),
    "What happened last night?": (what_happened_last_night, 1),
    "Was this file loaded, and by which run?": (was_this_file_loaded_and_by_which_run, 1),
    "What does this job wait for?": (what_does_this_job_wait_for, 1),
    "Since when is it behind?": (since_when_is_it_behind, 1),
    "Run what failed again": (run_what_failed_again, 1),
    "Which jobs suffer from this watcher?": (which_jobs_suffer_from_this_watcher, 1),
    "When does it run next?": (when_does_this_job_run_next, 1),
    "What changed in the configuration?": (what_changed_in_the_configuration, 2),
}


async def configured(site: Site, text: str) -> None:
    """Apply this configuration. The file is put into its place whole, because the daemon watches it."""
    written = site.folder / "written.yaml"
    written.write_text(text)
    written.rename(site.folder / "watchers.yaml")
    (await site.client.post("/api/v2/reload")).raise_for_status()


@pytest.fixture(scope="module")
async def night(site: Site) -> AsyncIterator[Site]:
    """A night in which a file was loaded, a run failed, a watcher's folder went away, and a job was added."""
    configuration = (site.folder / "watchers.yaml").read_text()
    await configured(site, configuration + MORE)
    site.put_file(FILE.removeprefix("orders/"))
    await site.client.post("/api/v2/dags/always_fails/dagRuns", json={"logical_date": None})
    place, gone = site.folder / "returns", site.folder / "returns.gone"
    place.rename(gone)

    async def has_come() -> bool:
        problems = {(each["kind"], str(each["subject"])) for each in await site.get("/api/v2/problems")}
        explained: dict[str, Any] = await site.get(f"/api/v2/explain?item={FILE}")
        subjects = " ".join(subject for _, subject in problems)
        has_loaded = any(each["state"] == "loaded" for each in explained["answers"])
        return has_loaded and "returns_files" in subjects and "always_fails" in subjects

    await site.until(has_come)
    yield site
    gone.rename(place)
    await configured(site, configuration)


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_question_of_the_night_is_answered_within_two_clicks(
    question: str, chromium: Browser, night: Site
) -> None:
    ask, most = QUESTIONS[question]
    context = await chromium.new_context(base_url=night.url)
    visit = Visit(page=await context.new_page())
    await sign_in(visit.page, night.admin)
    await ask(visit)
    assert visit.clicks <= most
    await context.close()
