"""A proxy before PostgreSQL that refuses connections, or keeps notifications to itself as a transaction pooler does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from sqlalchemy import make_url

NOTIFICATION = b"A"
ENDED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, anyio.IncompleteRead)


@dataclass
class Proxy:
    """Refuses the next `refuses` connections; `url` leads through it, without TLS."""

    server: tuple[str, int]
    url: str = ""
    refuses: int = 0
    keeps_notifications: bool = False

    async def serve(self, client: SocketStream) -> None:
        if self.refuses:
            self.refuses -= 1
            await client.aclose()
            return
        async with client, await anyio.connect_tcp(*self.server) as server, anyio.create_task_group() as tasks:
            tasks.start_soon(self._requests, client, server, tasks.cancel_scope)
            await self._answers(server, client)
            tasks.cancel_scope.cancel()

    async def _requests(self, client: SocketStream, server: SocketStream, connection: anyio.CancelScope) -> None:
        with suppress(*ENDED):
            async for sent in client:
                await server.send(sent)
        connection.cancel()

    async def _answers(self, server: SocketStream, client: SocketStream) -> None:
        """Each is one byte for its kind, four for its length, and the rest."""
        answers = BufferedByteReceiveStream(server)
        with suppress(*ENDED):
            while True:
                head = await answers.receive_exactly(5)
                body = await answers.receive_exactly(int.from_bytes(head[1:], "big") - 4)
                if not (self.keeps_notifications and head[:1] == NOTIFICATION):
                    await client.send(head + body)


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    address = make_url(url)
    proxy = Proxy(server=(address.host or "", address.port or 0))
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.serve)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610  not Django's
        through = address.set(host="127.0.0.1", port=port).update_query_dict({"ssl": "disable"})
        proxy.url = through.render_as_string(hide_password=False)
        yield proxy
        tasks.cancel_scope.cancel()
