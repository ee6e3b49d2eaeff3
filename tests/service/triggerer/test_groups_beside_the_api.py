"""Detections are made while people and tools write, delete and clear entries of the same assets over REST."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import anyio
import httpx
import pytest

from store.database import Database
from store.database.schema import asset_event, asset_store_history, queued_event, watcher_position
from store.detection.interest import NO_HOOKS
from store.values import WATERMARK_SUFFIX
from tests.effort import effort
from tests.service.api.application import make_context, serving
from tests.service.store.words import apply, beat, declared, rows
from tests.service.triggerer.group_world import OWNER, Detector, detector
from watcher.triggerer.group_commit import GroupCommit

pytestmark = pytest.mark.service


async def watchers_of_two_assets(database: Database) -> list[Detector]:
    """Return the watchers. Every other one is no longer configured, but still works: its watermark may be deleted."""
    assets = {"a": "test://a", "b": "test://b"}
    home = {f"w{number}": "ab"[number // 2 % 2] for number in range(8)}
    configured = partial(declared, assets=assets, jobs={"load": assets})
    ids = (await apply(database, configured(watchers=home))).asset_ids
    await beat(database, OWNER)
    every = [await detector(database, name, ids[asset]) for name, asset in home.items()]
    await apply(database, configured(watchers={name: home[name] for name in [*home][::2]}))
    return every


async def write_delete_and_clear(client: httpx.AsyncClient, one: Detector) -> set[int]:
    """Write, delete and clear entries, and return the statuses of the answers."""
    store = f"/api/v2/assets/{one.asset_id}/store"
    return {
        (await client.put(f"{store}/note", json={"value": 1})).status_code,
        (await client.delete(f"{store}/{one.name}{WATERMARK_SUFFIX}")).status_code,
        (await client.delete(f"{store}/note")).status_code,
        (await client.delete(store)).status_code,
    }


@pytest.mark.feature("rest")
async def test_writes_and_clears_by_the_api_meet_no_deadlock_and_lose_no_detection(
    database: Database, tmp_path: Path
) -> None:
    every = await watchers_of_two_assets(database)
    context = make_context(database, tmp_path, configuration_hash="hash")
    group, done, statuses = GroupCommit(database, NO_HOOKS), anyio.Event(), set[int]()

    async def detect(one: Detector) -> None:
        while not done.is_set():
            await one.detect(group)

    async def call(client: httpx.AsyncClient) -> None:
        for one in every * effort(1, 40):
            statuses.update(await write_delete_and_clear(client, one))

    async with serving(context) as client, anyio.create_task_group() as tasks:
        for one in every:
            tasks.start_soon(detect, one)
        async with anyio.create_task_group() as people:
            for _ in range(2):
                people.start_soon(call, client)
        done.set()

    assert statuses == {204, 409}, "409: a configured watcher's watermark is its own"
    count = {row["watcher"]: row["version"] for row in await rows(database, watcher_position)}
    assert count == {one.name: one.number for one in every}
    assert all(count.values())
    assert len(await rows(database, asset_event)) == len(await rows(database, queued_event)) == sum(count.values())
    await assert_histories_are_whole(database, count)


async def assert_histories_are_whole(database: Database, count: dict[str, int]) -> None:
    """Check that each write has exactly one version in the history, also after a delete."""
    versions: dict[tuple[int, str], list[int]] = {}
    written: dict[str, int] = {}
    for row in await rows(database, asset_store_history):
        versions.setdefault((row["asset_id"], row["key"]), []).append(row["version"])
        if row["watcher"] is not None:
            written[row["watcher"]] = written.get(row["watcher"], 0) + 1
    assert written == count
    assert all(later == earlier + 1 for each in versions.values() for earlier, later in pairwise(each))
