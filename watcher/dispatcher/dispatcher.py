"""The dispatcher: starts what is queued, follows every try to its end, and finds its tries again after a crash.

Order, always: the intent is committed -> the submitter starts the try -> the handle is stored. What the crash left in
between is settled at the next start by the home that stored the intent, and by nobody else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Final, TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.processes import triggerers
from store.processes.tokens import digest
from store.processes.triggerers import Process
from store.runs import runs, tries
from store.runs.runs import Startable
from store.runs.tries import OpenTry
from watcher.dispatcher.admission import Admission, Limits, admit
from watcher.dispatcher.outcomes import Ending, Retries, decide
from watcher.dispatcher.preparing import Preparation
from watcher.leading import Leadership
from watcher.retrying import keep_going
from watcher.submit.base import Attachment, Handle, Progress, Status, SubmitError, Submitter
from watcher.wakeups import Wakeup

LOOK_EVERY: Final = timedelta(seconds=5)
POLL_EVERY: Final = timedelta(milliseconds=300)
PROGRESS_EVERY: Final = timedelta(seconds=2)
CANCEL_GRACE: Final = 10.0
LOST: Final = "the job was lost: its process is gone without a word"

_BEHIND: Final = "waits for its turn behind older runs"
_LOST_FOR_GOOD: Final = (Attachment.LOST, Attachment.RESTARTED)

Transaction: TypeAlias = AbstractAsyncContextManager[AsyncConnection]

log = structlog.get_logger()


class Dispatcher:
    """Runs the tries of one home. `on_end` is called after a try's end was committed."""

    def __init__(
        self,
        database: Database,
        submitter: Submitter,
        preparation: Preparation,
        leadership: Leadership,
        process: Process,
        *,
        limits: Limits,
        lease: timedelta,
        on_end: Callable[[], None],
    ) -> None:
        self._database = database
        self._submitter = submitter
        self._preparation = preparation
        self._leadership = leadership
        self._process = process
        self._limits = limits
        self._lease = lease
        self._on_end = on_end
        self._followed: dict[str, Handle | None] = {}
        self._need_mb: dict[str, int] = {}
        self._told_to_stop: set[str] = set()
        self._told_to_wait: dict[str, str] = {}
        self._silent_since: dict[str, float] = {}
        self._stopping = False
        self.wakeup = Wakeup()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. Started once every try that a crash left open is being followed again."""
        async with anyio.create_task_group() as tasks:
            await self._beat()
            async with self._database.reading() as connection:
                left_open = await tries.open_tries(connection, self._process.id)
            for open_try in left_open:
                self._follow(tasks, open_try, token=None)
            tasks.start_soon(self._keep_beating)
            task_status.started()
            while True:
                async with keep_going("dispatcher.stopping_failed"):
                    await self._stop_unwanted(tasks)
                if self._leadership.leads:
                    async with keep_going("dispatcher.failed"):
                        await self._bury_orphans()
                        await self._start_due(tasks)
                await self.wakeup.wait((await self._next_look()).total_seconds())

    async def _next_look(self) -> timedelta:
        """When the next retry is due, and at the latest after a while: not every change is told to this process."""
        async with keep_going("dispatcher.failed"):
            async with self._database.reading() as connection:
                due = await runs.next_retry_in(connection)
            return LOOK_EVERY if due is None else min(due, LOOK_EVERY)
        return LOOK_EVERY

    async def cancel_all(self) -> None:
        """Stop every driver, because the daemon itself is being stopped; they start again with it."""
        self._stopping = True
        async with anyio.create_task_group() as tasks:
            while self._followed:
                self._tell_to_stop(tasks, self._followed.keys())
                await anyio.sleep(POLL_EVERY.total_seconds())

    def _tell_to_stop(self, tasks: TaskGroup, tags: Collection[str]) -> None:
        """Once each; one that is being submitted gets its handle in a moment, and its turn at the next look."""
        for tag in tags:
            handle = self._followed.get(tag)
            if handle is not None and tag not in self._told_to_stop:
                self._told_to_stop.add(tag)
                tasks.start_soon(self._stop, handle)

    async def _stop(self, handle: Handle) -> None:
        async with keep_going("run.stopping_failed"):
            await self._submitter.cancel(handle, CANCEL_GRACE)

    async def _stop_unwanted(self, tasks: TaskGroup) -> None:
        """Stop what people cancelled, and what the leader gave up when this home was silent for too long."""
        if self._followed:
            async with self._database.reading() as connection:
                unwanted = await tries.to_stop(connection, list(self._followed))
            self._tell_to_stop(tasks, unwanted)

    async def _bury_orphans(self) -> None:
        """End the tries of homes that are gone: that revokes their tokens, in the transaction that frees their runs."""
        async with self._database.reading() as connection:
            gone = self._gone(await tries.silent_homes(connection))
            orphans = [orphan for home in gone for orphan in await tries.open_tries(connection, home)]
        for orphan in orphans:
            log.warning("run.orphaned", tag=orphan.tag, home=orphan.home_id)
            await self._end(orphan, Status(phase="exited", reason=LOST), self._leadership.transaction)

    def _gone(self, silent: frozenset[str]) -> list[str]:
        """Homes that were silent for a lease while we looked: after an outage of the database all have one to speak up."""
        now = anyio.current_time()
        self._silent_since = {home: self._silent_since.get(home, now) for home in silent - {self._process.id}}
        return [home for home, since in self._silent_since.items() if now - since >= self._lease.total_seconds()]

    async def _keep_beating(self) -> None:
        while True:
            await anyio.sleep(self._lease.total_seconds() / 3)
            async with keep_going("dispatcher.heartbeat_failed"):
                await self._beat()

    async def _beat(self) -> None:
        async with self._database.transaction() as connection:
            await triggerers.beat_dispatcher(connection, self._process, self._lease, self._database.dialect)

    # --- starting

    async def _start_due(self, tasks: TaskGroup) -> None:
        async with self._database.reading() as connection:
            waiting = await runs.startable(connection)
            running = await runs.running_runs(connection)
        waits: dict[str, str] = {}
        full = False
        for task in waiting:
            if self._stopping:
                return
            allowed = json.loads(task.definition)["max_active_runs"]
            if task.run_state == "queued" and running.get(task.dag_id, 0) >= allowed:
                waits[task.task_instance_id] = f"waits for another run of its job: max_active_runs is {allowed}"
            elif full or not (admission := self._admission(task)).may_start:
                waits[task.task_instance_id] = _BEHIND if full else admission.sentence
                full = True
            elif (intended := await self._intend(task)) is not None:
                if task.run_state == "queued":
                    running[task.dag_id] = running.get(task.dag_id, 0) + 1
                self._follow(tasks, *intended)
        await self._say_why(waits)

    def _admission(self, task: Startable) -> Admission:
        need_mb = self._limits.need_mb(self._preparation.driver_memory(task.dag_id))
        admission = admit(need_mb, self._need_mb.values(), self._limits)
        if admission.sentence and admission.sentence != self._told_to_wait.get(task.task_instance_id):
            tell = log.warning if admission.may_start else log.info
            name = "run.too_large" if admission.may_start else "run.waiting"
            tell(name, dag_id=task.dag_id, run_id=task.run_id, reason=admission.sentence)
        return admission

    async def _say_why(self, waits: dict[str, str]) -> None:
        """Once for each change."""
        news: dict[str, list[str]] = {}
        for task_instance_id, reason in waits.items():
            if self._told_to_wait.get(task_instance_id) != reason:
                news.setdefault(reason, []).append(task_instance_id)
        if news:
            async with self._leadership.transaction() as connection:
                for reason, task_instance_ids in news.items():
                    await runs.say_why_waiting(connection, task_instance_ids, reason)
        self._told_to_wait = waits

    async def _intend(self, task: Startable) -> tuple[OpenTry, str] | None:
        number = task.try_number + 1
        token = self._preparation.issue_token(task.task_instance_id, number)
        async with self._leadership.transaction() as connection:
            ours = await tries.commit_intent(
                connection,
                task,
                home_id=self._process.id,
                tag=f"run-{task.task_instance_id}-{number}",
                token_hash=digest(token),
            )
            intended = await tries.open_try(connection, task.task_instance_id, number) if ours else None
        return None if intended is None else (intended, token)

    def _follow(self, tasks: TaskGroup, open_try: OpenTry, token: str | None) -> None:
        self._followed[open_try.tag] = None
        self._need_mb[open_try.tag] = self._limits.need_mb(self._preparation.driver_memory(open_try.dag_id))
        tasks.start_soon(self._to_its_end, open_try, token)
        tasks.start_soon(self._note_progress, open_try)

    # --- following one try

    async def _to_its_end(self, open_try: OpenTry, token: str | None) -> None:
        """`token` is given exactly when this process has just committed the intent."""
        names = ("dag_id", "run_id", "task_id", "map_index", "try_number")
        with structlog.contextvars.bound_contextvars(**{name: getattr(open_try, name) for name in names}):
            try:
                while not await self._tried(open_try, token):
                    token = None
                    await anyio.sleep(LOOK_EVERY.total_seconds())
            finally:
                del self._followed[open_try.tag], self._need_mb[open_try.tag]
                self._told_to_stop.discard(open_try.tag)
        self._on_end()

    async def _tried(self, open_try: OpenTry, token: str | None) -> bool:
        """Whether the try's end is known and committed; False when something passing got in the way."""
        async with keep_going("run.following_failed"):
            try:
                handle = await (self._found(open_try) if token is None else self._submitted(open_try, token))
            except SubmitError as error:
                await self._end(open_try, Status(phase="exited", reason=str(error)))
                return True
            if isinstance(handle, Status):
                await self._end(open_try, handle)
                return True
            self._followed[open_try.tag] = handle
            await self._end(open_try, await self._watched(open_try, handle))
            return True
        return False

    async def _submitted(self, open_try: OpenTry, token: str) -> Handle:
        handle = await self._submitter.submit(self._preparation.prepare(open_try, token))
        await self._store(open_try, handle)
        log.info("run.submitted", tag=open_try.tag)
        return handle

    async def _found(self, open_try: OpenTry) -> Handle | Status:
        stored = None if open_try.handle is None else json.loads(open_try.handle)
        found = await self._submitter.attach(self._preparation.describe(open_try), stored)
        if found in _LOST_FOR_GOOD or (found is Attachment.ABSENT and open_try.cancelled):
            return Status(phase="exited", reason=LOST, restarted=found is Attachment.RESTARTED)
        if found is Attachment.ABSENT:
            token = self._preparation.issue_token(open_try.task_instance_id, open_try.try_number)
            async with self._database.transaction() as connection:
                await tries.replace_token(connection, open_try.task_instance_id, open_try.try_number, digest(token))
            return await self._submitted(open_try, token)
        handle: Handle = found
        if stored is None:
            await self._store(open_try, handle)
        log.info("run.attached", tag=open_try.tag)
        return handle

    async def _store(self, open_try: OpenTry, handle: Handle) -> None:
        async with self._database.transaction() as connection:
            await tries.store_handle(connection, open_try.task_instance_id, open_try.try_number, json.dumps(handle))

    async def _watched(self, open_try: OpenTry, handle: Handle) -> Status:
        timeout = json.loads(open_try.definition)["timeout"]
        left = math.inf if timeout is None else timeout - open_try.age_seconds
        with anyio.move_on_after(max(left, 0)):
            return await self._exited(handle)
        log.warning("run.timed_out", timeout=timeout)
        await self._submitter.cancel(handle, CANCEL_GRACE)
        status = await self._exited(handle)
        return replace(status, reason=f"the job ran longer than its timeout of {timeout:g} s and was stopped")

    async def _note_progress(self, open_try: OpenTry) -> None:
        """Of a job that does not use the SDK, which would tell it better; until the try is followed no more."""
        noted = None
        while open_try.tag in self._followed:
            async with keep_going("run.progress_failed"):
                handle = self._followed[open_try.tag]
                found = None if handle is None else await self._submitter.progress(handle)
                if found is not None and found != noted:
                    if not await self._noted(open_try, found):
                        return
                    noted = found
            await anyio.sleep(PROGRESS_EVERY.total_seconds())

    async def _noted(self, open_try: OpenTry, progress: Progress) -> bool:
        text = json.dumps(asdict(progress))
        async with self._database.transaction() as connection:
            return await tries.note_progress(connection, open_try.task_instance_id, open_try.try_number, text)

    async def _exited(self, handle: Handle) -> Status:
        while (status := await self._submitter.poll(handle)).phase != "exited":  # noqa: ASYNC110  it is a poll
            await anyio.sleep(POLL_EVERY.total_seconds())
        return status

    async def _end(
        self, open_try: OpenTry, status: Status, transaction: Callable[[], Transaction] | None = None
    ) -> None:
        definition = json.loads(open_try.definition)
        async with (transaction or self._database.transaction)() as connection:
            now = await tries.open_try(connection, open_try.task_instance_id, open_try.try_number, lock=True)
            if now is None:
                return
            ending = Ending(
                finish_state=now.finish_state,
                claimed=now.claimed,
                exit_code=status.exit_code,
                reason=status.reason,
                message=now.message,
                stopped=self._stopping,
                home_gone=open_try.home_id != self._process.id,
                restarted=status.restarted,
            )
            used = await tries.counted_tries(connection, open_try.task_instance_id)
            delay = timedelta(seconds=definition["retry_delay"])
            outcome = decide(ending, Retries(allowed=definition["retries"], delay=delay, used=used))
            await tries.end(
                connection,
                now,
                exit_code=status.exit_code,
                state=outcome.state,
                run_state=outcome.run_state,
                reason=outcome.reason,
                warning=outcome.warning,
                retry_in=None if outcome.retry_in is None else outcome.retry_in.total_seconds(),
                counted=outcome.counted,
            )
        if now.cancelled:
            log.info("run.stopped", exit_code=status.exit_code)
        else:
            log.info("run.ended", state=outcome.state, exit_code=status.exit_code, reason=outcome.reason)
