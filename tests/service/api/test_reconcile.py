"""A source beside its events: differences that were planted are counted, named and explained, and nothing else is."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from sqlalchemy import delete, select

from store.database import Database
from store.database.schema import asset_event, queued_event, run_asset_event
from store.fates import Fate
from tests.databases import on_both
from tests.effort import SEED
from tests.servers import S3Server
from tests.service.api.explained_sources import s3_connection
from tests.service.api.explained_world import ExplainedWorld, explained_world
from triggers.base import BaseEventTrigger, BaseOptions
from triggers.local_folder.new_files import FileNewFiles
from triggers.s3.new_files import S3NewFiles

FILES: Mapping[str, Any] = {"start": "all", "interval": "1ms", "min_age": "0s", "batch": {"max_files": 1}}
BEFORE: Mapping[str, Sequence[str]] = {
    "reported_not_loaded": ("queued", "running", "reported", "not_taken"),
    "dequeued": ("dropped",),
    "gone_from_source": ("missing", "cleaned", "moved"),
}
"""The words before the list of states, each with the present ones."""


async def ended(world: ExplainedWorld, name: str, **body: Any) -> Any:
    """Return a comparison once it has ended."""
    begun = await world.client.post(f"/api/v2/watchers/{name}/reconcile", json=body)
    assert begun.status_code == 202, begun.text
    operation = begun.json()
    with anyio.fail_after(60):
        while operation["state"] == "running":
            await anyio.sleep(0.01)
            answer = await world.client.get(f"/api/v2/watchers/{name}/reconcile/{operation['id']}")
            operation = answer.json()
    return operation


async def reconciled(world: ExplainedWorld, name: str, **body: Any) -> Any:
    operation = await ended(world, name, **body)
    assert operation["state"] == "done", operation["error"]
    result = operation["result"]
    assert {*result} == {"source", "reported", "loaded", "differences", "items", "exact", "why_not"}
    counts = result["differences"]
    assert {name: counts[name] for name in BEFORE} == {
        name: sum(counts[word] for word in words) for name, words in BEFORE.items()
    }
    assert {*counts} - {*BEFORE} <= {*Fate, "reported_twice"}
    for each in result["items"]:
        expected = [name for name, words in BEFORE.items() if each["state"] in words]
        assert each["state_before"] in (expected or [each["state"], "past_retention"])
    return result


def differing(result: Any) -> Mapping[str, int]:
    """The counts by the present words, without zeros."""
    return {kind: count for kind, count in result["differences"].items() if count and kind not in BEFORE}


async def remove_events(database: Database, names: set[str]) -> None:
    """Delete the events of these files, as no program of ours does."""
    async with database.transaction() as connection:
        rows = (await connection.execute(select(asset_event.c.id, asset_event.c.extra))).all()
        ids = [
            row.id for row in rows if any((f.get("key") or f["path"]) in names for f in json.loads(row.extra)["files"])
        ]
        for table in (run_asset_event, queued_event):
            await connection.execute(delete(table).where(table.c.event_id.in_(ids)))
        await connection.execute(delete(asset_event).where(asset_event.c.id.in_(ids)))


@on_both
async def test_planted_differences_of_a_bucket_are_named_and_explained(
    database: Database, s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    seed = random.Random(SEED)

    def put(*keys: str, body: bytes = b"x") -> None:
        for key in keys:
            s3_server.client.put_object(Bucket=bucket, Key=key, Body=body)

    def some(count: int, what: str) -> list[str]:
        return [f"in/{seed.randrange(9)}/{what} ü{number} {seed.getrandbits(40)}" for number in range(count)]

    options = {**FILES, "bucket": bucket, "prefix": "in/"}
    triggers: Mapping[str, Any] = {"bucket": (S3NewFiles, options)}
    async with explained_world(database, triggers, {"bucket"}, tmp_path, s3=s3_connection(s3_server)) as world:
        good, lost, gone, replaced = some(200, "good"), some(10, "lost"), some(10, "gone"), some(10, "replaced")
        put(*good, *lost, *gone, *replaced)
        await world.poll("bucket")
        await world.consume("success")
        failed = some(6, "failed")
        put(*failed)
        await world.poll("bucket")
        await world.consume("failed", reason="the disk was full")
        dequeued = some(5, "dequeued")
        put(*dequeued)
        await world.poll("bucket")
        await world.client.delete("/api/v2/dags/load/assets/queuedEvents")
        queued = some(4, "queued")
        put(*queued)
        await world.poll("bucket")
        clean = await reconciled(world, "bucket")
        assert differing(clean) == {"failed": 6, "dropped": 5, "queued": 4}
        assert (clean["source"], clean["reported"], clean["loaded"]) == (245, 245, 230)

        await remove_events(database, {*lost})
        for key in gone:
            s3_server.client.delete_object(Bucket=bucket, Key=key)
        put(*replaced, body=b"another")
        waiting = some(5, "waiting")
        put(*waiting)
        result = await reconciled(world, "bucket")

    planted = {
        "not_reported": lost,
        "missing": gone,
        "replaced": replaced,
        "failed": failed,
        "dropped": dequeued,
        "queued": queued,
        "waiting": waiting,
    }
    assert sum(map(len, planted.values())) == 50
    assert differing(result) == {kind: len(keys) for kind, keys in planted.items()}
    assert {(item["state"], item["item"]) for item in result["items"]} == {
        (k, key) for k, keys in planted.items() for key in keys
    }
    assert (result["source"], result["reported"], result["loaded"]) == (240, 235, 220)
    assert (result["exact"], result["why_not"]) == (True, None)
    sentences = {item["item"]: item["sentence"] for item in result["items"]}
    assert "no event names" in sentences[lost[0]]
    assert "the source does not have it any more" in sentences[gone[0]]
    assert "the disk was full" in sentences[failed[0]]
    assert "taken off the queue" in sentences[dequeued[0]]
    assert all(item["url"].startswith(("/events/", "/watchers/bucket")) for item in result["items"])


@on_both
async def test_what_was_there_before_the_start_is_young_or_has_no_name_is_no_loss(
    database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def put(name: str, content: str = "x") -> Path:
        (folder / name).write_text(content)
        return folder / name

    old = [put(f"old {number}") for number in range(5)]
    await anyio.sleep(0.05)  # the clock of files is coarse: what has the time of the start may have come after it
    options = {**FILES, "path": str(folder), "start": "now"}
    triggers: Mapping[str, Any] = {
        "files": (FileNewFiles, options),
        "young": (FileNewFiles, {**options, "start": "all", "min_age": "1h"}),
        "window": (FileNewFiles, {**options, "mode": "window", "lateness": "1ms"}),
    }
    async with explained_world(database, triggers, set(), tmp_path) as world:
        for name in triggers:
            await world.poll(name)
        await anyio.sleep(0.05)
        new = [put(f"new {number}") for number in range(3)]
        put(os.fsdecode(b"a\xff"))
        await world.poll("files")
        await world.poll("window")
        results = {name: await reconciled(world, name) for name in triggers}
        assert differing(results["files"]) == {"before_start": 5, "reported": 3, "rejected": 1}
        assert differing(results["window"]) == {"before_start": 5, "reported": 3, "rejected": 1}
        assert differing(results["young"]) == {"waiting": 9}
        assert {item["item"] for item in results["files"]["items"] if item["state"] == "before_start"} == {
            *map(str, old)
        }

        await remove_events(database, {str(new[0])})
        [lost] = (await reconciled(world, "files", limit=1))["items"]
        assert (lost["item"], lost["state"]) == (str(new[0]), "not_reported")
        later = {"since": "2999-01-01T00:00:00Z"}
        assert (await reconciled(world, "files", **later))["source"] == 0
        assert differing(await reconciled(world, "files", until=later["since"])) == differing(results["files"]) | {
            "reported": 2,
            "not_reported": 1,
        }


async def test_a_rewind_repeats_on_purpose_and_an_event_that_is_copied_does_not(
    database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        (folder / str(number)).write_text("x")
    triggers: Mapping[str, Any] = {"files": (FileNewFiles, {**FILES, "path": str(folder), "min_age": "0s"})}
    async with explained_world(database, triggers, {"files"}, tmp_path) as world:
        await world.poll("files")
        rewound = await world.client.post("/api/v2/watchers/files/rewind", json={"to": "start"})
        assert rewound.status_code == 200, rewound.text
        await world.poll("files")
        await world.consume("success")
        assert differing(await reconciled(world, "files")) == {}

        async with database.transaction() as connection:
            await connection.exec_driver_sql(
                "INSERT INTO asset_event (asset_id, extra, timestamp, trace_id, source_watcher)"
                " SELECT asset_id, extra, timestamp, trace_id, source_watcher FROM asset_event ORDER BY id DESC LIMIT 1"
            )
        result = await reconciled(world, "files")
        assert differing(result) == {"reported_twice": 1}
        assert "more than once" in result["items"][0]["sentence"]

        await world.client.post("/api/v2/watchers/files/rewind", json={"to": "now"})
        (folder / "passed").write_text("x")
        await anyio.sleep(0.05)
        await world.poll("files")
        assert differing(await reconciled(world, "files")) == {"reported_twice": 1, "before_start": 1}


async def test_what_clean_source_has_deleted_is_not_what_somebody_has_removed(
    database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    clean = {"clean_source": {"delete": True, "after": "0s"}, "batch": {"max_files": 3}}
    triggers: Mapping[str, Any] = {"files": (FileNewFiles, {**FILES, "path": str(folder), **clean})}
    for number in range(6):
        (folder / str(number)).write_text("x")
    async with explained_world(database, triggers, {"files"}, tmp_path) as world:
        await world.poll("files")
        await world.consume("success")
        (folder / "4").unlink()
        await world.clean("files")
        assert not [*folder.iterdir()]
        result = await reconciled(world, "files")
    assert differing(result) == {"cleaned": 5, "missing": 1}
    sentences = {Path(item["item"]).name: item["sentence"] for item in result["items"]}
    assert all("`clean_source` has deleted it" in sentences[name] for name in "01235")
    assert not any("does not have it any more" in sentences[name] for name in "01235")
    assert "`clean_source` has moved or deleted 2 of the 3 files of this event" in sentences["4"]
    assert "the source does not have it any more" in sentences["4"]


class Mute(BaseEventTrigger[BaseOptions, None]):
    """A trigger that lists nothing."""

    Options = BaseOptions

    async def check(self) -> list[Any]:
        return []

    def source_identity(self) -> str:
        return "mute"

    async def events(self, position: Any) -> Any:
        yield position


async def test_a_trigger_that_lists_nothing_says_so(database: Database, tmp_path: Path) -> None:
    async with explained_world(database, {"mute": (Mute, {})}, set(), tmp_path) as world:
        begun = await ended(world, "mute")
        assert (begun["state"], begun["result"]) == ("failed", None)
        assert begun["error"] == "mute cannot be reconciled: its trigger cannot list its source"
        assert (await world.client.get("/api/v2/watchers/mute/reconcile/none")).status_code == 404
        assert (await world.client.post("/api/v2/watchers/none/reconcile")).status_code == 404
        backwards = {"since": "2026-02-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}
        assert (await world.client.post("/api/v2/watchers/mute/reconcile", json=backwards)).status_code == 422
