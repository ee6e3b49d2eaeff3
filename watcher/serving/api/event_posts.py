"""Events that tools post. Events that arrive while others are being stored are stored together, by the next transaction.

A post never waits for other posts: the first one is stored at once, and the first of those that arrived meanwhile stores them
all. If posts cannot be stored together, each is retried alone, so that only the faulty one fails.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio

from store.database import Database
from store.database.asset_events import NewEvent
from store.detection.event_lists import StoredEvent
from store.detection.events import AppendedEvents
from store.detection.interest import EventHooks
from store.errors import CommitUnknown, DatabaseUnavailable, DatabaseUnusable
from store.processes.posts import EventPost, store_all

MOST_POSTS: Final = 100
"""Posts that one transaction stores at most."""
MOST_CHARACTERS: Final = 4_000_000
"""Characters that the posts of one transaction have together. A larger post is stored alone."""


Wake: TypeAlias = Callable[[AppendedEvents], None]
"""Called after a commit with the events that were appended and the jobs that they queued work for."""


@dataclass(kw_only=True, eq=False)
class _Post:
    """An event that waits until it is stored or refused."""

    given: EventPost
    answer: StoredEvent | Exception | None = None


@dataclass(kw_only=True)
class EventPosts:
    """The posted events of one process."""

    _waiting: deque[_Post] = field(default_factory=deque)
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def store(self, database: Database, hooks: EventHooks, wake: Wake, new: NewEvent) -> StoredEvent:
        """Store an event of an active asset, with its queue rows, what `hooks` add, and an entry in the audit.

        Once begun, the transaction is shielded from cancellation. For each transaction, one of its posts calls `wake`.
        Raises `NotFound`.
        """
        post = _Post(given=EventPost(new=new, write_id=uuid.uuid4().hex))
        self._waiting.append(post)
        try:
            # The lock is granted in the order of `_waiting`: a post that gets it without an answer is the first one there.
            async with self._turn:
                if post.answer is None:
                    with anyio.CancelScope(shield=True):
                        await _store(database, hooks, wake, self._next_posts())
        finally:
            if post in self._waiting:
                self._waiting.remove(post)
        if isinstance(post.answer, StoredEvent):
            return post.answer
        refusal = post.answer or RuntimeError("a post was not answered in its turn")
        raise copy(refusal) from refusal  # several posts may raise the same error

    def _next_posts(self) -> Sequence[_Post]:
        posts = [self._waiting.popleft()]
        size = len(posts[0].given.new.extra)
        while self._waiting and len(posts) < MOST_POSTS:
            size += len(self._waiting[0].given.new.extra)
            if size > MOST_CHARACTERS:
                break
            posts.append(self._waiting.popleft())
        return posts


async def _store(database: Database, hooks: EventHooks, wake: Wake, posts: Sequence[_Post]) -> None:
    """Store the posts in one transaction, or one by one if it fails, and set the answer of each."""
    try:
        async with database.transaction() as connection:
            appended, answers = await store_all(connection, [post.given for post in posts], hooks)
    except Exception as error:  # noqa: BLE001  each post raises it, or is retried alone
        if len(posts) == 1 or isinstance(error, (CommitUnknown, DatabaseUnavailable, DatabaseUnusable)):
            for post in posts:
                post.answer = error
        else:
            for post in posts:
                await _store(database, hooks, wake, [post])
    else:
        for post, answer in zip(posts, answers, strict=True):
            post.answer = answer
        wake(appended)
