"""The page of an event shows all of it, and lists that cut an event lead there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import insert

from store.database.schema import asset_event, database_now, run_asset_event
from tests.databases import on_both
from tests.service.api.application import claimed
from tests.service.web.browsing import Browser, Page
from tests.service.web.test_strange_values import BIDI, HTML, is_harmless

pytestmark = on_both


async def posted(browser: Browser, extra: Mapping[str, Any]) -> int:
    body = {"asset_id": browser.api.asset_ids["landing"], "extra": extra}
    return int((await browser.api.client.post("/api/v2/assets/events", json=body)).json()["id"])


def items(page: Page) -> list[str]:
    """Return the page's items as JSON, which each row's menu has."""
    return [text for text in page.texts if text.startswith(('{"key"', "["))]


async def test_all_files_of_an_event_are_reached_by_the_links_and_by_a_search(browser: Browser) -> None:
    names = [f"orders/{number:04}.json" for number in range(1_500)]
    event_id = await posted(browser, {"files": [{"key": name} for name in names], "bucket": "b" * 30_000})

    shown: list[str] = []
    address = f"/events/{event_id}"
    while address:
        page = await browser.open(address)
        assert "1,500 in files" in page.text
        assert "b" * 30_000 in page.text, "the rest of `extra` is whole"
        shown += items(page)
        following = [a["href"] for a in page.all("a") if a.get("rel") == "next"]
        address = str(page.answer.url.join(following[0])) if following else ""
    assert shown == [f'{{"key": "{name}"}}' for name in names]

    page = await browser.open(f"/events/{event_id}?q=ORDERS/0777")
    assert items(page) == ['{"key": "orders/0777.json"}']
    assert "1 of 1,500 match" in page.text
    assert "orders/0777.json 778 ⋯ More of files 778" in page.text
    tens = await browser.open(f"/events/{event_id}?q=orders/1")
    [more] = [a["href"] for a in tens.all("a") if a.get("rel") == "next"]
    assert items(await browser.open(str(tens.answer.url.join(more))))[0] == '{"key": "orders/1100.json"}'
    nothing = await browser.open(f"/events/{event_id}?q=orders/9999")
    assert (items(nothing), "0 of 1,500 match" in nothing.text) == ([], True)


async def test_rows_are_searched_by_id_and_by_key(browser: Browser) -> None:
    event_id = await posted(browser, {"ranges": [[1, 99], [200, 350], [7, 7]], "keys": [["a", 12], ['b"c', 30]]})

    async def matching(text: str) -> list[str]:
        return items(await browser.open(f"/events/{event_id}?q={text}"))

    assert await matching("") == ["[1, 99]", "[200, 350]", "[7, 7]", '["a", 12]', '["b\\"c", 30]']
    assert await matching("250") == ["[200, 350]"]
    assert await matching("7") == ["[1, 99]", "[7, 7]"]
    assert await matching("150") == []
    assert await matching('["a", 12]') == ['["a", 12]']
    assert await matching("a, 12") == ['["a", 12]']
    assert await matching('b"c') == ['["b\\"c", 30]']
    assert await matching("30") == ["[1, 99]", '["b\\"c", 30]']


async def test_items_are_words_and_json_is_in_the_menu_of_their_row(browser: Browser) -> None:
    files = [
        {"key": "a.json", "size": 7_200, "last_modified": "2026-01-31T06:00:00Z", "etag": "e" * 32},
        {"path": "/in/b.csv", "size": 10**400, "last_modified": "yesterday"},
    ]
    changes = [{"op": "update", "key": ["eu", 5], "row": {"id": 5}}, {"op": "truncate"}]
    extra = {"files": files, "ranges": [[5, 1_016]], "changes": changes, "table": "orders", "watermark": {"up_to": 7}}
    page = await browser.open(f"/events/{await posted(browser, extra)}")

    for row in (
        "a.json 7.2 kB 2026-01-31 06:00:00 UTC",
        "/in/b.csv files 2 ⋯",
        "ids 5 to 1016 1,012 rows ranges 1 ⋯",
        "update of eu, 5 changes 1 ⋯",
        "truncate changes 2 ⋯",
        "table orders",
    ):
        assert row in page.text
    assert {json.dumps(item) for item in (*files, *changes, [5, 1_016])} <= set(page.texts)
    [value] = [text for text in page.texts if text.startswith("{") and "up_to" in text]
    assert page.texts.index("All of it as JSON") < page.texts.index(value), (
        "a value that is no line of words is in a fold"
    )


async def test_an_event_leads_to_its_runs_its_asset_and_the_log_of_its_watcher(browser: Browser) -> None:
    api = browser.api
    await claimed(api)
    trace = "ab" * 16
    async with api.database.transaction() as connection:
        event = {"asset_id": api.asset_ids["landing"], "trace_id": trace, "source_watcher": "landing_files"}
        made = insert(asset_event).values(timestamp=database_now(), **event).returning(asset_event.c.id)
        event_id = (await connection.execute(made)).scalar_one()
        consumed = {"dag_id": "load_orders", "run_id": "manual__1", "event_id": event_id, "completed": True}
        await connection.execute(insert(run_asset_event).values(consumed))

    page = await browser.open(f"/events/{event_id}")

    assert {
        "/runs/load_orders/manual__1",
        browser.asset("landing"),
        "/watchers/landing_files",
        f"/search?q={trace}",
        f"/api/v2/assets/events/{event_id}",
    } <= set(page.links)
    assert "running" in page.text
    [log] = [link for link in page.links if link.startswith("/watchers/landing_files/log?at=")]
    assert "Around the time" in (await browser.open(log)).text
    assert f"/events/{event_id}" in (await browser.open(f"/search?q={trace}")).links


async def test_lists_that_cut_an_event_say_so_and_lead_to_all_of_it(browser: Browser) -> None:
    api = browser.api
    await claimed(api)
    long, short = await posted(browser, {"files": ["x" * 1_000]}), await posted(browser, {"n": 1})
    async with api.database.transaction() as connection:
        for event_id in (long, short):
            consumed = {"dag_id": "load_orders", "run_id": "manual__1", "event_id": event_id, "completed": True}
            await connection.execute(insert(run_asset_event).values(consumed))

    for path in (browser.asset("landing"), f"{browser.asset('landing')}/events", "/runs/load_orders/manual__1"):
        page = await browser.open(path)
        length = len('{"files": [""], "from_rest_api": true}') + 1_000
        assert f"Only the beginning. All {length:,} characters of event {long}" in page.text, path
        assert page.text.count("Only the beginning") == 1, path
        assert {f"/events/{long}", f"/events/{short}"} <= set(page.links), path
    assert "x" * 1_000 in (await browser.open(f"/events/{long}")).text


async def test_strange_items_are_harmless_and_match_as_they_are_shown(browser: Browser) -> None:
    event_id = await posted(browser, {"files": [{"key": HTML}, {"key": BIDI}, 7], HTML: [[]], "deep": {BIDI: None}})

    for path in (f"/events/{event_id}", f"/events/{event_id}?q=gpj", browser.asset("landing")):
        is_harmless(await browser.open(path))
    for text in (BIDI, "invoice\\u202egpj"):
        page = await browser.client.get(f"/events/{event_id}", params={"q": text})
        assert "1 of 4 match" in Page(page).text


async def test_an_event_without_items_is_shown(browser: Browser) -> None:
    page = await browser.open(f"/events/{await posted(browser, {})}")
    assert page.with_id("items") is None
    assert '"from_rest_api": true' in page.text


async def test_a_run_with_many_events_leads_to_all_of_them(browser: Browser) -> None:
    api = browser.api
    await claimed(api)
    source = {"source_dag_id": "load_orders", "source_run_id": "manual__1", "source_task_id": "load"}
    event = {"asset_id": api.asset_ids["orders"], "trace_id": "ab" * 16, **source}
    made = insert(asset_event).values(timestamp=database_now()).returning(asset_event.c.id)

    async def with_more_events(count: int) -> Page:
        async with api.database.transaction() as connection:
            ids = (await connection.execute(made, [event] * count)).scalars().all()
            run = {"dag_id": "load_orders", "run_id": "manual__1", "completed": False}
            await connection.execute(insert(run_asset_event), [{**run, "event_id": event_id} for event_id in ids])
        return await browser.open("/runs/load_orders/manual__1")

    assert "All of them" not in (await with_more_events(100)).text
    page = await with_more_events(1)
    assert "The first 100 events. All of them as JSON" in page.text
    assert "The newest 100 events. All of them as JSON , 100 at a time." in page.text
    consumed, emitted = (link for link in page.links if link.startswith("/api/"))
    assert len((await api.get(consumed))["asset_events"]) == 101
    answer = (await api.client.get(emitted)).json()
    assert (len(answer["asset_events"]), answer["total_entries"]) == (100, 101)
