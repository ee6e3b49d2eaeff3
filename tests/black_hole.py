"""A TCP proxy in front of PostgreSQL, whose other side can vanish without a word: what is sent is swallowed, nothing is answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskStatus
from anyio.from_thread import start_blocking_portal
from sqlalchemy import URL, make_url


@dataclass
class BlackHole:
    """`swallows` may change at any time; new connections are accepted all the same."""

    server: tuple[str, int]
    swallows: bool = False
    port: int = 0
    _open: set[SocketStream] = field(default_factory=set)

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            self.port = listener.extra(SocketAttribute.local_port)  # noqa: S610  not Django's
            task_status.started()
            await listener.serve(self._carry_both_ways)

    async def _carry_both_ways(self, client: SocketStream) -> None:
        with suppress(OSError, anyio.BrokenResourceError):
            async with client, await anyio.connect_tcp(*self.server) as server, anyio.create_task_group() as tasks:
                tasks.start_soon(self._carry, client, server, tasks.cancel_scope)
                tasks.start_soon(self._carry, server, client, tasks.cancel_scope)

    async def _carry(self, source: SocketStream, target: SocketStream, connection: anyio.CancelScope) -> None:
        swallowed = False
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for sent in source:
                swallowed |= self.swallows  # what has a hole in it is useless for good
                if not swallowed:
                    await target.send(sent)
        connection.cancel()


@contextmanager
def black_hole(url: str) -> Iterator[tuple[BlackHole, URL]]:
    """The proxy in a thread of its own, and the address of the database behind it."""
    address = make_url(url)
    proxy = BlackHole((address.host or "", address.port or 5432))
    with start_blocking_portal() as portal:
        serving, _ = portal.start_task(proxy.run)
        yield proxy, address.set(host="127.0.0.1", port=proxy.port)
        serving.cancel()
