"""One try that a home follows: submitted or found again, watched, stopped on request, ended."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta
from typing import Final

import anyio
import structlog

from store.database import Database
from store.detection.interest import EventHooks
from store.processes.tokens import digest
from store.runs import measures
from store.runs.measures import Cost
from store.runs.tries import renewals, tries
from store.runs.tries.try_lookup import OpenTry
from triggers.shared.delays import sleep_for
from watcher.host.loops import keep_going
from watcher.host.metrics import Metrics
from watcher.scheduling.tries.arguments import with_rendered_arguments
from watcher.scheduling.tries.submissions import Submissions
from watcher.scheduling.tries.try_end import LOST, record_end
from watcher.submit.base import Attachment, Handle, Needs, NotYet, Progress, Status, SubmitError, Submitter, start

CHECK_EVERY: Final = timedelta(seconds=5)
PROGRESS_EVERY: Final = timedelta(seconds=2)
SLOWEST_PROGRESS: Final = timedelta(seconds=30)
"""The longest pause between two requests. Pauses grow while nothing changes: a response costs the driver more than us."""
CANCEL_GRACE: Final = 10.0
LONGEST_START: Final = 30.0
"""Seconds after which a driver no longer counts as starting."""

log = structlog.get_logger()


class FollowedTry:
    """Follows one open try from its intent, or from the daemon's start, to its end.

    Only the home that the try belongs to changes it. Each write is conditional on that, so a home that has lost the try
    writes nothing.
    """

    def __init__(
        self, open_try: OpenTry, submitter: Submitter, needs: Needs, metrics: Metrics, hooks: EventHooks
    ) -> None:
        self.open_try = open_try
        self._metrics = metrics
        self._hooks = hooks
        self.needs = needs
        self._submitter = submitter
        self._handle: Handle | None = None
        self._submitted = anyio.Event()
        self._stop_requested = anyio.Event()
        self._stops_with_daemon = False
        self._following = anyio.CancelScope()
        self._starts_until = 0.0
        self._shown: str | None = None
        self._began = anyio.current_time() - open_try.age_seconds

    @property
    def is_starting(self) -> bool:
        """Whether the driver has not begun its work yet, as far as that is known. Warm drivers are not started meanwhile."""
        return anyio.current_time() < self._starts_until

    @property
    def ends_with_home(self) -> bool:
        return self._submitter.ends_with_home

    @property
    def started_warm(self) -> bool:
        return self._handle is not None and self._handle.get("start") == "warm"

    def request_stop(self, *, with_daemon: bool = False) -> None:
        """Have the driver stopped, as soon as there is a handle. With `with_daemon` the try starts again afterwards."""
        self._stops_with_daemon = self._stops_with_daemon or with_daemon
        self._stop_requested.set()

    def abandon(self) -> None:
        """Stop following the try, because another home has taken it over."""
        self._following.cancel()

    async def run(self, database: Database, submissions: Submissions, token: str | None) -> None:
        """Follow the try until its end is committed. `token` is given exactly if this process has just committed the intent."""
        with structlog.contextvars.bound_contextvars(**self.open_try.key.bindings, trace_id=self.open_try.trace_id):
            with self._following:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._stop_on_request)
                    tasks.start_soon(self._note_progress, database)
                    while not await self._reach_end(database, submissions, token):
                        token = None
                        await anyio.sleep(CHECK_EVERY.total_seconds())
                    tasks.cancel_scope.cancel()
            if self._following.cancelled_caught:
                log.warning("run.left_to_another_home", tag=self.open_try.tag)

    async def _reach_end(self, database: Database, submissions: Submissions, token: str | None) -> bool:
        """Return False if a temporary failure got in the way."""
        async with keep_going("run.following_failed"):
            try:
                if token is None:
                    attached = await self._attach(database, submissions)
                else:
                    attached = await self._submit(database, submissions, token)
                status = attached if isinstance(attached, Status) else await self._watch(database, attached)
            except NotYet as error:
                await self._show(database, str(error))
                return False
            except SubmitError as error:
                status = Status(phase="exited", reason=str(error), retryable=error.retryable)
            stopped = self._stops_with_daemon
            left = self._submitter.kept_for(self._handle)
            await record_end(
                database.transaction,
                self.open_try,
                status,
                self._metrics,
                hooks=self._hooks,
                stopped=stopped,
                kept_for=left,
            )
            return True
        return False

    async def _submit(self, database: Database, submissions: Submissions, token: str) -> Handle:
        self._starts_until = anyio.current_time() + LONGEST_START
        submission = await submissions.with_changing_secrets(submissions.submission(self.open_try, token))
        submission = await with_rendered_arguments(submission, database)
        handle = await start(self._submitter, submission)
        self._began = anyio.current_time()
        self._shown = ""  # nothing is shown of a try that was just submitted
        await self._store_handle(database, handle)
        log.info("run.submitted", tag=self.open_try.tag)
        return handle

    async def _attach(self, database: Database, submissions: Submissions) -> Handle | Status:
        stored = None if self.open_try.handle is None else json.loads(self.open_try.handle)
        attached = await self._submitter.attach(self.open_try.key, self.open_try.tag, stored)
        if attached is Attachment.ABSENT and not self.open_try.cancelled:
            token = submissions.issue_token(self.open_try.key, self.open_try.trace_id)
            async with database.transaction() as connection:
                is_ours = await tries.replace_token(connection, self.open_try, digest(token))
                if not is_ours and await renewals.was_renewed(connection, self.open_try.tag):
                    raise NotYet("waits until its driver, which started meanwhile, is found or has certainly ended")
            return await self._submit(database, submissions, token) if is_ours else LOST
        if isinstance(attached, Attachment):
            return replace(LOST, restarted=attached is Attachment.RESTARTED)
        await self._store_handle(database, attached)
        log.info("run.attached", tag=self.open_try.tag)
        return attached

    async def _store_handle(self, database: Database, handle: Handle) -> None:
        """Keep the handle, even if the try was taken away meanwhile: its driver has to be stopped by this very handle."""
        self._handle = handle
        self._submitted.set()
        if self.open_try.handle is None:
            text = json.dumps(handle)
            async with database.transaction() as connection:
                await tries.store_handle(connection, self.open_try, text)
            self.open_try = replace(self.open_try, handle=text)

    async def _watch(self, database: Database, handle: Handle) -> Status:
        """Return the final status, stopping a job that reaches its timeout.

        A job that was stopped after its timeout has timed out, even if the daemon was restarted meanwhile. One that ended
        by itself has not, although nobody could poll it in time.
        """
        timeout = self.open_try.definition.timeout
        seconds = math.inf if timeout is None else timeout.total_seconds()
        while True:
            status = await self._poll(database, handle)
            age = anyio.current_time() - self._began if status.running_for is None else status.running_for
            left = seconds - age
            if status.phase == "exited" and (left > 0 or not status.stopped):
                return status
            if status.phase == "exited" or status.running_for != 0:
                break
            await sleep_for(self._submitter.poll_every.total_seconds())
        with anyio.move_on_after(max(left, 0)):
            return await self._exit(database, handle)
        log.warning("run.timed_out", timeout=seconds)
        await self._submitter.cancel(handle, CANCEL_GRACE)
        status = await self._exit(database, handle)
        reason = f"the job ran longer than its timeout of {seconds:g} s and was stopped"
        return replace(status, reason=reason, timed_out=True)

    async def _exit(self, database: Database, handle: Handle) -> Status:
        while (status := await self._poll(database, handle)).phase != "exited":
            await sleep_for(self._submitter.poll_every.total_seconds())
        return status

    async def _poll(self, database: Database, handle: Handle) -> Status:
        """Poll the try, and show on its run what the submitter says of it, such as what its driver waits for."""
        status = await self._submitter.poll(handle)
        if status.phase != "exited":
            await self._show(database, status.reason)
        return status

    async def _show(self, database: Database, sentence: str) -> None:
        if sentence == self._shown:
            return
        async with database.transaction() as connection:
            await tries.show_reason(connection, self.open_try.key, sentence or None)
        self._shown = sentence
        if sentence:
            log.info("run.waits", reason=sentence)

    async def _stop_on_request(self) -> None:
        await self._stop_requested.wait()
        await self._submitted.wait()
        while self._handle is not None:
            async with keep_going("run.stopping_failed"):
                await self._submitter.cancel(self._handle, CANCEL_GRACE)
                return
            await anyio.sleep(CHECK_EVERY.total_seconds())

    async def _note_progress(self, database: Database) -> None:
        """Record progress of a job that does not use the SDK; the SDK reports it better.

        The first response costs a driver seconds of CPU time. So the job gets time to use the SDK: a warm driver could
        respond at once.
        """
        await self._submitted.wait()
        noted, pause = None, PROGRESS_EVERY.total_seconds()
        while self._handle is not None:
            await sleep_for(pause)
            pause = min(2 * pause, SLOWEST_PROGRESS.total_seconds())
            async with keep_going("run.progress_failed"):
                async with database.reading() as connection:
                    if not await tries.is_silent(connection, self.open_try.key):
                        self._starts_until = 0.0
                        return
                progress = await self._submitter.progress(self._handle)
                if progress is not None and progress != noted:
                    self._starts_until = 0.0
                    await self._note(database, progress)
                    noted, pause = progress, PROGRESS_EVERY.total_seconds()

    async def _note(self, database: Database, progress: Progress) -> None:
        first = None
        counts: dict[str, int | str] = {
            "stages": progress.stages,
            "tasks": progress.tasks,
            "tasks_done": progress.tasks_done,
        }
        if progress.application_id is not None:
            counts["application_id"] = progress.application_id
        cost = Cost(
            rows_read=progress.rows_read,
            bytes_read=progress.bytes_read,
            rows_written=progress.rows_written,
            bytes_written=progress.bytes_written,
        )
        async with database.transaction() as connection:
            await tries.note_progress(connection, self.open_try.key, json.dumps(counts))
            await measures.add_cost(connection, self.open_try.key, cost)
            if progress.first_action_at is not None:
                first = await measures.note_first_action(connection, self.open_try.key, progress.first_action_at)
        if first is not None:
            dag_id, trace_id = self.open_try.key.dag_id, self.open_try.trace_id
            self._metrics.observe_first_action(dag_id, first.start, first.since_event, trace_id)
