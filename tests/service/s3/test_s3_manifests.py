"""Manifests in a bucket: each is read once, as the version that was listed, and its names stand in its event."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from email.utils import formatdate
from typing import Any

import pytest
from aiohttp import web

from tests.servers import S3Server
from tests.service.s3.conftest import Front, Put, error, new_files
from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import JsonValue, TriggerBatch
from triggers.errors import TriggerError
from triggers.s3.listing import S3Client
from triggers.s3.new_files import S3NewFiles
from triggers.shared.manifests import LARGEST

pytestmark = pytest.mark.service
ODD = ["in/ü ñ+1%/all.list", "in/a//b/all.list", "in/q&<>'\"*~(3)=?#/all.list", "in/./x/../all.list"]


def trigger(client: S3Client, bucket: str, **options: Any) -> S3NewFiles:
    given = {"start": "all", "prefix": "in/", "last": ["**/*.list"], "on_bad_row": "report", **options}
    return new_files(client, bucket, manifests=["*.list"], **given)


def manifests(host: DictHost) -> list[JsonValue]:
    return [event.payload["manifests"] for event in host.events if "manifests" in event.payload]


async def with_a_change(host: DictHost, watched: S3NewFiles, change: Callable[[], object]) -> None:
    """Run two polls, and make a change between the second listing and the reading of what is emitted last."""
    for number in range(2):
        batches: AsyncGenerator[TriggerBatch, None] = watched.poll(None)
        async with aclosing(batches):
            async for batch in batches:
                if batch.position is not None:
                    host.commit(batch.position, batch.events)
                if number == 1:
                    change()
        watched.wake()


@pytest.mark.parametrize("mode", ["window", "strict"])
async def test_the_names_in_a_manifest_stand_in_its_event(client: S3Client, bucket: str, put: Put, mode: str) -> None:
    host = DictHost()
    text = f'{{"entries": [{{"url": "s3://{bucket}/in/day=1/a b.csv"}}, {{"url": "../c.csv"}}]}}'
    put("in/day=1/all.list", body=text.encode())
    put("in/day=1/a b.csv")
    watched = trigger(client, bucket, mode=mode, partition={"day": "day={}"})
    await host.run(watched, polls=3)
    [first, last] = host.events
    assert ("last" in first.payload, last.payload["last"], last.partition_key) == (False, True, "1")
    named = {f"s3://{bucket}/in/day=1/all.list": ["a b.csv", f"s3://{bucket}/in/c.csv"]}
    assert last.payload["manifests"] == named
    await host.run(trigger(client, bucket, mode=mode), polls=3)
    assert len(host.events) == 2


@pytest.mark.parametrize("key", ODD)
async def test_a_manifest_is_read_whatever_its_key(client: S3Client, bucket: str, put: Put, key: str) -> None:
    host = DictHost()
    put(key, body=b"a.csv")
    await host.run(trigger(client, bucket), polls=3)
    assert manifests(host) == [{f"s3://{bucket}/{key}": ["a.csv"]}]


async def test_a_manifest_that_is_stored_compressed_is_read_as_it_is_sent(
    client: S3Client, bucket: str, s3_server: S3Server
) -> None:
    host = DictHost()
    for key, text in (("in/all.list", b"a.csv"), ("in/bomb.list", b" " * (LARGEST + 1) + b"a")):
        s3_server.client.put_object(Bucket=bucket, Key=key, Body=gzip.compress(text), ContentEncoding="gzip")
    await host.run(trigger(client, bucket), polls=3)
    assert manifests(host) == [{f"s3://{bucket}/in/all.list": ["a.csv"]}]
    [item] = host.rejected
    assert (item.key, "1,000,000 bytes" in item.reason) == ("in/bomb.list", True)


async def test_a_manifest_that_changes_meanwhile_is_read_as_what_it_becomes(
    client: S3Client, bucket: str, put: Put
) -> None:
    host = DictHost()
    put("in/all.list", body=b"a.csv")
    watched = trigger(client, bucket)
    await with_a_change(host, watched, lambda: put("in/all.list", body=b"a.csv\nb.csv"))
    assert host.events == []
    await host.run(watched, polls=3)
    assert manifests(host) == [{f"s3://{bucket}/in/all.list": ["a.csv", "b.csv"]}]


async def test_a_manifest_that_is_deleted_meanwhile_is_left_out(
    client: S3Client, bucket: str, put: Put, s3_server: S3Server
) -> None:
    host = DictHost()
    put("in/all.list", body=b"a.csv")
    delete = s3_server.client.delete_object
    await with_a_change(host, trigger(client, bucket), lambda: delete(Bucket=bucket, Key="in/all.list"))
    assert (host.events, host.rejected) == ([], [])


async def test_without_an_etag_size_and_time_tell_the_version(
    through_front: S3Client, front: Front, bucket: str, put: Put, s3_server: S3Server
) -> None:
    host = DictHost()
    put("in/all.list", body=b"a.csv")
    written = s3_server.client.head_object(Bucket=bucket, Key="in/all.list")["LastModified"].timestamp()
    shown = [formatdate(written + 60, usegmt=True)]
    watched = trigger(through_front, bucket)

    def without(_: web.Request, body: bytes) -> web.Response:
        listed = re.sub(rb"<ETag>.*?</ETag>", b"", body)
        return web.Response(body=listed, headers={"Date": formatdate(usegmt=True), "Last-Modified": shown[0]})

    front.script += [without] * 100
    await host.run(watched, polls=3)
    assert host.events == [], "another version was sent"
    shown[0] = formatdate(written, usegmt=True)
    await host.run(watched, polls=3)
    assert manifests(host) == [{f"s3://{bucket}/in/all.list": ["a.csv"]}]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (error(403, "AccessDenied"), "grant s3:GetObject on the bucket's manifests"),
        (error(403, "SignatureDoesNotMatch"), "correct the connection's secret_access_key"),
        (error(500, "InternalError"), "InternalError"),
    ],
)
async def test_a_manifest_that_must_not_be_read_stops_the_watcher_until_it_may(
    through_front: S3Client, front: Front, bucket: str, put: Put, answer: Any, sentence: str
) -> None:
    host = DictHost()
    put("in/a", body=b"a.csv")
    put("in/all.list", body=b"a.csv")
    watched = trigger(through_front, bucket)
    await host.run(watched)
    with pytest.raises(TriggerError, match=sentence):
        await with_a_change(host, watched, lambda: front.script.extend([answer] * 3))
    front.script.clear()
    await host.run(trigger(through_front, bucket), polls=3)
    assert [event.count for event in host.events] == [1, 1]


async def test_an_archived_manifest_is_rejected(through_front: S3Client, front: Front, bucket: str, put: Put) -> None:
    host = DictHost()
    put("in/all.list", body=b"a.csv")
    watched = trigger(through_front, bucket)
    await host.run(watched)
    watched.wake()
    batches = watched.poll(None)
    async for batch in batches:
        front.script.append(error(403, "InvalidObjectState"))
        host.rejected.extend(batch.rejected)
    assert ["it is archived" in item.reason for item in host.rejected] == [True]
