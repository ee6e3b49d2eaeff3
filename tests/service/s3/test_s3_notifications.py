"""Hints: keys that S3 names in a queue are looked up at once, and the messages are never believed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel
import boto3
import pytest
import structlog

from tests.effort import PATIENCE
from tests.servers import S3Server
from tests.service.s3.conftest import Front, Put, error, new_files, page
from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import IncrementalTrigger, TriggerBatch
from triggers.s3.connection import S3Connection
from triggers.s3.failures import S3Refused
from triggers.s3.listing import S3Client

pytestmark = pytest.mark.service

KEY = "in/a b+c%41ü"


@dataclass(frozen=True, kw_only=True)
class TestQueue:
    __test__ = False
    url: str
    arn: str
    client: Any

    def send(self, body: str) -> None:
        self.client.send_message(QueueUrl=self.url, MessageBody=body)

    def name(self, *keys: str) -> None:
        """Send a notification as S3 does, whether it is true or not."""
        for key in keys:
            self.send(json.dumps({"Records": [{"s3": {"bucket": {"name": "b"}, "object": {"key": key}}}]}))

    def count(self, kind: str) -> int:
        """Count the messages. `kind`: '' for those that wait, NotVisible for those that were taken or hidden."""
        name = f"ApproximateNumberOfMessages{kind}"
        answer = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=[name])
        return int(answer["Attributes"][name])

    @property
    def is_empty(self) -> bool:
        return self.count("") + self.count("NotVisible") == 0


AwsClient = Callable[[str], Any]


@pytest.fixture
def aws(s3_server: S3Server) -> Iterator[AwsClient]:
    """Open a client of another service of the test server."""
    made = []

    def client(service: str) -> Any:
        keys = {"aws_access_key_id": s3_server.access_key, "aws_secret_access_key": s3_server.secret_key}
        made.append(boto3.client(service, endpoint_url=s3_server.endpoint, region_name=s3_server.region, **keys))
        return made[-1]

    yield client
    for each in made:
        each.close()


@pytest.fixture
def queue(aws: AwsClient) -> Iterator[TestQueue]:
    client = aws("sqs")
    url = client.create_queue(QueueName=f"test-{uuid4().hex}")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    yield TestQueue(url=url, arn=arn, client=client)
    client.delete_queue(QueueUrl=url)


def by_s3(_aws: AwsClient, queue: TestQueue) -> dict[str, Any]:
    return {"QueueConfigurations": [{"QueueArn": queue.arn, "Events": ["s3:ObjectCreated:*"]}]}


def by_sns(aws: AwsClient, queue: TestQueue) -> dict[str, Any]:
    sns = aws("sns")
    topic = sns.create_topic(Name=uuid4().hex)["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue.arn)
    return {"TopicConfigurations": [{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}]}


def by_eventbridge(aws: AwsClient, queue: TestQueue) -> dict[str, Any]:
    events, rule = aws("events"), uuid4().hex
    events.put_rule(Name=rule, EventPattern='{"source": ["aws.s3"]}')
    events.put_targets(Rule=rule, Targets=[{"Id": "1", "Arn": queue.arn}])
    return {"EventBridgeConfiguration": {}}


def keys(host: DictHost) -> list[str]:
    return [file["key"] for file in host.files]


async def gone(queue: TestQueue) -> None:
    """Wait for the deletion, which follows the commit without a signal."""
    with anyio.fail_after(PATIENCE):
        while not queue.is_empty:
            await anyio.sleep(0.01)


@pytest.mark.parametrize("way", [by_s3, by_sns, by_eventbridge])
async def test_an_object_named_by_a_notification_is_found_without_a_scan(
    through_front: S3Client,
    front: Front,
    bucket: str,
    put: Put,
    queue: TestQueue,
    aws: AwsClient,
    s3_server: S3Server,
    way: Callable[[AwsClient, TestQueue], dict[str, Any]],
) -> None:
    s3_server.client.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=way(aws, queue))
    host = DictHost()
    trigger = new_files(through_front, bucket, prefix="in/", interval="1h", notifications=queue.url)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.run_for_ever, trigger)
        await host.until(lambda: host.polls > 0)
        scans = len(front.requests)
        await anyio.to_thread.run_sync(put, KEY, "out/of/sight")
        await host.until(lambda: bool(host.files))
        await gone(queue)
        tasks.cancel_scope.cancel()
    assert keys(host) == [KEY]
    assert {request.query["prefix"] for request in front.requests[scans:]} == {KEY}


async def test_a_hint_changes_nothing_for_the_scans(client: S3Client, bucket: str, put: Put, queue: TestQueue) -> None:
    host = DictHost()
    trigger = new_files(client, bucket, interval="1h", notifications=queue.url)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.run_for_ever, trigger)
        await host.until(lambda: host.polls > 0)
        before = host.stored
        put("b")
        queue.name("b", "b", "nothing/there")
        await host.until(lambda: bool(host.files))
        after = host.stored
        put("a")
        trigger.wake()
        await host.until(lambda: len(host.files) > 1)
        await gone(queue)
        tasks.cancel_scope.cancel()
    assert before is not None
    assert after is not None
    assert after.state == before.state
    assert len(after.rows) == 1
    assert keys(host) == ["b", "a"]
    watermarks = [event.watermark for event in host.events]
    assert watermarks[0]["from"] == watermarks[0]["to"] == watermarks[1]["from"], "a hint moves no watermark"


async def whole_poll(batches: AsyncGenerator[TriggerBatch, None]) -> list[TriggerBatch]:
    polled = [await anext(batches)]
    while polled[-1].position is not None:
        polled.append(await anext(batches))
    return polled


async def test_scans_go_on_while_hints_never_end(client: S3Client, bucket: str, put: Put, queue: TestQueue) -> None:
    trigger = new_files(client, bucket, interval="1ms", notifications=queue.url)
    async with aclosing(trigger.events(None)) as batches:
        await whole_poll(batches)
        put("nobody tells of this")
        while anyio.current_time() < trigger._scan_at:
            await anyio.lowlevel.checkpoint()
        IncrementalTrigger.wake(trigger)  # as a hint does
        assert [batch.events for batch in await whole_poll(batches) if batch.events]


async def test_a_poll_that_only_looks_up_hints_does_not_count_as_whole(
    client: S3Client, bucket: str, put: Put, queue: TestQueue
) -> None:
    trigger = new_files(client, bucket, interval="1h", notifications=queue.url)
    async with aclosing(trigger.events(None)) as batches:
        assert (await whole_poll(batches))[-1].whole_since is not None
        put("a")
        queue.name("a")
        hinted = await whole_poll(batches)
        assert [batch.events for batch in hinted if batch.events]
        assert hinted[-1].whole_since is None
        trigger.wake()
        assert (await whole_poll(batches))[-1].whole_since is not None


async def test_messages_stay_until_the_commit(client: S3Client, bucket: str, put: Put, queue: TestQueue) -> None:
    trigger = new_files(client, bucket, interval="1h", notifications=queue.url)
    batches = trigger.events(None)
    try:
        with anyio.fail_after(PATIENCE):
            while (await anext(batches)).position is not None:  # the baseline
                pass
            put("a")
            queue.name("a")
            while not (await anext(batches)).events:
                pass
            assert not queue.is_empty, "not committed yet"
            await anext(batches)
            assert queue.is_empty
    finally:
        await batches.aclose()


async def test_an_unreadable_message_is_logged_and_hidden_and_the_next_is_read(
    client: S3Client, bucket: str, put: Put, queue: TestQueue
) -> None:
    host = DictHost()
    trigger = new_files(client, bucket, interval="1h", notifications=queue.url)
    with structlog.testing.capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.run_for_ever, trigger)
            await host.until(lambda: host.polls > 0)
            queue.send("what is this?")
            put("a")
            queue.name("a")
            await host.until(lambda: bool(host.files))
            with anyio.fail_after(PATIENCE):
                while queue.count("NotVisible") != 1:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    (line,) = [line for line in logs if line["event"] == "s3.notification_unreadable"]
    assert (line["watcher"], line["body"]) == ("w", "what is this?")
    assert queue.count("") == 0, "nobody gets it for an hour, and nobody deleted it"
    assert keys(host) == ["a"]


async def test_nothing_is_taken_from_the_queue_during_a_baseline(
    client: S3Client, bucket: str, put: Put, queue: TestQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 1)
    put("a", "b", "c")
    queue.name("a")
    host = DictHost()
    trigger = new_files(client, bucket, interval="1h", notifications=queue.url)
    batches = trigger.events(None)
    seen = []
    try:
        with anyio.fail_after(PATIENCE):
            async for batch in batches:
                if batch.position is not None:
                    host.commit(batch.position)
                    seen.append((host.stored.state["baseline"] is None, queue.count("")))  # type: ignore[union-attr]
                else:
                    break
    finally:
        await batches.aclose()
    assert {waiting for over, waiting in seen if not over} == {1}


async def test_hints_are_looked_up_between_the_pages_of_a_scan(
    client: S3Client, bucket: str, put: Put, queue: TestQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 1)
    names = [f"k{number}" for number in range(9)]
    host = DictHost()
    trigger = new_files(client, bucket, start="all", interval="1h", notifications=queue.url)
    put(*names)
    queue.name("k8")
    batches = trigger.events(None)
    try:
        async for batch in batches:
            assert batch.position is not None
            host.commit(batch.position, batch.events)
            if "k8" not in keys(host):  # the message may come now, and does before its page
                with anyio.move_on_after(0.05 if len(host.files) < len(names) - 2 else PATIENCE):
                    while not trigger._is_woken:
                        await anyio.sleep(0.005)
            if len(host.files) == len(names):
                break
    finally:
        await batches.aclose()
    assert sorted(keys(host)) == names
    assert keys(host) != names, "k8 came before its turn"


async def test_a_message_older_than_the_last_scan_costs_no_look_up(
    through_front: S3Client, front: Front, bucket: str, put: Put, queue: TestQueue
) -> None:
    put("a")
    queue.name("a")
    front.script += [page(date="Tue, 31 Dec 2999 00:00:00 GMT")] * 4
    host = DictHost()
    trigger = new_files(through_front, bucket, start="all", interval="1h", notifications=queue.url)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.run_for_ever, trigger)
        await gone(queue)
        tasks.cancel_scope.cancel()
    assert keys(host) == ["a"]
    assert {request.query["prefix"] for request in front.requests} == {""}


async def test_only_the_named_object_is_looked_at(client: S3Client, bucket: str, put: Put) -> None:
    put("ab", "b")
    pages = await client.look_up(bucket, ["a", "b", "c"])
    assert [page.key(row) for page, _ in pages for row in page.rows] == ["b"]


async def test_a_failing_look_up_fails_the_watcher(client: S3Client) -> None:
    with pytest.raises(S3Refused, match="NoSuchBucket"):
        await client.look_up("nowhere", ["a", "b"])


async def test_a_key_is_left_to_the_scans_if_only_its_look_up_is_refused(
    through_front: S3Client, front: Front, bucket: str, put: Put, queue: TestQueue
) -> None:
    """The server refuses requests as a policy does that allows to list only the prefix that is scanned."""
    host = DictHost()
    trigger = new_files(through_front, bucket, prefix="in/", interval="1h", notifications=queue.url)
    with structlog.testing.capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.run_for_ever, trigger)
            await host.until(lambda: host.polls > 0)
            front.script.append(error(403, "AccessDenied"))
            put("in/a")
            queue.name("in/a")
            await gone(queue)
            trigger.wake()
            await host.until(lambda: bool(host.files))
            tasks.cancel_scope.cancel()
    assert keys(host) == ["in/a"]
    assert [request.query["prefix"] for request in front.requests[-3:]] == ["in/a", "in/", "in/"]
    (line,) = [line for line in logs if line["event"] == "s3.look_up_refused"]
    assert line["error"].startswith("AccessDenied")


async def test_half_of_a_character_stops_no_watcher(client: S3Client, bucket: str, put: Put, queue: TestQueue) -> None:
    host = DictHost()
    trigger = new_files(client, bucket, interval="1h", notifications=queue.url)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.run_for_ever, trigger)
        await host.until(lambda: host.polls > 0)
        queue.send(json.dumps({"detail": {"object": {"key": "\ud800"}}}))
        put("a")
        queue.name("a")
        await host.until(lambda: bool(host.files))
        tasks.cancel_scope.cancel()
    assert keys(host) == ["a"]


async def test_a_dry_run_takes_nothing(client: S3Client, bucket: str, queue: TestQueue) -> None:
    queue.name("a")
    trigger = new_files(client, bucket, dry_run=True, notifications=queue.url)
    await DictHost().run(trigger, polls=3)
    assert trigger._queue is None
    assert queue.count("") == 1


async def test_a_watcher_that_lost_its_queue_goes_on_by_polling(
    client: S3Client, bucket: str, put: Put, queue: TestQueue
) -> None:
    trigger = new_files(client, bucket, start="all", notifications=f"{queue.url}-absent")
    found = {finding.check: finding for finding in await trigger.check()}
    assert found["notifications"].level == "warning"
    assert "files are found by polling" in found["notifications"].remedy
    put("a")
    host = DictHost()
    with structlog.testing.capture_logs() as logs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.run_for_ever, trigger)
            await host.until(lambda: any(line["event"] == "s3.notifications_lost" for line in logs))
            put("b")
            await host.until(lambda: len(host.files) == 2)
            tasks.cancel_scope.cancel()
    assert keys(host) == ["a", "b"]


async def test_a_queue_that_is_there_is_found_ok(client: S3Client, bucket: str, queue: TestQueue) -> None:
    found = {
        finding.check: finding.level for finding in await new_files(client, bucket, notifications=queue.url).check()
    }
    assert found["notifications"] == "ok"


async def test_an_anonymous_connection_cannot_read_a_queue(
    connect: Callable[..., S3Connection], bucket: str, queue: TestQueue
) -> None:
    async with connect(access_key_id=None, secret_access_key=None, anonymous=True).open() as client:
        found = {finding.check: finding for finding in await new_files(client, bucket, notifications=queue.url).check()}
    assert found["notifications"].level == "warning"
    assert "anonymous" in found["notifications"].message
