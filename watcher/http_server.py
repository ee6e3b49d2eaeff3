"""The HTTP server as one task among the daemon's: the daemon alone owns the signals and says when to stop."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import anyio
import uvicorn
from anyio.abc import TaskStatus
from fastapi import FastAPI

from watcher.errors import StartRefused


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises `StartRefused` when the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise StartRefused(
            f"cannot listen on {host}:{port}: {error.strerror}; set settings.api.port to a free one"
        ) from error
    return bound


async def serve(app: FastAPI, bound: socket.socket, *, task_status: TaskStatus[None]) -> None:
    """Serve until cancelled; then open requests get five seconds to end. Started once requests are accepted."""
    server = _Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5, server_header=False
        )
    )

    async def watch_start() -> None:
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await anyio.sleep(0.01)
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:
            server.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_start)
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[bound])
        tasks.cancel_scope.cancel()
