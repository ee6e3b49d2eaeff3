"""S3 over HTTP with a front that records requests and can answer in the server's place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import formatdate
from typing import Any, TypeAlias

import aiohttp
import anyio
import pytest
import stamina
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from tests.servers import S3Server
from triggers.base import TriggerContext
from triggers.s3.connection import S3Connection
from triggers.s3.listing import S3Client
from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions

PASSED_ON = {"Authorization", "Content-Type", "X-Amz-Target", "If-Match"}
"""The headers by which moto tells SQS from S3, and the condition of a DELETE."""
SHOWN = {"date", "etag", "last-modified"}
"""The headers of responses that go through."""

Answerer: TypeAlias = Callable[[web.Request, bytes], web.Response | None]
"""Given the request and what the server answered: what to answer instead, if anything."""


@dataclass(kw_only=True)
class Front:
    """A proxy in front of an S3 server. `script` holds what to do with the next requests, first one first; else they pass."""

    endpoint: str
    script: list[Answerer] = field(default_factory=list)
    requests: list[web.Request] = field(default_factory=list)
    hangs: bool = False
    """Accept requests, and answer none of them until this is over."""


def error(status: int, code: str, message: str = "no", headers: dict[str, str] | None = None) -> Answerer:
    document = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return lambda _request, _body: web.Response(status=status, text=document, headers=headers)


def page(body: Callable[[bytes], bytes] = lambda body: body, *, date: str | None = None) -> Answerer:
    """Change the server's own page."""
    sent = {"Date": date or formatdate(usegmt=True), "Content-Type": "application/xml"}
    return lambda _request, original: web.Response(body=body(original), headers=sent)


@pytest.fixture
async def front(s3_server: S3Server) -> AsyncIterator[Front]:
    async with aiohttp.ClientSession(auto_decompress=False) as http:
        state = Front(endpoint="")
        server = TestServer(_application(state, http, s3_server))
        async with server:
            state.endpoint = str(server.make_url("")).rstrip("/")
            yield state


def _application(state: Front, http: aiohttp.ClientSession, behind: S3Server) -> web.Application:
    async def handle(request: web.Request) -> web.StreamResponse:
        state.requests.append(request)
        while state.hangs:
            await anyio.sleep(0.01)
        url = URL(behind.endpoint + request.raw_path, encoded=True)
        headers = {name: value for name, value in request.headers.items() if name in PASSED_ON}
        async with http.request(request.method, url, data=await request.read(), headers=headers) as answer:
            body = await answer.read()
            shown = {name: value for name, value in answer.headers.items() if name.lower() in SHOWN}
            passed = web.Response(status=answer.status, body=body, headers=shown)
        changed = state.script.pop(0)(request, body) if state.script else None
        return passed if changed is None else changed

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    return application


@pytest.fixture(autouse=True)
def _retries_do_not_wait() -> Iterator[None]:
    with stamina.set_testing(True, attempts=3):
        yield


@pytest.fixture
def connect(s3_server: S3Server) -> Callable[..., S3Connection]:
    """A connection to the test server; keyword arguments replace or (None) remove settings."""

    def made(**changed: Any) -> S3Connection:
        settings = {
            "type": "s3",
            "endpoint_url": s3_server.endpoint,
            "region": s3_server.region,
            "access_key_id": s3_server.access_key,
            "secret_access_key": s3_server.secret_key,
            **changed,
        }
        return S3Connection.model_validate({name: value for name, value in settings.items() if value is not None})

    return made


@pytest.fixture
async def client(connect: Callable[..., S3Connection]) -> AsyncIterator[S3Client]:
    async with connect().open() as opened:
        yield opened


@pytest.fixture
async def through_front(connect: Callable[..., S3Connection], front: Front) -> AsyncIterator[S3Client]:
    async with connect(endpoint_url=front.endpoint).open() as opened:
        yield opened


def new_files(
    client: S3Client,
    bucket: str,
    *,
    dry_run: bool = False,
    is_alone: bool = True,
    poll_timeout: timedelta = timedelta(minutes=5),
    manifests: Sequence[str] = (),
    **options: Any,
) -> S3NewFiles:
    """Make a trigger. `is_alone`: it polls by itself even if nothing changes."""
    wanted = S3NewFilesOptions.model_validate({"bucket": bucket, "interval": "1ms", **options})
    context = TriggerContext(
        watcher="w", dry_run=dry_run, is_alone=is_alone, poll_timeout=poll_timeout, manifests=manifests
    )
    return S3NewFiles(wanted, client, context)


Put: TypeAlias = Callable[..., None]


@pytest.fixture
def put(s3_server: S3Server, bucket: str) -> Put:
    def stored(*keys: str, body: bytes = b"x") -> None:
        for key in keys:
            s3_server.client.put_object(Bucket=bucket, Key=key, Body=body)

    return stored
