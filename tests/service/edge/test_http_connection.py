"""Slow, endless and incomplete requests on a real socket are refused with a sentence or closed, and other clients are unaffected."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from tests.effort import PATIENCE
from watcher.serving.edge.connections import ConnectionLimits
from watcher.serving.edge.headers import SECURITY_HEADERS
from watcher.serving.edge.http_connection import LONGEST_TARGET, MOST_HEADERS
from watcher.serving.http_server import listen, serve

SOON = timedelta(milliseconds=200)
HEAD = b"POST /read HTTP/1.1\r\nHost: x\r\n"


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def sentence(self) -> str:
        return str(json.loads(self.body)["detail"])


class Server:
    """A server whose application reads bodies (`/read`), does not (`/ignore`), waits (`/hold`) or sends a lot (`/talk`)."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.held, self.release = 0, anyio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        size = 0
        if scope["path"] == "/read":
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                size, more = size + len(message["body"]), message["more_body"]
        elif scope["path"] == "/hold":
            self.held += 1
            await self.release.wait()
        body = b"x" * 50_000_000 if scope["path"] == "/talk" else json.dumps([size, scope["client"][0]]).encode()
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": body})

    async def connect(self, local: str = "127.0.0.1") -> SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self.port, local_host=local)

    async def get(self, path: str = "/read", local: str | None = None, **headers: str) -> list[Any]:
        transport = httpx.AsyncHTTPTransport(local_address=local)
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE) as client:
            answer = await client.get(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        assert answer.status_code == 200
        shown: list[Any] = answer.json()
        return shown


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[Server]:
    with listen("127.0.0.1", 0) as bound:
        async with anyio.create_task_group() as tasks:
            server = Server(bound.getsockname()[1])
            await tasks.start(partial(serve, server, bound, ConnectionLimits(**limits)))
            yield server
            server.release.set()
            tasks.cancel_scope.cancel()


async def rest_of(stream: SocketStream) -> bytes:
    """Return the data until the connection is closed in any way."""
    received = b""
    try:
        with anyio.fail_after(PATIENCE):
            while True:
                received += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return received


async def answer_of(stream: SocketStream) -> Answer:
    head, _, body = (await rest_of(stream)).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)


Sender = Callable[[SocketStream], Awaitable[None]]


async def without_end(stream: SocketStream, begin: bytes, more: bytes) -> None:
    """Send until the server no longer reads."""
    try:
        await stream.send(begin)
        for _ in range(20_000):
            await stream.send(more)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


REFUSED: dict[str, tuple[bytes, bytes, int, str]] = {
    "an endless header": (b"GET / HTTP/1.1\r\nX: ", b"a" * 65536, 431, "are larger than 64000 bytes"),
    "an endless name of a header": (b"GET / HTTP/1.1\r\n", b"a" * 65536, 431, "are larger than 64000 bytes"),
    "an endless address": (b"GET /", b"a" * 65536, 414, f"is longer than {LONGEST_TARGET} bytes"),
    "too many headers": (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 1000, 431, f"more than {MOST_HEADERS} headers"),
    "empty lines without end": (b"", b"\r\n" * 5000, 431, "are larger than 64000 bytes"),
    "trailers": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
        b"a: b\r\n",
        400,
        "trailers after a body are not supported",
    ),
    "an endless trailer": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ",
        b"a" * 65536,
        400,
        "chunks hold no data",
    ),
    "a chunk's endless extension": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;a=",
        b"a" * 65536,
        400,
        "chunks hold no data",
    ),
    "no HTTP": (b"\x16\x03\x01 hello", b"?" * 100, 400, "Invalid HTTP request received; send HTTP/1.1"),
    "two lengths": (
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        b"0\r\n\r\n",
        400,
        "Invalid HTTP request",
    ),
}


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.mark.parametrize("case", REFUSED)
async def test_too_much_is_refused_with_a_sentence_and_closed(server: Server, case: str) -> None:
    begin, more, status, sentence = REFUSED[case]
    async with await server.connect() as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(without_end, stream, begin, more)
        answer = await answer_of(stream)
        tasks.cancel_scope.cancel()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert sentence in answer.sentence
    shown = {name.decode(): value.decode().lower() for name, value in SECURITY_HEADERS.items()}
    assert shown.items() <= answer.headers.items()


async def test_a_head_just_below_the_limit_is_answered(server: Server) -> None:
    headers = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 630) for number in range(MOST_HEADERS - 3))
    async with await server.connect() as stream:
        await stream.send(HEAD + headers + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi")
        assert (await answer_of(stream)).body == b'[2, "127.0.0.1"]'


async def test_a_request_sent_byte_by_byte_in_time_is_answered(server: Server) -> None:
    async with await server.connect() as stream:
        for byte in HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\nhi":
            await stream.send(bytes([byte]))
        assert (await answer_of(stream)).body == b'[2, "127.0.0.1"]'


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_body_of_an_answer_does_not_wait_until_its_head_is_acknowledged(host: str) -> None:
    """Clients delay this acknowledgement: with Nagle's algorithm, the default, each request on a kept connection took 40 ms."""
    accepted: asyncio.Queue[asyncio.BaseTransport] = asyncio.Queue()

    class Accepting(asyncio.Protocol):
        connection_made = staticmethod(accepted.put_nowait)  # type: ignore[assignment]

    with listen(host, 0) as bound:
        server = await asyncio.get_running_loop().create_server(Accepting, sock=bound)
        async with await anyio.connect_tcp(host, bound.getsockname()[1]):
            transport = await accepted.get()
            assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            transport.close()
        server.close()


async def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    one = HEAD + b"Content-Length: 1\r\n\r\nx"
    last = HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\nxx"
    async with await server.connect() as stream:
        await stream.send(one * 5 + last)
        received = await rest_of(stream)
    assert [received.count(b'[1, "127.0.0.1"]'), received.count(b'[2, "127.0.0.1"]')] == [5, 1]


async def test_an_answer_before_the_end_of_the_body_reaches_its_client(server: Server) -> None:
    """The answer also arrives if the connection ends with it. Closing at once would reset the connection while the client sends."""
    for more in (b"", b"Connection: close\r\n"):
        async with await server.connect() as stream:
            await stream.send(b"POST /ignore HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n" + more + b"\r\n")
            await stream.send(b"x" * 2_000_000)
            await stream.send(b"x" * 1_000_000)
            assert (await answer_of(stream)).body == b'[0, "127.0.0.1"]'


LATE: dict[str, tuple[bytes, int | None, str]] = {
    "nothing": (b"", None, ""),
    "half a request line": (b"GET /", 408, "the headers took too long"),
    "half a header": (HEAD, 408, "the headers took too long"),
    "half a body": (HEAD + b"Content-Length: 5\r\n\r\nabc", 408, "the body took too long"),
    "half a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", 408, "the body took too long"),
}


@pytest.fixture(scope="module")
async def impatient() -> AsyncIterator[Server]:
    async with serving(header_timeout=SOON, body_timeout=SOON, idle_timeout=SOON) as server:
        yield server


@pytest.mark.parametrize("case", LATE)
async def test_an_incomplete_request_is_closed_in_time(impatient: Server, case: str) -> None:
    sent, status, sentence = LATE[case]
    async with await impatient.connect() as stream:
        await stream.send(sent or b"")
        if status is None:
            assert await rest_of(stream) == b""
        else:
            answer = await answer_of(stream)
            assert (answer.status, sentence in answer.sentence) == (status, True)


async def test_a_client_that_sends_a_byte_now_and_then_is_closed_as_well(impatient: Server) -> None:
    async def drip(stream: SocketStream) -> None:
        while True:
            await anyio.sleep(0.02)
            await stream.send(b"a")

    async with await impatient.connect() as stream, anyio.create_task_group() as tasks:
        await stream.send(HEAD + b"X: ")
        tasks.start_soon(drip, stream)
        assert (await answer_of(stream)).status == 408
        tasks.cancel_scope.cancel()


async def test_a_client_that_is_silent_after_an_answer_is_closed(impatient: Server) -> None:
    async with await impatient.connect() as stream:
        await stream.send(HEAD + b"Content-Length: 0\r\n\r\n")
        assert (await rest_of(stream)).endswith(b'[0, "127.0.0.1"]')


async def test_a_client_that_waits_for_an_answer_has_no_time_limit(impatient: Server) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(impatient.get, "/hold")
        while not impatient.held:
            await anyio.sleep(0.01)
        await test_a_client_that_is_silent_after_an_answer_is_closed(impatient)  # which takes longer than all limits
        impatient.release.set()


async def test_a_client_that_does_not_read_the_answer_is_closed(impatient: Server) -> None:
    async with await impatient.connect() as stream:
        await stream.send(b"GET /talk HTTP/1.1\r\nHost: x\r\n\r\n")
        await test_a_client_that_is_silent_after_an_answer_is_closed(impatient)
        await test_a_client_that_is_silent_after_an_answer_is_closed(impatient)
        assert len(await rest_of(stream)) < 50_000_000


async def test_many_silent_clients_do_not_block_others() -> None:
    async with serving(connections=20, per_address=10) as server, AsyncExitStack() as stack:
        silent = [
            await stack.enter_async_context(await server.connect(f"127.0.0.{2 + number % 4}")) for number in range(60)
        ]
        for _ in range(5):
            assert await server.get() == [0, "127.0.0.1"]
            assert await server.get(local="127.0.0.2") == [0, "127.0.0.2"]
        assert await rest_of(silent[0]) == b""


async def test_an_answered_client_keeps_its_place_and_a_new_one_is_refused() -> None:
    async with serving(per_address=3) as server, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(server.get, "/hold", "127.0.0.2")
        while server.held < 3:
            await anyio.sleep(0.01)
        async with await server.connect("127.0.0.2") as stream:
            assert (await answer_of(stream)).status == 503
        assert await server.get() == [0, "127.0.0.1"]
        server.release.set()


async def test_forwarded_addresses_are_accepted_only_from_trusted_proxies(server: Server) -> None:
    headers = {"X-Forwarded-For": "192.0.2.7"}
    assert await server.get(**headers) == [0, "127.0.0.1"]
    async with serving(trusted_proxies=("127.0.0.2/32", "10.0.0.0/8")) as behind:
        assert await behind.get(**headers) == [0, "127.0.0.1"]
        assert await behind.get(local="127.0.0.2", **headers) == [0, "192.0.2.7"]
        assert await behind.get(local="127.0.0.2", **{"X-Forwarded-For": "192.0.2.7, 10.1.1.1"}) == [0, "192.0.2.7"]
