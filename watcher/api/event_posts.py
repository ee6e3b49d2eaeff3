"""Events that tools tell of: those that come while others are being stored are stored together, by the next transaction.

A post never waits for company: who comes first is stored at once, and of those who came meanwhile the first takes the others
along. Posts that could not be stored together are tried again one by one: whoever is at fault fails alone.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.detection import events
from store.detection.events import Appended, AssetEvent, EventAsset, NewEvent
from store.errors import CommitUnknown, DatabaseUnavailable, DatabaseUnusable, NotFound
from store.processes import audit

MOST_POSTS: Final = 100
MOST_CHARACTERS: Final = 4_000_000
"""Of one transaction; a larger post goes alone."""


Wake: TypeAlias = Callable[[Appended], None]
"""Called after a commit with who has work since."""


@dataclass(kw_only=True, eq=False)
class _Post:
    """An event that waits, until it has its answer."""

    actor: str
    new: NewEvent
    write_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    answer: AssetEvent | Exception | None = None


@dataclass(kw_only=True)
class EventPosts:
    """Those of one process."""

    _waiting: deque[_Post] = field(default_factory=deque)
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def store(self, database: Database, wake: Wake, actor: str, asset_id: int, extra: str) -> AssetEvent:
        """Store an event of an active asset, with its queue rows and an entry in the audit; `extra` is a JSON object's text.

        Shielded from when it was begun; of each transaction one of its posts calls `wake`. Raises `NotFound`.
        """
        new = NewEvent(asset_id=asset_id, extra=extra, trace_id=uuid.uuid4().hex, source_actor=actor)
        post = _Post(actor=actor, new=new)
        self._waiting.append(post)
        try:
            async with self._turn:  # in the order of `_waiting`: whose turn it is, and who has no answer, is its first
                if post.answer is None:
                    with anyio.CancelScope(shield=True):
                        await _store(database, wake, self._next_posts())
        finally:
            if post in self._waiting:
                self._waiting.remove(post)
        if isinstance(post.answer, AssetEvent):
            return post.answer
        refusal = post.answer or RuntimeError("a post whose turn it was is always answered")
        raise copy(refusal) from refusal  # others may raise it too

    def _next_posts(self) -> Sequence[_Post]:
        posts = [self._waiting.popleft()]
        size = len(posts[0].new.extra)
        while self._waiting and len(posts) < MOST_POSTS:
            size += len(self._waiting[0].new.extra)
            if size > MOST_CHARACTERS:
                break
            posts.append(self._waiting.popleft())
        return posts


async def _store(database: Database, wake: Wake, posts: Sequence[_Post]) -> None:
    """Answer them all."""
    try:
        async with database.transaction() as connection:
            appended = await _append(connection, posts)
    except Exception as error:  # noqa: BLE001  each post raises it, or is tried alone
        if len(posts) == 1 or isinstance(error, (CommitUnknown, DatabaseUnavailable, DatabaseUnusable)):
            for post in posts:
                post.answer = error
        else:
            for post in posts:
                await _store(database, wake, [post])
    else:
        wake(appended)


async def _append(connection: AsyncConnection, posts: Sequence[_Post]) -> Appended:
    assets: dict[int, EventAsset | NotFound] = {}
    for asset_id in {post.new.asset_id for post in posts}:
        try:
            assets[asset_id] = await events.active_asset(connection, asset_id)
        except NotFound as refusal:
            assets[asset_id] = refusal
    accepted = list[tuple[_Post, EventAsset]]()
    for post in posts:
        asset = assets[post.new.asset_id]
        if isinstance(asset, NotFound):
            post.answer = asset
        else:
            accepted.append((post, asset))
    appended = await events.append(connection, [post.new for post, _ in accepted])
    entries = []
    for (post, asset), row in zip(accepted, appended.rows, strict=True):
        event = AssetEvent.appended(post.new, asset, *row)
        post.answer = event
        detail = {"event_id": event.id, "trace_id": event.trace_id}
        entries.append(audit.entry(post.actor, "asset_event.create", asset.name, detail, post.write_id))
    await audit.record_all(connection, entries)
    return appended
