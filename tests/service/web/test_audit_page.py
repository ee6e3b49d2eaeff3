"""The page of the audit: what changed in the configuration, in words, and reading the file again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from config.errors import Problem
from config.models.changes import ConfigurationChanges
from store.processes import audit
from tests.databases import on_both
from tests.service.api.application import Api, adapted
from tests.service.web.browsing import Browser, Page, browsing
from watcher.configuration.reload_outcome import ReloadOutcome, ReloadRefused
from watcher.features.pages.changes_in_words import SHOWN

pytestmark = on_both
CONFIGURATION = "/audit?about=configuration"
NAMES = {"added": [], "changed": [], "removed": []}


async def entered(browser: Browser, action: str, target: str, detail: dict[str, Any] | None = None) -> None:
    async with browser.api.database.transaction() as connection:
        await audit.record(connection, "ann", action, target, detail)


def words(page: Page) -> str:
    return re.sub(r"\s+", " ", page.text)


async def test_what_changed_in_the_configuration_is_told_in_words_with_links(browser: Browser) -> None:
    sections = dict.fromkeys(("assets", "watchers", "connections", "aliases", "jobs"), NAMES)
    changed = {
        **sections,
        "jobs": {"added": ["nightly"], "changed": ["a/b"], "removed": ["old"]},
        "watchers": {**NAMES, "changed": ["landing_files"]},
        "dequeued": 1,
        "kept": {"report": 1200},
        "earlier": {"nightly": 7},
        "hash": "abc",
    }
    await entered(browser, "configuration.reload", "/srv/watchers.yaml", changed)
    await entered(browser, "watcher.pause", "landing_files")

    page = await browser.open(CONFIGURATION)

    shown = words(page)
    for sentence in (
        "job added: nightly",
        "job changed: a/b",
        "job removed: old",
        "watcher changed: landing_files",
        "1 queued event dropped with its job",
        "no longer waits for: 1,200 of report",
    ):
        assert sentence in shown
    assert {"/jobs/nightly", "/jobs/a%2Fb", "/watchers/landing_files"} <= set(page.links)
    assert "/jobs/old" not in page.links, "what was removed has no page"
    assert "watcher.pause" not in shown
    everything = words(await browser.open("/audit"))
    assert "watcher.pause" in everything
    assert "job added: nightly" in everything


async def test_many_names_are_counted(browser: Browser) -> None:
    names = [f"job{number:03}" for number in range(SHOWN + 5)]
    await entered(browser, "configuration.reload", "f", {"jobs": {**NAMES, "added": names}})
    shown = words(await browser.open(CONFIGURATION))
    assert f"{names[SHOWN - 1]} and 5 more" in shown


@pytest.mark.parametrize("detail", ["{", "[]", "7", "{}", '{"jobs": 3, "kept": 0}', '{"jobs": {"added": null}}'])
async def test_an_entry_of_another_release_is_shown_as_well_as_it_can_be(browser: Browser, detail: str) -> None:
    entry = {**audit.entry("ann", "configuration.reload", "the file"), "detail": detail}
    async with browser.api.database.transaction() as connection:
        await audit.record_all(connection, [entry])
    assert "the file" in words(await browser.open(CONFIGURATION))


async def test_a_change_at_a_start_is_one_of_the_configuration(browser: Browser) -> None:
    await entered(browser, "configuration.apply", "the hash", {"before": "h", "dequeued": 0, "kept": {}})
    shown = words(await browser.open(CONFIGURATION))
    assert "applied at a start" in shown


async def test_nothing_has_changed_yet(browser: Browser) -> None:
    assert "The configuration has not changed yet." in words(await browser.open(CONFIGURATION))


@pytest.fixture
def read_by() -> list[str]:
    """Who has had the file read again."""
    return []


@pytest.fixture
async def people(api: Api, read_by: list[str]) -> AsyncIterator[Browser]:
    """A browser of somebody who has to sign in."""

    async def reload(actor: str) -> ReloadOutcome:
        read_by.append(actor)
        return ReloadOutcome(result="applied", hash="new", changes=ConfigurationChanges())

    async with browsing(adapted(api.context, auth="tokens", reload=reload)) as client:
        yield Browser(client, api)


async def test_the_file_is_read_again_by_admins(people: Browser, read_by: list[str]) -> None:
    await people.sign_in("admin")
    assert "/audit/reload" in (await people.open(CONFIGURATION)).forms
    page = await people.send("/audit/reload")
    assert page.answer.url.path == "/audit"
    assert "read again and applies" in words(page)
    assert read_by == ["admin-ann"]


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_others_do_not_read_the_file_again(people: Browser, role: str, read_by: list[str]) -> None:
    await people.sign_in(role)
    assert "/audit/reload" not in (await people.open(CONFIGURATION)).forms
    await people.send("/audit/reload", 403)
    assert read_by == []


async def test_a_refused_file_says_each_reason_and_that_nothing_has_changed(api: Api) -> None:
    async def reload(actor: str) -> ReloadOutcome:
        raise ReloadRefused([Problem(file="w.yaml", line=3, path="jobs.load", message=f"is wrong for {actor}")])

    async with browsing(adapted(api.context, reload=reload)) as client:
        refused = await Browser(client, api).send("/audit/reload", 422)
    assert "nothing has changed" in refused.text
    assert "w.yaml:3: jobs.load: is wrong" in refused.text


async def test_a_process_without_a_configuration_has_no_button(browser: Browser) -> None:
    assert "/audit/reload" not in (await browser.open(CONFIGURATION)).forms
    await browser.send("/audit/reload", 409)
