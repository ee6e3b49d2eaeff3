"""Has submitters remove what ended tries left, once the end of each is committed and its time has come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import structlog

from store.database import Database
from store.runs.tries import forgetting
from store.runs.tries.forgetting import LeftTry
from watcher.host.loops import keep_going
from watcher.submit.base import Submitter

AGAIN_AFTER: Final = timedelta(minutes=1)
"""The time after which a submitter that failed is asked again."""

log = structlog.get_logger()


async def forget_due(database: Database, submitters: Mapping[str, Submitter]) -> None:
    """Forget the ended tries whose time has come. What fails comes up again later; a crash repeats what it interrupted."""
    async with database.reading() as connection:
        left_tries = await forgetting.due(connection, submitters.keys())
    for left in left_tries:
        async with database.transaction() as connection:
            await forgetting.postpone(connection, left.key, AGAIN_AFTER)
        async with keep_going("run.forgetting_failed"):
            await _forget(database, submitters[left.submitter], left)


async def _forget(database: Database, submitter: Submitter, left: LeftTry) -> None:
    await submitter.forget(left.key, left.tag, None if left.handle is None else json.loads(left.handle))
    async with database.transaction() as connection:
        await forgetting.forgotten(connection, left.key)
    log.debug("run.forgotten", tag=left.tag)
