"""Watchers of listings in which nothing changes share one poll, and scan only when it shows something else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import anyio
import pytest
from aiohttp import web
from anyio.abc import TaskGroup

from tests.effort import PATIENCE
from tests.service.s3.conftest import Front, Put, error, new_files
from tests.unit.triggers_files.dict_host import DictHost, RunningWatcher, polled_quietly, until
from triggers.s3.listing import S3Client
from triggers.s3.new_files import S3NewFiles

pytestmark = pytest.mark.service


class Watched(RunningWatcher[S3NewFiles]):
    @property
    def keys(self) -> list[str]:
        return [file["key"] for file in self.host.files]


@dataclass(kw_only=True)
class Crowd:
    client: S3Client
    bucket: str
    tasks: TaskGroup

    def watch(self, **options: Any) -> Watched:
        values = {"start": "all", "interval": "5ms", **options}
        watched = Watched(trigger=new_files(self.client, self.bucket, is_alone=False, **values))
        self.tasks.start_soon(watched.run)
        return watched


@asynccontextmanager
async def crowd(client: S3Client, bucket: str) -> AsyncIterator[Crowd]:
    async with anyio.create_task_group() as tasks:
        yield Crowd(client=client, bucket=bucket, tasks=tasks)
        tasks.cancel_scope.cancel()


def listings(front: Front) -> int:
    return len([request for request in front.requests if "list-type" in request.query])


async def test_one_poll_serves_all_watchers_and_only_changes_are_handled(
    through_front: S3Client, front: Front, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 2)
    put("in/a.json", "in/b.csv", "in/c", "other/a")
    async with crowd(through_front, bucket) as many:
        options = [{"match": "*.json"}, {"mode": "strict"}, {"match": "*.csv", "mode": "strict"}, {}] * 5
        watchers = [many.watch(prefix="in/", **each) for each in options]
        neighbour = many.watch(prefix="other/")
        await polled_quietly(*watchers, neighbour)
        polls = [watcher.host.polls for watcher in watchers]
        looks = [watcher.trigger.looked_at for watcher in watchers]
        before = listings(front)
        await polled_quietly(*watchers)
        assert [watcher.host.polls for watcher in watchers] == polls
        assert looks != [watcher.trigger.looked_at for watcher in watchers]
        assert listings(front) - before < len(watchers)

        scans = neighbour.host.polls
        put("in/d.json")
        await until(lambda: all(watcher.host.polls == 2 for watcher in watchers))
        assert [watcher.keys for watcher in watchers] == [
            ["in/a.json", "in/d.json"],
            ["in/a.json", "in/b.csv", "in/c", "in/d.json"],
            ["in/b.csv"],
            ["in/a.json", "in/b.csv", "in/c", "in/d.json"],
        ] * 5
        await polled_quietly(*watchers)
        assert neighbour.host.polls == scans


async def test_a_woken_watcher_is_given_the_pages(through_front: S3Client, front: Front, bucket: str, put: Put) -> None:
    put("a")
    async with crowd(through_front, bucket) as many:
        watchers = [many.watch(interval="1h"), many.watch(interval="1h", mode="strict")]
        await until(lambda: all(watcher.trigger._resting is not None for watcher in watchers))
        put("b")
        before = listings(front)
        [(place, resting)] = through_front.probes.polls.members.items()
        await through_front.probes.poll(place, resting)
        await until(lambda: all(watcher.keys == ["a", "b"] for watcher in watchers))
        assert listings(front) == before + 1


async def test_a_parked_watcher_goes_on_with_the_pages_that_woke_it(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    put("a")
    host, woken = DictHost(), anyio.Event()
    trigger = new_files(through_front, bucket, is_alone=False, start="all", interval="1h")
    assert [event.count for event in await host.run(trigger)] == [1]
    assert trigger.park(woken.set) is not None
    put("b")
    before = listings(front)
    [(place, resting)] = through_front.probes.polls.members.items()
    await through_front.probes.poll(place, resting)
    with anyio.fail_after(PATIENCE):
        await woken.wait()
    trigger.unpark(for_good=False)
    await host.run(trigger)
    assert [file["key"] for file in host.files] == ["a", "b"]
    assert listings(front) == before + 1

    assert trigger.park(woken.set) is not None
    trigger.unpark(for_good=True)
    assert [*through_front.probes.polls.members.values()] == [set()]


async def test_strict_emits_again_what_was_deleted_and_comes_back(
    client: S3Client, bucket: str, put: Put, s3_server: Any
) -> None:
    put("a", "b")
    async with crowd(client, bucket) as many:
        watcher = many.watch(mode="strict")
        await polled_quietly(watcher)
        s3_server.client.delete_object(Bucket=bucket, Key="a")
        await until(lambda: watcher.host.polls >= 2)
        put("a", body=b"other")
        await until(lambda: watcher.keys == ["a", "b", "a"])


async def test_a_young_file_is_emitted_although_nothing_changes_any_more(
    client: S3Client, bucket: str, put: Put
) -> None:
    put("a")
    async with crowd(client, bucket) as many:
        watcher = many.watch(min_age="2s")
        await until(lambda: watcher.keys == ["a"])
        await polled_quietly(watcher)


async def test_up_to_moves_with_the_shared_polls(client: S3Client, bucket: str, put: Put) -> None:
    put("a")
    async with crowd(client, bucket) as many:
        watcher = many.watch()
        await polled_quietly(watcher)
        polls, before = watcher.host.polls, str(watcher.trigger.up_to)
        await until(lambda: str(watcher.trigger.up_to) > before)
        assert watcher.host.polls == polls


async def test_a_listing_that_fails_fails_its_own_watchers_only(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    put("in/a", "other/a")

    def refuse(request: web.Request, body: bytes) -> web.Response | None:
        return error(403, "AccessDenied")(request, body) if request.query["prefix"] == "in/" else None

    async with crowd(through_front, bucket) as many:
        watchers, neighbour = [many.watch(prefix="in/"), many.watch(prefix="in/")], many.watch(prefix="other/")
        await polled_quietly(*watchers, neighbour)
        front.script += [refuse] * 1000
        await until(lambda: all("AccessDenied" in str(watcher.error) for watcher in watchers))
        await polled_quietly(neighbour)
        assert neighbour.error is None


async def test_each_watcher_of_a_large_listing_scans_alone(
    client: S3Client, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 1)
    monkeypatch.setattr("triggers.s3.probes.PAGES", 2)
    monkeypatch.setattr("triggers.s3.new_files.PAGES", 2)
    put("a", "b")
    async with crowd(client, bucket) as many:
        watcher = many.watch()
        await polled_quietly(watcher)
        put("c")
        await until(lambda: watcher.keys == ["a", "b", "c"] and watcher.host.polls > 4)
        assert watcher.trigger._known is None


async def test_a_server_that_accepts_and_never_answers_fails_all_watchers_that_rest(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    put("a")
    async with crowd(through_front, bucket) as many:
        watchers = [many.watch(poll_timeout=timedelta(seconds=1)) for _ in range(3)]
        await polled_quietly(*watchers)
        front.hangs = True
        with anyio.fail_after(50):  # a request alone would wait for 60 s
            await until(lambda: all(watcher.error is not None for watcher in watchers))
        front.hangs = False
        assert {str(watcher.error) for watcher in watchers} == {
            "the source did not answer within 1 s; find out why it is slow, or raise settings.triggerer.poll_timeout"
        }
