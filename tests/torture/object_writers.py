"""Writers that write, overwrite, upload and delete objects, and list the bucket: by plain HTTP, which costs little."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from html import unescape
from random import Random
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_plus
from uuid import uuid4
from xml.sax.saxutils import escape

import aiohttp
import anyio
from yarl import URL

from tests.effort import LONG, SEED

KEPT: Final = 1_000
"""The number of newest objects that are kept; older ones may be deleted once they were emitted."""
MOST_LYING: Final = 5_000
"""The writers wait while this many objects are in the bucket."""
MOST_DELETED: Final = 1_000
LARGEST_BURST, BURSTS, UPLOADS, LONGEST_UPLOAD = (40, 3, 12, 8.0) if LONG else (5, 1, 4, 4.0)
"""The last one is in seconds: an upload is shorter than the lateness by more than the second to which S3 rounds."""
ODD_NAMES: Final = [
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
OWNER: Final = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=a/20261122/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
}
"""The server distinguishes anonymous requests from others, and checks no signature."""
_ROW: Final = re.compile(r"<Key>(.*?)</Key><LastModified>(.*?)\.000Z</LastModified><ETag>(.*?)</ETag>")
_UPLOAD: Final = re.compile(r"<UploadId>(.*?)</UploadId>")
_ETAG: Final = re.compile(r"<ETag>(.*?)</ETag>")


class Version(NamedTuple):
    key: str
    etag: str
    last_modified: str


class S3Writers:
    """Writes objects. Uploads and lists go through the proxy, which keeps the times of uploads; the rest to the server."""

    def __init__(self, http: aiohttp.ClientSession, server: str, proxy: str, bucket: str) -> None:
        self._http, self._server, self._proxy = http, f"{server}/{bucket}", f"{proxy}/{bucket}"
        self._random = Random(SEED)
        self._lying: dict[str, str] = {}
        """The ETag of each key, the oldest first."""
        self._being_written: set[str] = set()
        self.etags: set[str] = set()
        self.written = 0

    async def write_until(self, enough: anyio.Event) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._again_and_again, enough, self._overwrite, 0.5)
            for _ in range(BURSTS):
                tasks.start_soon(self._again_and_again, enough, self._burst, 0.4)
            for _ in range(UPLOADS):
                tasks.start_soon(self._again_and_again, enough, self._upload, 0.5)

    async def _again_and_again(
        self, enough: anyio.Event, write: Callable[[], Awaitable[None]], longest_pause: float
    ) -> None:
        while not enough.is_set():
            if len(self._lying) < MOST_LYING:
                await write()
            await anyio.sleep(self._random.uniform(0, longest_pause))

    async def _burst(self) -> None:
        """Write several objects, usually within the same second."""
        for _ in range(self._random.randint(1, LARGEST_BURST)):
            await self.put(self._new_key())

    async def _overwrite(self) -> None:
        for _ in range(self._random.randint(1, LARGEST_BURST // 5)):
            free = [*self._lying.keys() - self._being_written]
            if free:
                await self.put(self._random.choice(free))

    async def put(self, key: str) -> str:
        """Write an object and return its ETag."""
        self._being_written.add(key)
        async with self._http.put(_url(self._server, key), data=uuid4().bytes) as response:
            response.raise_for_status()
            self._note(key, etag := response.headers["ETag"])
            return _bare(etag)

    async def _upload(self) -> None:
        """Make a multipart upload. The object becomes visible long after its LastModified."""
        url = _url(self._proxy, key := self._new_key())
        upload = _UPLOAD.findall(await self._text("POST", f"{url}?uploads"))[0]
        await anyio.sleep(self._random.uniform(1.1, LONGEST_UPLOAD))
        async with self._http.put(_encoded(f"{url}?partNumber=1&uploadId={upload}"), data=uuid4().bytes) as response:
            part = response.headers["ETag"]
        parts = f"<Part><ETag>{escape(part)}</ETag><PartNumber>1</PartNumber></Part>"
        document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
        self._note(key, _ETAG.findall(await self._text("POST", f"{url}?uploadId={upload}", document))[0])

    async def delete_told(self, told: Callable[[str, str], bool]) -> None:
        """Delete the oldest objects whose version is `told`. An object that is never emitted stays, and is found missing."""
        keys = [key for key in [*self._lying][: -KEPT or None] if key not in self._being_written]
        gone = [key for key in keys if told(key, self._lying[key])][:MOST_DELETED]
        if gone:
            self._being_written.update(gone)  # no other task deletes them from here on
            objects = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in gone)
            answer = await self._text(
                "POST", f"{self._server}?delete", f"<Delete><Quiet>true</Quiet>{objects}</Delete>"
            )
            assert "<Error>" not in answer, answer
            for key in gone:
                del self._lying[key]
            self._being_written.difference_update(gone)

    async def listed(self) -> set[Version]:
        rows, after = list[tuple[str, str, str]](), ""
        while True:
            page = await self._page(after)
            rows += _ROW.findall(page)
            if "<IsTruncated>true" not in page:
                break
            after = rows[-1][0]
        return {Version(unquote_plus(key), _bare(etag), f"{at}Z") for key, at, etag in rows}

    async def _page(self, after: str) -> str:
        """Request a page until it arrives complete."""
        query = f"list-type=2&max-keys=1000&encoding-type=url&start-after={after}"
        while True:
            try:
                page = await self._text("GET", f"{self._proxy}?{query}")
            except aiohttp.ClientError:
                continue
            if page.endswith("</ListBucketResult>"):
                return page

    async def _text(self, method: str, url: str, body: str = "") -> str:
        async with self._http.request(method, _encoded(url), data=body.encode()) as response:
            return (await response.read()).decode(errors="replace")  # a truncated page may end within a character

    def _new_key(self) -> str:
        return (
            f"in/{self._random.choice(ODD_NAMES)}/{self._random.getrandbits(32):08x} {self._random.choice(ODD_NAMES)}"
        )

    def _note(self, key: str, etag: str) -> None:
        self._lying.pop(key, None)
        self._lying[key] = _bare(etag)
        self._being_written.discard(key)
        self.etags.add(_bare(etag))
        self.written += 1


@asynccontextmanager
async def s3_writers(server: str, proxy: str, bucket: str) -> AsyncIterator[S3Writers]:
    timeout = aiohttp.ClientTimeout(total=300)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector, headers=OWNER) as http:
        yield S3Writers(http, server, proxy, bucket)


class NaivePoller:
    """Polls with `LastModified > max`, as most watchers do. It is never killed."""

    def __init__(self, writers: S3Writers) -> None:
        self._writers = writers
        self._highest = ""
        self.seen: set[Version] = set()
        self.missed: set[Version] = set()
        """Versions at or below the highest time that it has seen, which it will never see."""

    async def poll_until(self, enough: anyio.Event) -> None:
        while not enough.is_set():
            await self._poll()
            await anyio.sleep(2 if LONG else 0.3)
        await self._poll()

    async def _poll(self) -> None:
        listed = await self._writers.listed()
        self.missed = {version for version in listed if version.last_modified <= self._highest} - self.seen
        new = {version for version in listed if version.last_modified > self._highest}
        self.seen |= new
        self._highest = max((version.last_modified for version in new), default=self._highest)


def _url(bucket: str, key: str) -> URL:
    return _encoded(f"{bucket}/{quote(key)}")


def _encoded(url: str) -> URL:
    return URL(url, encoded=True)


def _bare(etag: str) -> str:
    return unescape(etag).strip('"')
