"""A proxy before PostgreSQL that acts like bad networks and poolers. Its behaviour may change at any time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.streams.buffered import BufferedByteReceiveStream
from sqlalchemy import make_url

NOTIFICATION = b"A"
ENDED = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, anyio.IncompleteRead)


@dataclass(kw_only=True)
class Proxy:
    """A proxy. `url` leads through it, without TLS."""

    server: tuple[str, int]
    url: str = ""
    refuses: int = 0
    """The number of next connections that are closed at once."""
    swallows: bool = False
    """True: the other side has silently vanished. What is sent goes nowhere, and nothing is answered."""
    delay: float = 0.0
    """Seconds that each packet takes, in either direction."""
    breaks_at: bytes = b""
    """A connection ends before a packet with these bytes gets through. b'' ends none."""
    keeps_notifications: bool = False
    """True: drop the notifications of new connections, as a transaction pooler does."""
    _portal: BlockingPortal | None = None
    _connections: set[anyio.CancelScope] = field(default_factory=set)

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610  not Django's
            through = make_url(self.url).set(host="127.0.0.1", port=port).update_query_dict({"ssl": "disable"})
            self.url = through.render_as_string(hide_password=False)
            task_status.started()
            await listener.serve(self._serve)

    def cut(self) -> None:
        """Cut all open connections."""
        if self._portal is not None:
            self._portal.call(self._cut)
        else:
            self._cut()

    def _cut(self) -> None:
        for connection in self._connections:
            connection.cancel()

    async def _serve(self, client: SocketStream) -> None:
        if self.refuses:
            self.refuses -= 1
            await client.aclose()
            return
        with suppress(*ENDED):
            async with client, await anyio.connect_tcp(*self.server) as server, anyio.create_task_group() as tasks:
                self._connections.add(tasks.cancel_scope)
                tasks.start_soon(self._carry, client, server, tasks.cancel_scope)
                answers = self._without_notifications if self.keeps_notifications else self._carry
                tasks.start_soon(answers, server, client, tasks.cancel_scope)
            self._connections.discard(tasks.cancel_scope)

    async def _carry(self, source: SocketStream, target: SocketStream, connection: anyio.CancelScope) -> None:
        swallowed = False
        with suppress(*ENDED):
            async for sent in source:
                if self.breaks_at and self.breaks_at in sent:
                    break
                await anyio.sleep(self.delay)
                swallowed |= self.swallows  # a stream with a gap cannot be used any more
                if not swallowed:
                    await target.send(sent)
        connection.cancel()

    async def _without_notifications(
        self, source: SocketStream, target: SocketStream, connection: anyio.CancelScope
    ) -> None:
        """Pass on answers without notifications. An answer is one byte for its kind, four for its length, and its content."""
        answers = BufferedByteReceiveStream(source)
        with suppress(*ENDED):
            while True:
                head = await answers.receive_exactly(5)
                body = await answers.receive_exactly(int.from_bytes(head[1:], "big") - 4)
                if head[:1] != NOTIFICATION:
                    await target.send(head + body)
        connection.cancel()


def _before(url: str) -> Proxy:
    address = make_url(url)
    return Proxy(server=(address.host or "", address.port or 5432), url=url)


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    proxy = _before(url)
    async with anyio.create_task_group() as tasks:
        await tasks.start(proxy.run)
        yield proxy
        tasks.cancel_scope.cancel()


@contextmanager
def proxied_in_a_thread(url: str) -> Iterator[Proxy]:
    """Run a proxy in a thread, for tests without an event loop and for those that block it."""
    proxy = _before(url)
    with start_blocking_portal() as proxy._portal:
        serving, _ = proxy._portal.start_task(proxy.run)
        yield proxy
        serving.cancel()
