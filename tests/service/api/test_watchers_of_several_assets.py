"""One watcher with events of several assets: every question about it, and about the assets, has the same answer as for one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from store.catalog import graph
from store.database import Database
from tests.databases import on_both
from tests.service.api.explained_world import ExplainedWorld, explained_world
from tests.service.api.test_reconcile import FILES, differing, reconciled
from triggers.local_folder.new_files import FileNewFiles

NAMES = ("orders/a.csv", "orders/b.csv", "refunds/c.csv", "other.csv")


def watched(source: Path) -> Mapping[str, Any]:
    assets = {"orders": "orders/**", "refunds": "refunds/**"}
    return {"inbox": (FileNewFiles, {**FILES, "path": str(source), "assets": assets})}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in NAMES:
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "in"


async def get(world: ExplainedWorld, path: str, **query: str) -> Any:
    answer = await world.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@on_both
async def test_events_are_of_their_assets_and_a_job_gets_those_of_its_own(
    database: Database, source: Path, tmp_path: Path
) -> None:
    async with explained_world(database, watched(source), {"orders"}, tmp_path / "logs") as world:
        preview = (await world.client.post("/api/v2/watchers/inbox/poll", params={"dry_run": "true"})).json()
        assert [event.get("asset") for event in preview["shown"]] == ["orders", "orders", "refunds", None]
        assert preview["runs"] == {"load": 1}

        await world.poll("inbox")
        events = await get(world, "/api/v2/assets/events")
        told = [
            (event["name"], Path(event["extra"]["files"][0]["path"]).name, event["extra"]["watcher"])
            for event in events["asset_events"]
        ]
        assert sorted(told) == [
            ("inbox", "other.csv", "inbox"),
            ("orders", "a.csv", "inbox"),
            ("orders", "b.csv", "inbox"),
            ("refunds", "c.csv", "inbox"),
        ]
        assert len({event["extra"]["event_id"] for event in events["asset_events"]}) == 4

        assets = {asset["name"]: asset for asset in (await get(world, "/api/v2/assets"))["assets"]}
        watchers = {name: [each["name"] for each in asset["watchers"]] for name, asset in assets.items()}
        assert watchers == {"inbox": ["inbox"], "orders": ["inbox"], "refunds": ["inbox"]}
        async with database.reading() as connection:
            _, edges = await graph.of_all(connection)
        watched_ids = {edge.target for edge in edges if edge.role == "watches"}
        assert watched_ids == {("asset", str(asset["id"])) for asset in assets.values()}


@on_both
async def test_files_of_every_asset_are_explained_and_reconciled(
    database: Database, source: Path, tmp_path: Path
) -> None:
    async with explained_world(database, watched(source), {"orders", "refunds"}, tmp_path / "logs") as world:
        await world.poll("inbox")
        await world.consume("success")
        answers = {name: (await world.explained(str(source / name)))[0] for name in NAMES}
        assert {name: (answer["asset"], answer["state"]) for name, answer in answers.items()} == {
            "orders/a.csv": ("orders", "loaded"),
            "orders/b.csv": ("orders", "loaded"),
            "refunds/c.csv": ("refunds", "loaded"),
            "other.csv": ("inbox", "reported"),
        }
        result = await reconciled(world, "inbox")
        assert (result["source"], result["reported"], result["loaded"]) == (4, 4, 3)
        assert differing(result) == {"reported": 1}

        (source / "refunds" / "d.csv").write_text("new")
        await world.poll("inbox")
        assert await world.state(str(source / "refunds/d.csv"), "inbox") == "queued"
