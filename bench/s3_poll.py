"""Measures the cost of polling a large unchanged bucket, and the time until a new file becomes an event.

First against made-up pages in another process: requests, bytes, CPU and database writes of an idle poll, of the whole
prefix and of the part to which a literal start of `match` narrows it. Then against moto with the real daemon: the time from
the end of a PUT to the event's commit, by polling alone and with `notifications`.

    python bench/s3_poll.py [objects]
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from string import Template
from typing import Any

import anyio
import boto3
import httpx
from s3_listing import PREFIX, serve

from triggers.base import StoredPosition, TriggerContext
from triggers.s3.connection import S3Connection
from triggers.s3.listing import S3Client
from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions
from watcher.features.demo.counting import PAGE, get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import ACCESS_KEY, REGION, SECRET_KEY, free_port, running_s3

FILES = 100
CONFIGURATION = Template("""\
version: 1
settings: {home: home, api: {port: $port, auth: none}, logs: {level: warning}}
connections:
  lake: {type: s3, endpoint_url: "$endpoint", region: us-east-1, access_key_id: a, secret_access_key: b}
assets:
  landing: {uri: "s3://landing", watchers: {files: {trigger: s3.new_files, connection: lake, $options}}}
""")


def main() -> None:
    objects = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with other_process(serve, objects) as port:
        endpoint = f"http://127.0.0.1:{port}"
        print(f"an idle poll, {objects} objects")
        for mode in ("window", "strict"):
            for match in ("**/*.json", f"{PREFIX.removeprefix('orders/')}{objects // 1000 - 1:06}*.json"):
                anyio.run(idle_poll, endpoint, mode, match)
    print(f"from PUT to event, {FILES} files")
    with other_process(serve_moto) as endpoint:
        for options in ("interval: 10s", "interval: 1s", 'interval: 10m, notifications: "$queue"'):
            anyio.run(latency, endpoint, options)


@contextmanager
def other_process(serve: Any, *arguments: Any) -> Iterator[Any]:
    spawn = multiprocessing.get_context("spawn")
    here, there = multiprocessing.Pipe()
    server = spawn.Process(target=serve, args=(there, *arguments), daemon=True)
    server.start()
    try:
        yield here.recv()
    finally:
        server.terminate()
        server.join()


async def idle_poll(endpoint: str, mode: str, match: str) -> None:
    connection = S3Connection(endpoint_url=endpoint, region="us-east-1", access_key_id="a", secret_access_key="b")
    options = {"bucket": "landing", "prefix": "orders/", "match": match, "mode": mode}
    async with connection.open() as client:
        trigger = S3NewFiles(S3NewFilesOptions.model_validate(options), client, TriggerContext(watcher="w"))
        await whole_poll(trigger, None)
        counted = Counted(client)
        began = time.process_time()
        writes = await whole_poll(trigger, None)
        spent = time.process_time() - began
    print(
        f"  {mode:8}{match:28}{counted.requests:6} requests{counted.bytes / 1e6:8.1f} MB"
        f"{spent:8.3f} CPU s{writes:4} database writes"
    )


async def whole_poll(trigger: S3NewFiles, position: StoredPosition | None) -> int:
    trigger.wake()
    return sum([batch.position is not None async for batch in trigger.poll(position)])


class Counted:
    """Counts what a client receives from now on."""

    def __init__(self, client: S3Client) -> None:
        self.requests = self.bytes = 0
        get_answer = client.requests._get  # noqa: SLF001  every answer passes here

        async def counted(*arguments: Any, **options: Any) -> Any:
            status, headers, body = await get_answer(*arguments, **options)
            self.requests += 1
            self.bytes += len(body)
            return status, headers, body

        client.requests._get = counted  # type: ignore[method-assign]  # noqa: SLF001


def serve_moto(port: Connection) -> None:
    with running_s3() as server:
        port.send(server.endpoint)
        time.sleep(3600)


async def latency(endpoint: str, options: str) -> None:
    keys = {"region_name": REGION, "aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    s3, sqs = (boto3.client(service, endpoint_url=endpoint, **keys) for service in ("s3", "sqs"))
    queue = sqs.create_queue(QueueName="hints")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    s3.create_bucket(Bucket="landing")
    queues = [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*"]}]
    s3.put_bucket_notification_configuration(
        Bucket="landing", NotificationConfiguration={"QueueConfigurations": queues}
    )
    with tempfile.TemporaryDirectory() as folder:
        configuration, port = Path(folder) / "watchers.yaml", free_port()
        values = {"port": port, "endpoint": endpoint, "options": Template(options).substitute(queue=queue)}
        configuration.write_text(CONFIGURATION.substitute(values))
        url = f"http://127.0.0.1:{port}"
        async with running_daemon(configuration, url, os.environ), httpx.AsyncClient(base_url=url) as client:
            await anyio.sleep(3)  # the baseline, and the work of a start
            written = {}
            for number in range(FILES):
                s3.put_object(Bucket="landing", Key=f"{options[:13]} {number}", Body=b"x")
                written[f"{options[:13]} {number}"] = time.time()
                await anyio.sleep(0.05 + number % 7 / 20)
            seen = await detected(client, set(written))
    taken = sorted(seen[key] - at for key, at in written.items())
    cuts = quantiles(taken, n=20)
    print(f"  {options:42}p50{cuts[9]:7.2f} s  p95{cuts[18]:7.2f} s  most{taken[-1]:7.2f} s")
    s3.close()
    sqs.close()


async def detected(client: httpx.AsyncClient, keys: set[str]) -> dict[str, float]:
    """Return the time at which the event of each key was committed."""
    seen: dict[str, float] = {}
    with anyio.fail_after(60):
        while not keys <= seen.keys():
            events = (await get(client, "/api/v2/assets/events", limit=PAGE, order_by="-timestamp"))["asset_events"]
            for event in events:
                at = datetime.fromisoformat(event["timestamp"]).timestamp()
                seen.update({file["key"]: at for file in event["extra"]["files"]})
            await anyio.sleep(0.5)
    return seen


if __name__ == "__main__":
    main()
