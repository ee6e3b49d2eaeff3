"""A job's page shows its last partitions, from the newest run of each and from what is queued."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update

from store.catalog import catalog_sync
from store.database.asset_events import NewEvent
from store.database.schema import run
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.keys import Batching
from store.runs import runs
from tests.databases import on_both
from tests.service.api.application import CONFIGURED
from tests.service.web.browsing import Browser

pytestmark = [on_both, pytest.mark.feature("partitions")]


async def by_day(browser: Browser) -> None:
    (load, report) = CONFIGURED.jobs
    batch = Batching(mode="per_partition", by=("day",))
    definition = replace(load.definition, schedule={"all": ["landing", "customers"]}, batch=batch)
    keyed = [replace(each, partition_parts='["day"]') for each in CONFIGURED.assets]
    async with browser.api.database.transaction() as connection:
        new = replace(CONFIGURED, assets=keyed, jobs=[replace(load, definition=definition), report])
        await catalog_sync.apply(connection, new, browser.api.database.dialect)


async def ran(browser: Browser, run_id: str, key: str, state: str) -> None:
    async with browser.api.database.transaction() as connection:
        asked = {"triggered_by": "test", "conf": "{}", "note": None}
        await runs.create_run(connection, "load_orders", run_id, "load", **asked)
        await connection.execute(update(run).where(run.c.run_id == run_id).values(partition_key=key, state=state))


async def test_days_stand_in_a_calendar_with_what_became_of_them(browser: Browser) -> None:
    assert "Last partitions" not in (await browser.open("/jobs/load_orders")).text
    await by_day(browser)
    assert "Each partition stands here" in (await browser.open("/jobs/load_orders")).text

    await ran(browser, "first", "2026-01-24", "success")
    await ran(browser, "again", "2026-01-24", "failed")
    await ran(browser, "fine", "2026-01-26", "success")
    event = NewEvent(
        asset_id=browser.api.asset_ids["landing"],
        extra="{}",
        trace_id="0" * 32,
        source_actor="test",
        partition_key="2026-01-27",
    )
    async with browser.api.database.transaction() as connection:
        await events.append(connection, [event], origin=EventOrigin.POST, hooks=NO_HOOKS)

    page = await browser.open("/jobs/load_orders")

    titles = {link["title"]: link["href"] for link in page.all("a") if link.get("title", "").startswith("2026-")}
    assert titles.keys() == {
        "2026-01-24: failed",
        "2026-01-25: never come",
        "2026-01-26: complete",
        "2026-01-27: waiting, for customers",
    }
    assert titles["2026-01-24: failed"].endswith("runs/load_orders/again")
    assert titles["2026-01-25: never come"].endswith(f"assets/{browser.api.asset_ids['customers']}")
    assert "⊘ never come 1" in page.text


async def test_other_keys_are_a_list(browser: Browser) -> None:
    await by_day(browser)
    await ran(browser, "one", "eu", "running")
    page = await browser.open("/jobs/load_orders")
    assert "Partition State About it eu" in page.text
    assert "/runs/load_orders/one" in page.links
