"""Group commit: detections that become ready during a commit are committed together after it.

A group never waits to grow. The first member that comes while no commit runs leads. It takes the waiting members along, up
to half of the busy ones, so that the database and the watchers work at the same time. After its commit, the first member
that came meanwhile leads. A detection whose group failed is retried once, alone: a faulty one fails alone, and the others
are committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import structlog
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from store.database import Database
from store.detection import detections
from store.detection.detections import Committed, Detection
from store.detection.interest import EventHooks
from store.errors import CommitUnknown, ConnectionLost, DatabaseUnavailable, DatabaseUnusable

MOST_BATCHES: Final = 500
HALVED_FROM: Final = 16
"""The number of busy members up to which a group is not divided."""
MOST_CHARACTERS: Final = 4_000_000
"""The largest size of a group, in characters. A larger batch goes alone, on another connection."""
ALONE_AT_ONCE: Final = 3
"""The number of connections for members that go alone: each may wait for a lock on its position."""
WOKEN_AT_ONCE: Final = 8
"""The number of members that make their next batches before the loop reads the answer to the next group."""
MOST_REPEATS: Final = 2
"""How often a commit is repeated whose session is ended: by a rotation of passwords, and then by a limit of the server's."""

MOST_TRACES: Final = 100
"""The largest number of traces in one log record."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class _Member:
    """A waiting detection. At its `turn` it has its answer, or `leads`, or goes alone."""

    detection: Detection
    context: Context = field(default_factory=copy_context)
    """The watcher's context: its log records belong to it, whichever member leads."""
    turn: anyio.Event = field(default_factory=anyio.Event)
    leads: bool = False
    repeats: int = MOST_REPEATS
    """How often it is committed once more if the connection is lost and nothing was written."""
    answer: Committed | Exception | None = None


class GroupCommit:
    """Commits the detections of a process's watchers. Each watcher has at most one under way. `hooks` take part in the commits."""

    def __init__(self, database: Database, hooks: EventHooks) -> None:
        self._database = database
        self._hooks = hooks
        self._waiting: deque[_Member] = deque()
        self._commits = False
        self._before = 0
        self._alone = anyio.Semaphore(ALONE_AT_ONCE)
        self._log = log.bind()  # a logger of a module is made anew for each record

    async def commit(self, detection: Detection) -> Committed:
        """Commit a detection, shielded from cancellation once begun.

        Raises `PositionLost`, `CommitUnknown`, or what refused this detection.
        """
        await checkpoint_if_cancelled()
        member = _Member(detection=detection)
        with anyio.CancelScope(shield=True):
            if detection.size <= MOST_CHARACTERS:
                await self._commit_with_others(member)
            while member.answer is None:
                async with self._alone:
                    await self._transact([member], skip_locked=False)
        if not isinstance(member.answer, Committed):
            raise member.answer or RuntimeError("a detection alone is always answered")
        return member.answer

    async def _commit_with_others(self, member: _Member) -> None:
        self._waiting.append(member)
        if self._commits:
            await member.turn.wait()
            if not member.leads:
                return
        await self._lead()

    async def _lead(self) -> None:
        """Commit a group. The next group begins before the members of this one continue, because that takes them time."""
        self._commits = True
        group = self._next_group()
        begun: Sequence[_Member] = group
        try:
            begun = await self._transact(group, skip_locked=True)
        finally:
            self._waiting.extendleft(reversed(group[len(begun) :]))
            self._commits = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].turn.set()
            await _wake(begun)

    def _next_group(self) -> list[_Member]:
        """Take as many waiting members as fit, in order, at most one for each watcher."""
        group: dict[str, _Member] = {}
        size, most = 0, self._half()
        while self._waiting and len(group) < most:
            detection = self._waiting[0].detection
            size += detection.size
            if group and (size > MOST_CHARACTERS or detection.held.watcher in group):
                break
            group[detection.held.watcher] = self._waiting.popleft()
        self._before = len(group)
        return list(group.values())

    def _half(self) -> int:
        """Return half of the busy members: while the database commits one half, the other makes its next batches."""
        busy = len(self._waiting) + self._before
        return min(MOST_BATCHES, max(HALVED_FROM, (busy + 1) // 2))

    async def _transact(self, group: Sequence[_Member], *, skip_locked: bool) -> Sequence[_Member]:
        """Commit members in one transaction. Answer them, or leave them to go alone. Return those that it had time for."""
        begun, announced = group, list[_Member]()
        try:
            async with self._database.transaction() as connection:
                batches = [member.detection for member in group]
                answers = await detections.commit(connection, batches, self._hooks, skip_locked=skip_locked)
                begun = group[: len(answers)]
                for member, answer in zip(begun, answers, strict=True):
                    member.answer = answer
                    if isinstance(answer, Committed):
                        announced.append(member)
                        self._announce(member, answer)
        except Exception as error:  # noqa: BLE001  each member raises it, or is retried alone
            for member in begun:
                member.answer = _outcome(error, alone=len(group) == 1, may_repeat=member.repeats > 0)
                member.repeats -= 1
            for member in announced:
                _withdraw(member, error)
        return begun

    def _announce(self, member: _Member, committed: Committed) -> None:
        """Log the write before COMMIT, so that whatever is stored is found in the log, wherever this process ends."""
        detection = member.detection
        entry = {"write_id": detection.writer.write_id, "key": detection.key, **traces_of(detection)}
        written = {"events": len(detection.events), "position_version": committed.held.version}
        member.context.run(partial(self._log.info, "store.writing", **written, **entry))


def traces_of(detection: Detection) -> dict[str, Any]:
    """Return the traces of a detection's events for the log, or the first of many. In the API each event has its own."""
    traces = [event.trace_id for event in detection.events[:MOST_TRACES]]
    if len(traces) == 1:
        return {"trace_id": traces[0]}
    return {"trace_ids": traces} if traces else {}


async def _wake(members: Sequence[_Member]) -> None:
    try:
        for start in range(0, len(members), WOKEN_AT_ONCE):
            for member in members[start : start + WOKEN_AT_ONCE]:
                member.turn.set()
            await checkpoint()
    finally:
        for member in members:
            member.turn.set()


def _outcome(error: Exception, *, alone: bool, may_repeat: bool) -> Exception | None:
    """Return what a member's `commit` raises after its transaction failed.

    None: nothing was written; retry this member in a transaction of its own. If the database itself is at fault, that
    would not help, so each member raises an error of its own; but a lost connection may be the session's own end.
    """
    if isinstance(error, ConnectionLost) and may_repeat:
        return None
    if isinstance(error, (CommitUnknown, DatabaseUnavailable, DatabaseUnusable)):
        return type(error)(*error.args)
    return error if alone else None


def _withdraw(member: _Member, error: Exception) -> None:
    """Log that an announced write did not happen, unless nobody knows."""
    if not isinstance(error, CommitUnknown):
        member.context.run(log.warning, "store.dropped", write_id=member.detection.writer.write_id, error=str(error))
