"""The application on a real socket, behind the edge, for programs that use it over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio

from watcher.serving.api import create_app
from watcher.serving.api.context import ApiContext
from watcher.serving.http_server import listen, serve


@asynccontextmanager
async def served(context: ApiContext) -> AsyncIterator[str]:
    """Serve an application with this context, and yield its address."""
    bound = listen("127.0.0.1", 0)
    async with anyio.create_task_group() as tasks:
        await tasks.start(partial(serve, create_app(context), bound))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        tasks.cancel_scope.cancel()
