"""The number of statements of a page is the same, whatever the tables contain."""

from __future__ import annotations

from sqlalchemy import insert

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredWatcher
from store.database.schema import asset_event, audit, database_now, run
from tests.databases import on_both
from tests.service.api.application import CONFIGURED, asset, claimed, job
from tests.service.api.test_costs import counted
from tests.service.web.browsing import Browser

pytestmark = on_both
MANY = 300

COSTS = {
    "/": 19,
    "/assets": 4,
    "{landing}": 14,
    "{landing}/events": 4,
    "{landing}/entry?key=k": 3,
    "/events/1": 4,
    "/watchers/landing_files": 7,
    "/watchers": 3,
    "/runs": 2,
    "/runs?text=load&since=2026-01-31T22:00": 2,
    "/runs?state=failed&job=load_orders": 4,
    "/runs/load_orders/manual__1": 11,
    "/jobs/load_orders": 9,
    "/audit": 1,
    "/search?q=o": 7,
    "/graph": 2,
    "/timeline": 8,
}


async def many_of_everything(browser: Browser) -> None:
    """Create more rows of everything than fit on a page."""
    numbers = [f"{number:04}" for number in range(MANY)]
    declared = Declared(
        hash="the hash",
        assets=[*CONFIGURED.assets, *(asset(f"asset{number}") for number in numbers)],
        watchers=[
            *CONFIGURED.watchers,
            *(DeclaredWatcher(name=f"w{n}", asset=f"asset{n}", trigger="s3.new_files") for n in numbers),
        ],
        jobs=[
            *CONFIGURED.jobs,
            *(job(f"job{number}", schedule={f"asset{number}", "landing"}) for number in numbers[:5]),
        ],
    )
    async with browser.api.database.transaction() as connection:
        await catalog_sync.apply(connection, declared, browser.api.database.dialect)
        event = {"asset_id": browser.api.asset_ids["landing"], "extra": "{}", "trace_id": "0" * 32}
        await connection.execute(
            insert(asset_event).values(timestamp=database_now()), [{**event, "event_id": f"e{n}"} for n in numbers]
        )
        entry = {"actor": "ann", "action": "watcher.pause", "target": "w"}
        await connection.execute(insert(audit).values(at=database_now()), [entry for _ in numbers])
        times = {"queued_at": database_now(), "run_after": database_now()}
        state = {"run_type": "manual", "triggered_by": "rest_api", "state": "failed", "trace_id": "0" * 32}
        rows = [{"dag_id": "load_orders", "run_id": f"r{n}", **state} for n in numbers]
        await connection.execute(insert(run).values(times), rows)


async def costs(browser: Browser) -> dict[str, int]:
    spent = {}
    for path in COSTS:
        with counted(browser.api.database) as cost:
            await browser.open(path.format(landing=browser.asset("landing")))
        spent[path] = len(cost.statements)
    return spent


async def test_a_page_costs_the_same_number_of_statements_whatever_it_shows(browser: Browser) -> None:
    await browser.api.client.post("/api/v2/assets/events", json={"asset_id": browser.api.asset_ids["landing"]})
    one = await claimed(browser.api)
    await one.put("landing", "k", 1)
    await browser.open("/")

    before = await costs(browser)
    await many_of_everything(browser)

    assert await costs(browser) == before
    assert before == COSTS


async def test_links_lead_through_long_lists_to_their_end(browser: Browser) -> None:
    await many_of_everything(browser)
    for path in (
        "/runs",
        "/audit",
        f"{browser.asset('landing')}/events",
        "/assets",
    ):
        rows, address = 0, path
        while address:
            page = await browser.open(address)
            rows += sum(1 for tag, _ in page.elements if tag == "tr") - 1
            following = [a["href"] for a in page.all("a") if a.get("rel") == "next"]
            address = str(page.answer.url.join(following[0])) if following else ""
        assert rows == MANY + (4 if path == "/assets" else 0), path
