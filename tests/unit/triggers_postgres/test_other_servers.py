"""Servers that speak PostgreSQL's protocol and are another product."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from triggers.errors import ConfigurationError
from triggers.postgres.connection import PostgresConnection

PARAMETERS = {"server_version": "13.0.0", "crdb_version": "CockroachDB CCL v25.2.1", "in_hot_standby": "off"}


def message(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!i", len(content) + 4) + content


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server that lets everybody in, says that it is CockroachDB, and answers nothing."""

    async def serve(client: SocketStream) -> None:
        async with client:
            await client.receive()
            said = b"".join(message(b"S", f"{name}\0{value}\0".encode()) for name, value in PARAMETERS.items())
            await client.send(
                message(b"R", struct.pack("!i", 0))
                + said
                + message(b"K", struct.pack("!ii", 1, 2))
                + message(b"Z", b"I")
            )
            await client.receive()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610  not Django's
        tasks.cancel_scope.cancel()


async def test_cockroachdb_is_refused_by_name(port: int) -> None:
    connection = PostgresConnection(host="127.0.0.1", port=port, user="u", database="d", sslmode="disable")
    async with connection.open() as client:
        with pytest.raises(ConfigurationError, match=r"the server is CockroachDB, .*; name a PostgreSQL"):
            await client.patient.fetch("SELECT 1")
