"""The HTTP server as one of the daemon's tasks. Only the daemon handles signals and decides when to stop."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Iterator
from typing import Final

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp

from config.models.api_settings import ApiSettings
from watcher.errors import StartRefused
from watcher.host.machine import url_here
from watcher.serving.edge.connections import ConnectionLimits, Connections
from watcher.serving.edge.headers import SecurityHeaders
from watcher.serving.edge.http_connection import HttpConnection, LimitedConfig

_DEFAULT_LIMITS: Final = ConnectionLimits()
_CHECK_INTERVAL: Final = 0.5
"""Seconds between two checks for connections that take too long."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen_as(api: ApiSettings, roles: frozenset[str]) -> socket.socket:
    """Return a bound socket for a process with these roles. Raises `StartRefused`.

    A process without the role `api` answers probes only. On a loopback address, which the processes of a machine share, it
    takes any free port and leaves the API's port to the process that has the role.
    """
    return listen(api.host, api.port if "api" in roles or not api.is_loopback else 0)


def address_of(bound: socket.socket) -> str:
    """Return the address at which this machine reaches a bound socket."""
    return url_here(*bound.getsockname()[:2])


def url_of_api(api: ApiSettings, roles: frozenset[str], bound: socket.socket) -> str:
    """Return the address at which drivers on this machine reach the API, in this process or in the one that has the role."""
    return address_of(bound) if "api" in roles else api.base_url or url_here(api.host, api.port)


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises `StartRefused` when the address is in use or does not belong to this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for a socket that names its protocol.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise StartRefused(
            f"cannot listen on {host}:{port}: {error.strerror}; set settings.api.port to a free port"
        ) from error
    return bound


def _limits_of(api: ApiSettings) -> ConnectionLimits:
    """Return the settings' limits of connections. The application limits the size of bodies."""
    return ConnectionLimits(
        header_bytes=api.limits.header_bytes,
        header_timeout=api.limits.header_timeout,
        body_timeout=api.limits.body_timeout,
        idle_timeout=api.limits.idle_timeout,
        connections=api.limits.connections,
        per_address=api.limits.per_address,
        trusted_proxies=api.trusted_proxies,
    )


async def serve(
    app: ASGIApp,
    bound: socket.socket,
    limits: ApiSettings | ConnectionLimits = _DEFAULT_LIMITS,
    *,
    task_status: TaskStatus[None],
) -> None:
    """Serve until cancelled; then open requests get five seconds to end. It reports `started` once requests are accepted."""
    connections = Connections(limits if isinstance(limits, ConnectionLimits) else _limits_of(limits))
    server = _Server(_configured(app, connections))

    async def watch_start() -> None:
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await anyio.sleep(0.01)
        task_status.started()
        try:
            while True:
                await anyio.sleep(_CHECK_INTERVAL)
                connections.close_overdue(asyncio.get_running_loop().time())
        finally:
            server.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_start)
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[bound])
        tasks.cancel_scope.cancel()


def _configured(app: ASGIApp, connections: Connections) -> LimitedConfig:
    limits = connections.limits
    config = LimitedConfig(
        SecurityHeaders(app),
        http=HttpConnection,
        ws="none",
        log_config=None,
        log_level="error",  # mistakes of clients are reported to the clients
        access_log=False,
        lifespan="off",
        proxy_headers=bool(limits.trusted_proxies),
        forwarded_allow_ips=list(limits.trusted_proxies),
        timeout_keep_alive=math.ceil(limits.idle_timeout.total_seconds()),
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    config.connections = connections
    return config
