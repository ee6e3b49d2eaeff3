"""Compares the cost of listing a bucket: ours beside aiobotocore's and boto3's paginators, in one run.

Another process serves made-up pages as AWS writes them, computed before anything is measured, so that only this process's
CPU is counted. Each reader runs in a process of its own, for its memory. `bytes only` is the lowest
possible cost: the same answers, read by the same HTTP client, not signed and not parsed.

    python bench/s3_listing.py [objects]
"""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from multiprocessing.connection import Connection
from urllib.parse import parse_qs, urlsplit

PAGE = 1000
PREFIX = "orders/2026/11/20/"
KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}


def body(first: int, objects: int) -> bytes:
    rows = "".join(
        f"<Contents><Key>{PREFIX}{number:09}-0f8fad5b-d9cb-469f.json</Key>"
        f"<LastModified>2026-11-{1 + number % 18:02}T10:{number // 60 % 60:02}:{number % 60:02}.000Z</LastModified>"
        f"<ETag>&quot;{number:032x}&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>"
        f"<ChecksumType>FULL_OBJECT</ChecksumType><Size>{number}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for number in range(first, min(first + PAGE, objects))
    )
    goes_on = first + PAGE < objects
    token = f"<NextContinuationToken>{first + PAGE}</NextContinuationToken>" if goes_on else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>landing</Name><Prefix>orders/</Prefix><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType>"
        f"<IsTruncated>{str(goes_on).lower()}</IsTruncated>{token}{rows}</ListBucketResult>"
    ).encode()


def serve(port: Connection, objects: int) -> None:
    pages = [body(first, objects) for first in range(0, objects, PAGE)]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                writer.close()
                return
            page = page_for(head.split(b" ", 2)[1].decode(), pages, objects)
            writer.write(
                b"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 10:00:00 GMT\r\nContent-Type: application/xml\r\n"
                b"Content-Length: %d\r\n\r\n" % len(page) + page
            )
            await writer.drain()

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def page_for(target: str, pages: list[bytes], objects: int) -> bytes:
    """Return the page of a request, also for a prefix with six digits of a number, which is exactly one page."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
    digits = query.get("prefix", "").partition(PREFIX)[2]
    if digits:
        first = int(digits) * PAGE
        return body(first, min(first + PAGE, objects))
    if "continuation-token" in query:
        return pages[int(query["continuation-token"]) // PAGE]
    after = query.get("start-after")
    return pages[0 if after is None else (int(after.removeprefix(PREFIX).partition("-")[0]) + 1) // PAGE]


async def bytes_only(endpoint: str, objects: int) -> AsyncIterator[int]:
    import aiohttp

    async with aiohttp.ClientSession() as http:
        for first in range(0, objects, PAGE):
            async with http.get(f"{endpoint}/landing?continuation-token={first}") as answer:
                await answer.read()
            yield min(PAGE, objects - first)


async def ours(endpoint: str, _objects: int, *, looks: int, **options: object) -> AsyncIterator[int]:
    """Measure the last of several polls: the first is the baseline, the second polls an unchanged bucket."""
    from triggers.base import TriggerContext
    from triggers.s3.connection import S3Connection
    from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions

    connection = S3Connection(endpoint_url=endpoint, region="us-east-1", access_key_id="a", secret_access_key="b")
    options_of_trigger = S3NewFilesOptions.model_validate({"bucket": "landing", "prefix": "orders/", **options})
    async with connection.open() as client:
        trigger = S3NewFiles(options_of_trigger, client, TriggerContext(watcher="w"))
        await client.list_page("landing", "", None)  # credentials and connection
        for look in range(looks):
            trigger.wake()
            async for batch in trigger.poll(None):
                assert not batch.events
                if look == looks - 1:
                    yield PAGE


async def aiobotocores(endpoint: str, _objects: int) -> AsyncIterator[int]:
    from aiobotocore.connection import AioSession

    async with AioSession().create_client("s3", endpoint_url=endpoint, region_name="us-east-1", **KEYS) as client:
        yield 0
        async for page in client.get_paginator("list_objects_v2").paginate(Bucket="landing", Prefix="orders/"):
            yield len(page["Contents"])


async def boto3s(endpoint: str, _objects: int) -> AsyncIterator[int]:
    import boto3

    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **KEYS)
    yield 0
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="landing", Prefix="orders/"):
        yield len(page["Contents"])


async def s3fss(endpoint: str, _objects: int) -> AsyncIterator[int]:
    import s3fs

    files = s3fs.S3FileSystem(key="a", secret="b", endpoint_url=endpoint, asynchronous=True, use_listings_cache=False)
    connection = await files.set_session()
    yield 0
    yield len(await files._find("landing/orders"))  # noqa: SLF001  how fsspec names its async methods
    await connection.close()


async def obstores(endpoint: str, _objects: int) -> AsyncIterator[int]:
    from obstore.store import S3Store

    store = S3Store(
        "landing",
        endpoint=endpoint,
        region="us-east-1",
        access_key_id="a",
        secret_access_key="b",
        client_options={"allow_http": True},
    )
    yield 0
    async for page in store.list("orders/", chunk_size=PAGE):
        yield len(page)


READERS: dict[str, Callable[[str, int], AsyncIterator[int]]] = {
    "bytes only": bytes_only,
    "window": lambda endpoint, objects: ours(endpoint, objects, looks=2),
    "window, match": lambda endpoint, objects: ours(endpoint, objects, looks=2, match="**/*.json"),
    "window, baseline": lambda endpoint, objects: ours(endpoint, objects, looks=1, match="**/*.json"),
    "strict": lambda endpoint, objects: ours(endpoint, objects, looks=2, mode="strict"),
    "strict, match": lambda endpoint, objects: ours(endpoint, objects, looks=2, mode="strict", match="**/*.json"),
    "strict, baseline": lambda endpoint, objects: ours(endpoint, objects, looks=1, mode="strict", match="**/*.json"),
    "obstore": obstores,
    "boto3": boto3s,
    "s3fs": s3fss,
    "aiobotocore": aiobotocores,
}
"""The readers. Each yields the number of objects read, first 0 or once it is warm. The clock starts at the first yield."""


def read(result: Connection, name: str, endpoint: str, objects: int) -> None:
    async def measured() -> tuple[float, int]:
        total, began = 0, None
        async for count in READERS[name](endpoint, objects):
            began = time.process_time() if began is None else began
            total += count
        assert began is not None
        return (time.process_time() - began), total

    base = memory()
    seconds, total = asyncio.run(measured())
    assert total >= objects, f"{name} read {total} of {objects}"
    result.send((seconds, memory() - base))


def memory() -> int:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measurements(objects: int) -> Iterator[tuple[str, float, int]]:
    spawn = multiprocessing.get_context("spawn")
    here, there = multiprocessing.Pipe()
    server = spawn.Process(target=serve, args=(there, objects), daemon=True)
    server.start()
    endpoint = f"http://127.0.0.1:{here.recv()}"
    try:
        for name in READERS:
            if name in ("s3fs", "obstore") and importlib.util.find_spec(name) is None:
                continue
            reader = spawn.Process(target=read, args=(there, name, endpoint, objects))
            reader.start()
            seconds, megabytes = here.recv()
            reader.join()
            yield name, seconds * 1_000_000 / objects, megabytes
    finally:
        server.terminate()


def main() -> None:
    objects = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    spent = {}
    print(f"{objects} objects")
    for name, seconds, megabytes in measurements(objects):
        spent[name] = seconds
        print(f"{name:18}{seconds:8.2f} CPU s per million objects {megabytes:6} MB more")
    for name in ("window", "strict"):
        print(f"{name} spends {spent['aiobotocore'] / spent[name]:.0f} times less CPU than aiobotocore's paginator")


if __name__ == "__main__":
    main()
