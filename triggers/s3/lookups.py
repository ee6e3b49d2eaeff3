"""Looking at single objects, by listing as for all others: the ones that a hint names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import anyio

from triggers.errors import TriggerError
from triggers.s3.listing import S3Client
from triggers.s3.shared import DatedPage

_AT_A_TIME: Final = 10


async def look_up(client: S3Client, bucket: str, keys: Collection[str]) -> Sequence[DatedPage]:
    """A page for each key that there is, with that object alone. Raises what listing raises."""
    found: list[DatedPage] = []
    failures: list[TriggerError] = []
    limit = anyio.Semaphore(_AT_A_TIME)

    async def look(key: str) -> None:
        async with limit:
            try:
                page, clock = await client.list_page(bucket, key, None, max_keys=1)
                if page.rows and page.key(page.rows[0]) == key:
                    found.append((page, clock))
            except TriggerError as error:  # raised from here it would come as a group
                failures.append(error)

    async with anyio.create_task_group() as tasks:
        for key in keys:
            tasks.start_soon(look, key)
    if failures:
        raise failures[0]
    return found
