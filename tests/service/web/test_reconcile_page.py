"""The button on a watcher's page compares the source with the events, and a page shows the result."""

from __future__ import annotations

from pathlib import Path

import anyio

from store.database import Database
from tests.databases import on_both
from tests.service.api.application import Api
from tests.service.api.explained_world import explained_world
from tests.service.web.browsing import Browser, browsing
from triggers.local_folder.new_files import FileNewFiles


@on_both
async def test_the_button_leads_to_the_differences(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a<b>.csv").write_text("x")
    options = {"path": str(folder), "start": "all", "min_age": "0s", "interval": "1ms"}
    async with (
        explained_world(database, {"files": (FileNewFiles, options)}, {"files"}, tmp_path) as world,
        browsing(world.context) as client,
    ):
        browser = Browser(client, Api(client=world.client, context=world.context, asset_ids={}))
        watcher = await browser.open("/watchers/files")
        [button] = [form for form in watcher.forms if form.endswith("/reconcile")]
        page = await browser.send(button)
        with anyio.fail_after(20):
            while "reads itself again" in page.text:
                await anyio.sleep(0.02)
                page = await browser.open(page.path)
        assert "In the source 1 Reported 0 Loaded 0 waiting 1" in page.text
        assert str(folder / "a<b>.csv") in page.texts
        await browser.open("/watchers/files/reconcile/nothing", status=404)
