"""Writers that do what writers do, an S3 server that does what AWS does, the real daemon, and SIGKILL.

Counted by version (key, ETag, LastModified), from the asset events that the REST API tells of: what the bucket holds in the
end is in exactly one event of each watcher, and so is, at most, each version that was overwritten meanwhile. In the same
run a watcher that remembers the highest LastModified loses. The short form takes about half a minute, WATCHER_TEST_LONG=1
ten minutes.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from string import Template
from typing import Any, NamedTuple, Self
from uuid import uuid4

import anyio
import boto3
import httpx
import pytest
from anyio.to_thread import run_sync
from botocore.config import Config

from tests.effort import LONG, PATIENCE, SEED, effort
from tests.faulty_s3 import Faults, FaultyS3, faulty_s3
from tests.servers import S3Server, fresh_bucket, running_s3
from tests.torture.busy import overcommitted
from tests.torture.results import Result
from watcher.demo.counting import PAGE, get
from watcher.demo.daemon import Daemon, running_daemon
from watcher.demo.servers import free_port

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.service, pytest.mark.slow]

SECONDS = effort(8, 600)
WATCHERS = ("window", "strict", "hinted")
BAD_DAY = Faults(late=0.1, cut=0.03, reset=0.03, slow_down=0.05)
ODD_NAMES = [
    "plain",
    "with space",
    "plus+",
    "100%",
    "%41",
    "a&b<c>",
    "ünïcödé",
    "日本",
    "quo'te\"",
    "semi;colon",
    "~tilde",
]
CONFIGURATION = Template("""\
version: 1
settings:
  home: home
  api: {port: $port, auth: none}
  database: {url: $database}
  triggerer: {heartbeat: 500ms, lease: 3s}
connections:
  lake: {type: s3, endpoint_url: "$endpoint", region: us-east-1, access_key_id: a, secret_access_key: b}
assets:
  landing:
    uri: s3://$bucket
    watchers:
      window: {trigger: s3.new_files, connection: lake, interval: 200ms, start: all, lateness: 10s, batch: {max_files: 7}}
      strict: {trigger: s3.new_files, connection: lake, interval: 200ms, start: all, mode: strict}
      hinted: {trigger: s3.new_files, connection: lake, interval: 2s, start: all, lateness: 10s, notifications: "$queue"}
""")
LONGEST_UPLOAD = float(effort(4, 8))
"""Seconds; below the lateness by more than the second to which S3 rounds."""


class Version(NamedTuple):
    key: str
    etag: str
    last_modified: str


@pytest.mark.parametrize("dialect", ["sqlite", *(["postgresql"] if LONG else [])], indirect=True)
async def test_sigkill_at_any_moment_loses_and_repeats_no_version(
    tmp_path: Path, database_url: str, dialect: str, record_result: Callable[[Result], None]
) -> None:
    random, enough = Random(SEED), anyio.Event()
    with (
        running_s3() as server,
        fresh_bucket(server) as bucket,
        hints_of(server, bucket) as queue,
        overcommitted() as busy,
    ):
        async with faulty_s3(server, BAD_DAY, page_size=25, seed=SEED) as faulty, S3Writers(faulty, bucket) as writers:
            naive = NaivePoller(writers)
            async with watching(tmp_path, database_url, faulty, bucket, queue) as daemon:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(writers.write_until, enough)
                    tasks.start_soon(naive.poll_until, enough)
                    kills = await kill_again_and_again(daemon, random)
                    enough.set()
                await everything_is_told(daemon, writers)
                await daemon.kill()
                await daemon.start()
                await everything_is_told(daemon, writers)
                told = await told_by(daemon)
            final = await writers.listed()
            lost_naively = final - naive.seen
    log.info(
        "%d versions written, %d left; daemon killed %d times; pages %s; `LastModified > max` lost %d",
        writers.written, len(final), kills, dict(faulty.done), len(lost_naively),
    )  # fmt: skip
    record_result(
        Result(
            fault=f"SIGKILL, S3 on a bad day watched by 3{busy}",
            database=dialect,
            seed=SEED,
            times=kills + 1,
            files=len(WATCHERS) * writers.written,
            lost=sum(len(final - told[watcher].keys()) for watcher in WATCHERS),
            repeated=sum(told[watcher].total() - len(told[watcher]) for watcher in WATCHERS),
        )
    )
    for watcher in WATCHERS:
        repeated = {version: times for version, times in told[watcher].items() if times > 1}
        assert repeated == {}, watcher
        assert final - told[watcher].keys() == set(), watcher
        assert {version.etag for version in told[watcher]} <= writers.etags, watcher
    assert len(lost_naively) > 0, "the run is too tame"
    assert min(faulty.done[fault] for fault in ("whole", "late", "cut", "reset", "slow_down")) > 0


@contextmanager
def hints_of(server: S3Server, bucket: str) -> Iterator[str]:
    """A queue in which the bucket's server names what is written below in/; messages that were not deleted soon come again."""
    client = boto3.client(
        "sqs", endpoint_url=server.endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    url = client.create_queue(QueueName=uuid4().hex, Attributes={"VisibilityTimeout": "2"})["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    rules = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "in/"}]}}
    wanted = [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"], "Filter": rules}]
    server.client.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": wanted}
    )
    yield url
    client.close()


@asynccontextmanager
async def watching(folder: Path, database: str, faulty: FaultyS3, bucket: str, queue: str) -> AsyncIterator[Daemon]:
    port, configuration = free_port(), folder / "watchers.yaml"
    values = {"port": port, "database": database, "endpoint": faulty.endpoint, "bucket": bucket, "queue": queue}
    configuration.write_text(CONFIGURATION.substitute(values))
    async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
        yield daemon


class S3Writers:
    """Through the proxy, which keeps the times of uploads."""

    def __init__(self, faulty: FaultyS3, bucket: str) -> None:
        self._bucket = bucket
        self._client = boto3.client(
            "s3",
            endpoint_url=faulty.endpoint,
            region_name="us-east-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
            config=Config(retries={"total_max_attempts": 20}, max_pool_connections=50),
        )
        self._random = Random(SEED)
        self._keys: list[str] = []
        self.etags: set[str] = set()
        self.written = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()

    async def write_until(self, enough: anyio.Event) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._again_and_again, enough, self._burst, 0.4)
            tasks.start_soon(self._again_and_again, enough, self._overwrite, 0.5)
            for _ in range(4):
                tasks.start_soon(self._again_and_again, enough, self._upload, 0.5)

    async def _again_and_again(self, enough: anyio.Event, write: Any, longest_pause: float) -> None:
        while not enough.is_set():
            await write()
            await anyio.sleep(self._random.uniform(0, longest_pause))

    async def _burst(self) -> None:
        """Within the same second, most often."""
        for _ in range(self._random.randint(1, 5)):
            await self.put(self._new_key())

    async def _overwrite(self) -> None:
        if self._keys:
            await self.put(self._random.choice(self._keys))

    async def _upload(self) -> None:
        """It becomes visible long after the time it carries."""
        name = {"Bucket": self._bucket, "Key": self._new_key()}
        upload = (await run_sync(lambda: self._client.create_multipart_upload(**name)))["UploadId"]
        await anyio.sleep(self._random.uniform(1.1, LONGEST_UPLOAD))
        body = self._new_body()
        part = await run_sync(lambda: self._client.upload_part(**name, UploadId=upload, PartNumber=1, Body=body))
        parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
        done = await run_sync(
            lambda: self._client.complete_multipart_upload(**name, UploadId=upload, MultipartUpload=parts)
        )
        self._note(name["Key"], done["ETag"])

    async def put(self, key: str) -> None:
        body = self._new_body()
        done = await run_sync(lambda: self._client.put_object(Bucket=self._bucket, Key=key, Body=body))
        self._note(key, done["ETag"])

    async def listed(self) -> set[Version]:
        def pages() -> list[Any]:
            return [*self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket)]

        return {
            Version(item["Key"], item["ETag"].strip('"'), f"{item['LastModified']:%Y-%m-%dT%H:%M:%SZ}")
            for page in await run_sync(pages)
            for item in page.get("Contents", ())
        }

    def _new_key(self) -> str:
        return (
            f"in/{self._random.choice(ODD_NAMES)}/{self._random.getrandbits(32):08x} {self._random.choice(ODD_NAMES)}"
        )

    def _new_body(self) -> bytes:
        return uuid4().bytes

    def _note(self, key: str, etag: str) -> None:
        self._keys.append(key)
        self.etags.add(etag.strip('"'))
        self.written += 1


class NaivePoller:
    """`LastModified > max`, as most watchers do it; it is never killed."""

    def __init__(self, writers: S3Writers) -> None:
        self._writers = writers
        self._highest = ""
        self.seen: set[Version] = set()

    async def poll_until(self, enough: anyio.Event) -> None:
        while not enough.is_set():
            await self._poll()
            await anyio.sleep(0.3)
        await self._poll()

    async def _poll(self) -> None:
        new = {version for version in await self._writers.listed() if version.last_modified > self._highest}
        self.seen |= new
        self._highest = max((version.last_modified for version in new), default=self._highest)


async def kill_again_and_again(daemon: Daemon, random: Random) -> int:
    kills, until = 0, anyio.current_time() + SECONDS
    while anyio.current_time() < until:
        await anyio.sleep(random.uniform(0, 4))
        await daemon.kill()
        await daemon.start()
        kills += 1
    return kills


async def everything_is_told(daemon: Daemon, writers: S3Writers) -> None:
    """Nobody hints at these keys and they are listed first: the scan that finds the second one follows a whole one."""
    for _ in range(2):
        key = f"!{uuid4().hex}"
        await writers.put(key)
        async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
            with anyio.fail_after(PATIENCE):
                for watcher in WATCHERS:
                    while key not in await newest(client, watcher):
                        await anyio.sleep(0.1)


async def newest(client: httpx.AsyncClient, watcher: str) -> set[str]:
    page = await get(client, "/api/v2/assets/events", source_watcher=watcher, order_by="-timestamp", limit=PAGE)
    return {file["key"] for event in page["asset_events"] for file in event["extra"]["files"]}


async def told_by(daemon: Daemon) -> dict[str, Counter[Version]]:
    told = {watcher: Counter[Version]() for watcher in WATCHERS}
    events = 0
    async with httpx.AsyncClient(base_url=daemon.url, timeout=60) as client:
        while True:
            page = await get(client, "/api/v2/assets/events", order_by="timestamp", limit=PAGE, offset=events)
            for event in page["asset_events"]:
                files = event["extra"]["files"]
                assert len(files) == event["extra"]["count"]
                told[event["extra"]["watcher"]].update(
                    Version(file["key"], file["etag"], file["last_modified"]) for file in files
                )
            events += len(page["asset_events"])
            if events >= page["total_entries"]:
                return told
