"""The demo's page counts what was written, seen, lost and repeated, and leads from a value to its log line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from store.base import AssetStoreWriterKind, Writer
from store.keys import AssetRef
from store.state.entries import EntryChange
from tests.databases import on_both
from tests.service.api.application import Api
from tests.service.web.browsing import Browser, browsing
from watcher.features.demo import page as demo_page
from watcher.features.demo.counting import Count, DemoCounts

pytestmark = [on_both, pytest.mark.feature("demo")]
ALL_SEEN = Count(written=1_200, seen=1_200, lost=0, repeated=0)
UNDER_WAY = Count(written=90, seen=88, lost=2, repeated=0)


async def shown(api: Api, home: Path, status: int = 200) -> str:
    async with browsing(replace(api.context, home=home)) as client:
        return (await Browser(client, api).open("/demo", status)).text


async def test_a_daemon_that_is_no_demos_has_no_such_page(api: Api, tmp_path: Path) -> None:
    assert "no demo runs here" in await shown(api, tmp_path, 404)


async def test_while_it_runs_nothing_counts_as_lost_yet(api: Api, tmp_path: Path) -> None:
    DemoCounts(phase="the shop is writing", seconds=3.2, files=UNDER_WAY, rows=ALL_SEEN).write(tmp_path)
    text = await shown(api, tmp_path)
    for words in ("the shop is writing", "counted at the end", "1,200", "88", "when a job has loaded something"):
        assert words in text
    assert "Nothing was lost" not in text


async def test_at_the_end_it_says_that_nothing_was_lost_or_what_was(api: Api, tmp_path: Path) -> None:
    over = DemoCounts(phase="", seconds=42.0, files=ALL_SEEN, rows=ALL_SEEN, is_over=True)
    over.write(tmp_path)
    assert "Nothing was lost, nothing was repeated." in await shown(api, tmp_path)
    replace(over, rows=replace(ALL_SEEN, repeated=1)).write(tmp_path)
    assert "Something was lost or repeated, which must not be." in await shown(api, tmp_path)


async def test_one_link_goes_from_a_value_to_the_line_of_its_write(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_page, "TABLE", "orders")
    DemoCounts(phase="", seconds=42.0, files=ALL_SEEN, rows=ALL_SEEN, is_over=True).write(tmp_path)
    writer = Writer(
        kind=AssetStoreWriterKind.TASK,
        dag_id="load_orders",
        run_id="r",
        task_id="load",
        map_index=-1,
        try_number=1,
        write_id="w7",
    )
    asset = AssetRef(id=api.asset_ids["orders"], name="orders", uri="")
    async with api.database.transaction() as connection:
        await api.context.entries.apply(
            connection, EntryChange(asset=asset, key="files_loaded", value="68", writer=writer)
        )
    async with browsing(replace(api.context, home=tmp_path)) as client:
        page = await Browser(client, api).open("/demo")
    assert "files_loaded" in page.text
    [line] = [link for link in page.links if "around=w7" in link]
    assert line.endswith("/runs/load_orders/r/log/load/1?around=w7")
