"""A state has one color and one mark in tables, strips, the graph and the timeline: those of `watcher.host.states`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, update

from store.database.schema import run
from store.database.schema import watcher as watcher_table
from tests.databases import on_both
from tests.service.web.browsing import Browser, Page
from watcher.host.states import look_of

pytestmark = on_both
WATCHERS = ("starting", "running", "unstable", "failing", "blocked", "waiting", "stopped")
RUNS = ("queued", "running", "success", "failed")


async def with_a_watcher(browser: Browser, state: str) -> None:
    async with browser.api.database.transaction() as connection:
        await connection.execute(update(watcher_table).values(state=state, error=None))


async def with_a_run(browser: Browser, state: str) -> None:
    at = datetime.now(UTC) - timedelta(hours=1)
    over = at + timedelta(minutes=2) if state in {"success", "failed"} else None
    names = {"dag_id": "load_orders", "run_id": "r1", "run_type": "manual", "triggered_by": "rest_api", "trace_id": "0"}
    times = {"run_after": at, "queued_at": at, "start_date": None if state == "queued" else at, "end_date": over}
    async with browser.api.database.transaction() as connection:
        await connection.execute(insert(run).values(**names, **times, state=state))


def colors(page: Page, tag: str, *names: str) -> set[str]:
    """Return the colors of the elements of this tag that have all of these classes."""
    classes = [set(a.get("class", "").split()) for a in page.all(tag)]
    return {color for of in classes if of.issuperset(names) for color in of & {"good", "busy", "calm", "warn", "bad"}}


@pytest.mark.parametrize("state", WATCHERS)
async def test_a_watcher_looks_alike_in_tables_and_in_the_graph(browser: Browser, state: str) -> None:
    await with_a_watcher(browser, state)
    look = look_of(state, "watcher")
    for path in ("/", "/watchers", "/watchers/landing_files"):
        page = await browser.open(path)
        assert colors(page, "span", "state", state) == {look.color}, path
        assert f"{look.mark} {look.word}" in page.text, path
    graph = await browser.open("/graph")
    assert colors(graph, "rect", "node", "watcher") == {look.color}
    assert f"watcher · {look.mark} {look.word}" in graph.text


@pytest.mark.parametrize("state", RUNS)
async def test_a_run_looks_alike_in_tables_strips_the_graph_and_the_timeline(browser: Browser, state: str) -> None:
    await with_a_run(browser, state)
    look = look_of(state)
    for path in ("/", "/runs", "/jobs/load_orders", "/runs/load_orders/r1"):
        page = await browser.open(path)
        assert colors(page, "span", "state", state) == {look.color}, path
        assert f"{look.mark} {look.word}" in page.text, path
    for path in ("/", "/jobs", "/runs?job=load_orders"):
        assert colors(await browser.open(path), "path", state) == {look.color}, path
    assert colors(await browser.open("/timeline"), "rect", state) == {look.color}
    if state in {"running", "failed"}:  # a job's box shows no other state of its runs
        graph = await browser.open("/graph")
        assert colors(graph, "rect", "node", "job", state) == {look.color}
        assert f"job · {look.mark} {look.word}" in graph.text
