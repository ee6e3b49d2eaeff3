"""An S3 server with AWS's habits and its bad days: a proxy in front of moto.

Habits: a multipart object is listed with the time at which its upload was initiated, and a page holds few keys. Bad days:
pages come late, cut, not at all, or as 503 SlowDown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from random import Random
from typing import Final
from urllib.parse import unquote, unquote_plus

import aiohttp
import anyio
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from tests.servers import S3Server

_DROPPED: Final = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect"}
_CONTENTS: Final = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
_KEY: Final = re.compile(rb"<Key>(.*?)</Key>", re.DOTALL)
_ETAG: Final = re.compile(rb"<ETag>(.*?)</ETag>")
_MODIFIED: Final = re.compile(rb"<LastModified>.*?</LastModified>")
_UPLOAD: Final = re.compile(rb"<UploadId>(.*?)</UploadId>")
_SLOW_DOWN: Final = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


@dataclass(frozen=True, kw_only=True)
class Faults:
    """The probability, from 0 to 1, of each fault in a listed page."""

    late: float = 0.0
    cut: float = 0.0
    reset: float = 0.0
    slow_down: float = 0.0
    longest_delay: float = 0.5
    """The longest delay of a late page, in seconds. Its content is from before the delay."""


@dataclass(kw_only=True)
class FaultyS3:
    """The settings of the proxy and its counts. Change `faults` at any time."""

    faults: Faults
    page_size: int
    random: Random
    endpoint: str = ""
    skew: Callable[[], float] = lambda: 0.0
    """Returns the seconds by which the next page's Date is wrong."""
    page: Callable[[bytes], bytes] = bytes
    """Changes each listed page."""
    content: Callable[[], Hashable] = lambda: None
    """Returns what is equal while nothing in the buckets changes: what was listed then is not asked for again. None: it is."""
    done: Counter[str] = field(default_factory=Counter)
    """The number of pages by fault."""

    def choose(self) -> str:
        dice = self.random.random()
        for name in ("late", "cut", "reset", "slow_down"):
            dice -= getattr(self.faults, name)
            if dice < 0:
                return name
        return "whole"


@asynccontextmanager
async def faulty_s3(behind: S3Server, faults: Faults, *, page_size: int, seed: int) -> AsyncIterator[FaultyS3]:
    state = FaultyS3(faults=faults, page_size=page_size, random=Random(seed))
    async with aiohttp.ClientSession(auto_decompress=False) as http:
        proxy = _Proxy(state, http, behind.endpoint)
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        server = TestServer(application)
        async with server:
            state.endpoint = str(server.make_url("")).rstrip("/")
            yield state


class _Proxy:
    def __init__(self, state: FaultyS3, http: aiohttp.ClientSession, behind: str) -> None:
        self._state = state
        self._http = http
        self._behind = behind
        self._begun: dict[str, bytes] = {}
        """The time at which each upload was initiated."""
        self._initiated: dict[tuple[str, str, str], bytes] = {}
        """The time at which a completed upload was initiated, by bucket, key and ETag of the object."""
        self._completing = anyio.Lock()
        self._listed: dict[str, tuple[Hashable, web.Response]] = {}
        """The last answers, each with what the buckets held when it was asked for."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        if request.method == "GET" and query.get("list-type") == "2":
            return await self._list(request)
        if request.method == "POST" and "uploads" in query:
            return await self._initiate(request)
        if request.method == "POST" and "uploadId" in query:
            return await self._complete(request)
        return await self._pass(request, request.raw_path)

    async def _pass(self, request: web.Request, path: str) -> web.Response:
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _DROPPED]
        url = URL(self._behind + path, encoded=True)
        async with self._http.request(request.method, url, data=await request.read(), headers=headers) as answer:
            body = await answer.read()
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _DROPPED}
            return web.Response(status=answer.status, body=body, headers=kept)

    async def _initiate(self, request: web.Request) -> web.Response:
        answer = await self._pass(request, request.raw_path)
        found = _UPLOAD.search(_body(answer))
        assert found is not None
        date = parsedate_to_datetime(answer.headers["Date"]).astimezone(UTC)
        self._begun[found[1].decode()] = f"{date:%Y-%m-%dT%H:%M:%S.000Z}".encode()
        return answer

    async def _complete(self, request: web.Request) -> web.Response:
        async with self._completing:  # no listing shows the object before the time of its upload is known
            answer = await self._pass(request, request.raw_path)
            found = _ETAG.search(_body(answer))
            assert found is not None, _body(answer)
            bucket, _, key = unquote(request.raw_path.partition("?")[0].removeprefix("/")).partition("/")
            self._initiated[bucket, key, _bare(found[1])] = self._begun.pop(request.query["uploadId"])
        return answer

    async def _list(self, request: web.Request) -> web.StreamResponse:
        asked = int(request.query.get("max-keys", "1000"))
        path = request.raw_path.replace(f"max-keys={asked}", f"max-keys={min(asked, self._state.page_size)}")
        async with self._completing:
            answer = await self._listing(request, path)
        bucket = request.path.removeprefix("/").partition("/")[0]
        body = _CONTENTS.sub(lambda row: self._as_initiated(bucket, row[0]), _body(answer))
        return await self._sent(request, answer, self._state.page(body))

    async def _listing(self, request: web.Request, path: str) -> web.Response:
        content = self._state.content()
        known, answer = self._listed.get(path, (None, None))
        if content is None:
            return await self._pass(request, path)
        if answer is not None and known == content:
            answer.headers["Date"] = format_datetime(datetime.now(UTC), usegmt=True)
            return answer
        answer = await self._pass(request, path)
        self._listed[path] = content, answer
        return answer

    def _as_initiated(self, bucket: str, row: bytes) -> bytes:
        key, etag = _KEY.search(row), _ETAG.search(row)
        assert key is not None
        assert etag is not None
        initiated = self._initiated.get((bucket, unquote_plus(key[1].decode()), _bare(etag[1])))
        return row if initiated is None else _MODIFIED.sub(b"<LastModified>%b</LastModified>" % initiated, row)

    async def _sent(self, request: web.Request, answer: web.Response, body: bytes) -> web.Response:
        fault = self._state.choose()
        self._state.done[fault] += 1
        match fault:
            case "late":
                await anyio.sleep(self._state.random.uniform(0, self._state.faults.longest_delay))
            case "cut":
                body = body[: self._state.random.randrange(len(body))]
            case "reset":
                assert request.transport is not None
                request.transport.abort()
            case "slow_down":
                return web.Response(status=503, text=_SLOW_DOWN)
        date = parsedate_to_datetime(answer.headers["Date"]) + timedelta(seconds=self._state.skew())
        headers = {**answer.headers, "Date": format_datetime(date, usegmt=True)}
        return web.Response(status=answer.status, body=body, headers=headers)


def without_etags(page: bytes) -> bytes:
    """Remove the ETags from a page, as gateways do that have none."""
    return _ETAG.sub(b"", page)


def _body(answer: web.Response) -> bytes:
    assert isinstance(answer.body, bytes)
    return answer.body


def _bare(etag: bytes) -> str:
    return etag.decode().replace("&quot;", "").strip('"')
