"""Watchers of the same bucket and prefix share one listing; each has its own position."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from tests.service.s3.conftest import Front, Put, new_files
from tests.unit.triggers_files.dict_host import DictHost
from triggers.s3.connection import S3Connection
from triggers.s3.listing import S3Client

pytestmark = pytest.mark.service

WATCHERS = [{"match": "*.json"}, {"mode": "strict"}, {"match": "*.csv", "mode": "strict"}, {"min_size": 2}, {}]


def listings(front: Front) -> int:
    return len([request for request in front.requests if "list-type" in request.query])


async def test_many_watchers_share_one_listing(
    through_front: S3Client, front: Front, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 2)
    put("a.json", "b.csv", "c")
    await through_front.ask_time(bucket, "")
    front.requests.clear()
    hosts = [DictHost() for _ in WATCHERS]
    triggers = [new_files(through_front, bucket, start="all", interval="1h", **options) for options in WATCHERS]
    async with anyio.create_task_group() as tasks:
        for host, trigger in zip(hosts, triggers, strict=True):
            tasks.start_soon(host.run_for_ever, trigger)
        for host in hosts:
            await host.until(lambda host=host: host.polls == 1)  # type: ignore[misc]
        assert listings(front) == 2
        put("d.json")
        for trigger in triggers:  # half an hour is over for all of them
            trigger._listing._resting[trigger.wake] = 0
        await anyio.wait_all_tasks_blocked()
        triggers[2].wake()
        for host in hosts:
            await host.until(lambda host=host: host.polls == 2)  # type: ignore[misc]
        assert listings(front) == 4
        tasks.cancel_scope.cancel()
    found = [[file["key"] for file in host.files] for host in hosts]
    assert found == [
        ["a.json", "d.json"],
        ["a.json", "b.csv", "c", "d.json"],
        ["b.csv"],
        [],
        ["a.json", "b.csv", "c", "d.json"],
    ]


async def test_a_member_that_is_behind_scans_alone(
    through_front: S3Client, front: Front, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 1)
    put("a", "b", "c")
    behind, fresh = DictHost(), DictHost()
    await behind.run_until_commit(new_files(through_front, bucket, start="all"), commits=2)
    front.requests.clear()
    async with anyio.create_task_group() as tasks:
        for host in (behind, fresh):
            tasks.start_soon(host.run, new_files(through_front, bucket, start="all"))
    assert sorted(request.query.get("start-after", "") for request in front.requests) == ["", "a", "b", "b"]
    assert [[file["key"] for file in host.files] for host in (behind, fresh)] == [["a", "b", "c"]] * 2


async def test_watchers_share_a_listing_only_where_connection_bucket_and_listed_prefix_are_equal(
    client: S3Client, connect: Callable[..., S3Connection], bucket: str
) -> None:
    listing = new_files(client, bucket, prefix="in/", match="2026/*.json")._listing
    assert listing is new_files(client, bucket, prefix="in/2026/", mode="strict")._listing
    assert listing is not new_files(client, bucket, prefix="in/")._listing
    async with connect(endpoint_url="http://127.0.0.1:1").open() as other:
        assert listing is not new_files(other, bucket, prefix="in/2026/")._listing
