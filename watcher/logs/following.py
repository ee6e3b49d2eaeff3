"""Looking on while a log grows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import anyio
import anyio.to_thread

from watcher.logs.reading import Record, Tail

_LOOK_EVERY: Final = 0.25
"""Seconds. Logs may be on a shared volume, where no file system event tells of another machine's writes."""


async def follow(tail: Tail, stopping: anyio.Event) -> AsyncGenerator[Sequence[Record], None]:
    """What is appended, as it comes, an empty sequence where nothing came; ends when `stopping` is set."""
    while not stopping.is_set():
        yield await anyio.to_thread.run_sync(tail.read)
        with anyio.move_on_after(_LOOK_EVERY):
            await stopping.wait()
