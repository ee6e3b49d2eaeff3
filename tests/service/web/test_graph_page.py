"""The graph shows the states of jobs, assets and queues, folds watchers, and keeps what matches a filter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import insert, update

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredWatcher
from store.database.schema import database_now, queued_event, watcher
from store.runs import runs
from tests.databases import on_both
from tests.service.api.application import CONFIGURED, asset
from tests.service.web.browsing import Browser, Page

pytestmark = on_both


def boxes(page: Page) -> list[str]:
    """Return the classes of the boxes: kind and state."""
    return sorted(rect["class"].strip() for rect in page.all("rect") if "node" in rect.get("class", ""))


async def finished(browser: Browser, run_id: str, state: str) -> None:
    async with browser.api.database.transaction() as connection:
        await runs.create_run(connection, "load_orders", run_id, "load", triggered_by="rest_api", conf="{}", note=None)
        await runs.move_run(connection, "load_orders", run_id, state)


@pytest.mark.parametrize(
    ("last", "shown"),
    [("failed", "node job bad failed"), ("success", "node job"), ("running", "node job busy running")],
)
async def test_a_job_has_the_state_of_its_newest_run(browser: Browser, last: str, shown: str) -> None:
    await finished(browser, "r1", "failed")
    await finished(browser, "r2", "success")
    await finished(browser, "r3", last)
    assert [box for box in boxes(await browser.open("/graph")) if "job" in box] == sorted(["node job", shown])


async def test_queues_are_seen_at_the_asset_and_the_job(browser: Browser) -> None:
    event = await browser.api.client.post("/api/v2/assets/events", json={"asset_id": browser.api.asset_ids["orders"]})
    row = {"dag_id": "report", "event_id": event.json()["id"], "asset_id": browser.api.asset_ids["orders"]}
    async with browser.api.database.transaction() as connection:
        await connection.execute(queued_event.delete())
        await connection.execute(insert(queued_event).values(created_at=database_now()), [row])
    page = await browser.open("/graph")
    assert {"node asset calm queued", "node job calm waiting"} <= set(boxes(page))
    waiting = await browser.open("/graph?state=waiting")
    assert "node job calm waiting" in boxes(waiting)
    assert len(boxes(waiting)) == 2, "the job and the asset next to it"


async def test_folded_watchers_leave_their_trouble_at_the_asset(browser: Browser) -> None:
    async with browser.api.database.transaction() as connection:
        await connection.execute(update(watcher).values(state="failing", error="the bucket is gone"))
    assert "node watcher bad failing" in boxes(await browser.open("/graph"))
    folded = boxes(await browser.open("/graph?fold=true"))
    assert "node asset bad failing" in folded
    assert not [box for box in folded if "watcher" in box]


async def test_five_hundred_nodes_with_long_names_are_drawn_and_can_be_told_apart(browser: Browser) -> None:
    names = [f"{'a' * 180}_{number:09}" for number in range(240)]
    declared = Declared(
        hash="the hash",
        assets=[*CONFIGURED.assets, *(asset(name) for name in names)],
        watchers=[DeclaredWatcher(name=f"w{name}", asset=name, trigger="s3.new_files") for name in names],
        jobs=CONFIGURED.jobs,
    )
    async with browser.api.database.transaction() as connection:
        await catalog_sync.apply(connection, declared, browser.api.database.dialect)
    page = await browser.open("/graph")
    assert len(boxes(page)) == 2 * 240 + 6
    shown = [text for text in page.texts if "…" in text]
    assert len(set(shown)) == len(shown) == 480
    assert all(len(text) <= 24 for text in shown)
    one = await browser.open("/graph?text=_000000007")
    assert boxes(one) == ["node asset", "node watcher warn stopped"]
    assert "Nothing matches" in (await browser.open("/graph?text=no_such_name")).text


async def test_a_circle_of_a_hundred_jobs_is_drawn(browser: Browser) -> None:
    """The drawing has some 200 columns, and the edge that closes the circle passes through all of them."""
    names = [f"step_{number:03}" for number in range(100)]
    [job, *_] = CONFIGURED.jobs
    declared = Declared(
        hash="the hash",
        assets=[*CONFIGURED.assets, *(asset(name) for name in names)],
        watchers=[],
        jobs=[
            *CONFIGURED.jobs,
            *(
                replace(
                    job, dag_id=f"job_{name}", assets={"schedule": {name}, "outlet": {names[number - 1]}}, aliases={}
                )
                for number, name in enumerate(names)
            ),
        ],
    )
    async with browser.api.database.transaction() as connection:
        await catalog_sync.apply(connection, declared, browser.api.database.dialect)
    assert len(boxes(await browser.open("/graph?text=step_"))) == 2 * 100


async def test_of_more_nodes_than_can_be_drawn_the_part_that_fails_is_drawn(browser: Browser) -> None:
    names = [f"{number:04}" for number in range(300)]
    declared = Declared(
        hash="the hash",
        assets=[*CONFIGURED.assets, *(asset(f"a{name}") for name in names)],
        watchers=[DeclaredWatcher(name=f"w{name}", asset=f"a{name}", trigger="s3.new_files") for name in names],
        jobs=CONFIGURED.jobs,
    )
    async with browser.api.database.transaction() as connection:
        await catalog_sync.apply(connection, declared, browser.api.database.dialect)
    nothing_fails = await browser.open("/graph")
    assert boxes(nothing_fails) == []
    assert "606 nodes are too many for one picture" in nothing_fails.text
    async with browser.api.database.transaction() as connection:
        await connection.execute(update(watcher).where(watcher.c.name == "w0007").values(state="failing", error="gone"))
    page = await browser.open("/graph")
    assert boxes(page) == ["node asset", "node watcher bad failing"]
    assert "This is the part that fails" in page.text
    async with browser.api.database.transaction() as connection:
        await connection.execute(update(watcher).values(state="failing", error="gone"))
    assert 0 < len(boxes(await browser.open("/graph"))) <= 500
