"""Typical writers, an S3 server with the habits of AWS, the real daemon, and SIGKILL.

Versions (key, ETag, LastModified) are counted in the asset events in the daemon's database. Each version in the bucket at the
end is in exactly one event of each watcher, and each version that was overwritten is in at most one. Objects are deleted only
once all watchers have emitted them, so a missed one is still there at the end. In the same run a watcher that remembers the
highest LastModified loses versions. The short form takes about half a minute; WATCHER_TEST_LONG=1 writes 100,000 versions, at
most 5,000 of which exist at a time.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random
from string import Template
from uuid import uuid4

import anyio
import boto3
import pytest
from anyio.to_thread import run_sync

from tests.effort import LONG, PATIENCE, SEED, effort
from tests.faulty_s3 import Faults, FaultyS3, faulty_s3
from tests.servers import S3Server, fresh_bucket
from tests.torture.busy import overcommitted
from tests.torture.object_server import hastened, running_object_server
from tests.torture.object_writers import NaivePoller, S3Writers, Version, s3_writers
from tests.torture.results import Result
from tests.torture.world import Metadata
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.service, pytest.mark.slow]

SECONDS, VERSIONS = effort(8, 600), effort(0, 100_000)
"""The writers continue at least this long, and until there are this many versions."""
WATCHERS = ("window", "strict", "hinted")
HINTED = "in/plain/" if LONG else "in/"
"""The prefix of keys that S3 notifies of. Not all, because looking each up costs the server more than everything else."""
BAD_DAY = Faults(late=0.1, cut=0.03, reset=0.03, slow_down=0.05)
FAULTS = ("whole", "late", "cut", "reset", "slow_down")
PAGE_SIZE = 250 if LONG else 25
OUT_OF_ORDER = 1_000
"""A number of events that is more than the daemon commits at a time."""
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


@pytest.mark.parametrize("dialect", ["sqlite", *(["postgresql"] if LONG else [])], indirect=True)
async def test_sigkill_at_any_moment_loses_and_repeats_no_version(
    tmp_path: Path, database_url: str, dialect: str, record_result: Callable[[Result], None]
) -> None:
    random, enough = Random(SEED), anyio.Event()
    with (
        running_object_server() as server,
        fresh_bucket(server) as bucket,
        hints_of(server, bucket) as queue,
        overcommitted() as busy,
    ):
        async with (
            faulty_s3(server, BAD_DAY, page_size=PAGE_SIZE, seed=SEED) as faulty,
            s3_writers(server.endpoint, faulty.endpoint, bucket) as writers,
        ):
            naive, books = NaivePoller(writers), Books(database_url)
            async with watching(tmp_path, database_url, faulty, bucket, queue) as daemon:
                with hastened() as usual:
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(slow_down, daemon, usual, enough)
                        tasks.start_soon(writers.write_until, enough)
                        tasks.start_soon(naive.poll_until, enough)
                        tasks.start_soon(delete_told_until, enough, writers, books)
                        kills = await kill_again_and_again(daemon, random, writers, books)
                        await all_of_it_happened(faulty, naive)
                        enough.set()
                await everything_is_told(books, writers)
                await daemon.kill()
                await daemon.start()
                await everything_is_told(books, writers)
            told = Books(database_url).update()
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
            files=writers.written,
            lost=sum(len(final - told[watcher].keys()) for watcher in WATCHERS),
            repeated=sum(told[watcher].total() - len(told[watcher]) for watcher in WATCHERS),
        )
    )
    for watcher in WATCHERS:
        repeated = {version: times for version, times in told[watcher].items() if times > 1}
        assert repeated == {}, watcher
        assert final - told[watcher].keys() == set(), watcher
        assert {version.etag for version in told[watcher]} <= writers.etags, watcher


async def all_of_it_happened(faulty: FaultyS3, naive: NaivePoller) -> None:
    """Wait until each fault struck and `LastModified > max` lost a version. Without them the run would be too tame."""
    with anyio.fail_after(PATIENCE):
        while not naive.missed or not all(faulty.done[fault] for fault in FAULTS):
            await anyio.sleep(0.1)


@contextmanager
def hints_of(server: S3Server, bucket: str) -> Iterator[str]:
    """Make a queue with notifications of keys below `HINTED`. Messages that are not deleted soon are delivered again."""
    client = boto3.client(
        "sqs", endpoint_url=server.endpoint, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
    )
    url = client.create_queue(QueueName=uuid4().hex, Attributes={"VisibilityTimeout": "2"})["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    rules = {"Key": {"FilterRules": [{"Name": "prefix", "Value": HINTED}]}}
    queues = [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"], "Filter": rules}]
    server.client.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"QueueConfigurations": queues}
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


class Books:
    """The versions that each watcher has emitted, read from the daemon's database beside it."""

    def __init__(self, database: str) -> None:
        self._metadata = Metadata(database)
        self._counted = set[int]()
        self.events = 0
        """A lower bound of the number of events of the daemon."""
        self.told: Mapping[str, Counter[Version]] = {watcher: Counter() for watcher in WATCHERS}
        self._etags: Mapping[str, set[tuple[str, str]]] = {watcher: set() for watcher in WATCHERS}

    def update(self) -> Mapping[str, Counter[Version]]:
        """Read the events committed since, including those that were committed out of order."""
        events = self._metadata.events_after(max(self._counted, default=0) - OUT_OF_ORDER)
        for number, watcher, extra in events:
            if number not in self._counted:
                assert len(extra["files"]) == extra["count"]
                versions = [Version(file["key"], file["etag"], file["last_modified"]) for file in extra["files"]]
                self.told[watcher].update(versions)
                self._etags[watcher].update((version.key, version.etag) for version in versions)
        self._counted = {number for number, _, _ in events}
        self.events = max(self._counted, default=0)
        return self.told

    def have(self, key: str, etag: str) -> bool:
        """Return whether each watcher has emitted this version."""
        return all((key, etag) in etags for etags in self._etags.values())


async def delete_told_until(enough: anyio.Event, writers: S3Writers, books: Books) -> None:
    while not enough.is_set():
        await run_sync(books.update)
        await writers.delete_told(books.have)
        await anyio.sleep(1)


async def slow_down(daemon: Daemon, priority: int, enough: anyio.Event) -> None:
    """Lower the daemon's priority from its first moment on, while it has only one thread."""
    while not enough.is_set():
        if daemon.process is not None and daemon.process.returncode is None:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, daemon.process.pid, priority)
        await anyio.sleep(0.05)


async def kill_again_and_again(daemon: Daemon, random: Random, writers: S3Writers, books: Books) -> int:
    """Kill the daemon while it starts or scans, or soon after it emitted something, or a busy machine would never emit."""
    kills, until = 0, anyio.current_time() + SECONDS
    while anyio.current_time() < until or writers.written < VERSIONS:
        events = books.events
        await anyio.sleep(random.uniform(0, 4))
        while LONG and kills % 2 and books.events == events:
            await anyio.sleep(0.1)
        await daemon.kill()
        await daemon.start()
        kills += 1
    return kills


async def everything_is_told(books: Books, writers: S3Writers) -> None:
    """Wait until every version is emitted. These keys have no hints and are listed first: a full scan precedes the second."""
    for _ in range(2):
        key = f"!{uuid4().hex}"
        etag = await writers.put(key)
        with anyio.fail_after(PATIENCE):
            while not books.have(key, etag):
                await anyio.sleep(0.3)
                await run_sync(books.update)
