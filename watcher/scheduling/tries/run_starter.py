"""The leader's part of dispatching: it admits waiting runs, commits their intents, and settles tries of homes that are gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, Literal

import anyio
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database import Database
from store.detection.interest import EventHooks
from store.fates import LEFT_OUT
from store.processes import leaders
from store.processes.tokens import digest
from store.runs.runs import OVER, RunRow
from store.runs.tries import changed_items, superseding, tries, try_lookup
from store.runs.tries.changed_items import ChangedItems, ItemHooks
from store.runs.tries.start_reasons import StartReasons
from store.runs.tries.startable import Startable, next_startable
from store.runs.tries.try_lookup import OpenTry
from watcher.host.leader_election import Leadership
from watcher.host.metrics import Metrics
from watcher.scheduling.tries.admission import Admission, AdmissionLimits, admit
from watcher.scheduling.tries.submissions import Submissions
from watcher.scheduling.tries.try_end import LOST, Transaction, record_end
from watcher.submit.base import Needs

MOST_READ: Final = 20
"""The most runs that are read at a time. Few of them can start at once."""

_LONGEST_DELAY: Final = 60.0
"""Seconds for which a start waits while items of its run are being removed."""
_DELAYED: Final = "waits: some of its files are being moved or deleted by clean_source"

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False, repr=False)
class RunStarter:
    """Starts runs while this process leads. Every write is in the leader's transaction.

    `follow` is called with each try that belongs to this home from then on, and with its token if the try has to be
    submitted. `running` returns the needs of the tries that are followed. `hooks` take part in events of outlets, `item_hooks` know
    items that are not as their events say. `on_end` is called after a run has ended without a try.
    """

    database: Database
    leadership: Leadership
    submissions: Submissions
    home_id: str
    limits: AdmissionLimits
    lease: timedelta
    running: Callable[[], Collection[Needs]]
    follow: Callable[[OpenTry, str | None], None]
    hooks: EventHooks
    item_hooks: ItemHooks
    on_end: Callable[[], None]
    metrics: Metrics = field(default_factory=Metrics)
    stopped: bool = False
    """Set when the daemon stops its jobs: nothing more is started."""
    _kept: tuple[int | None, StartReasons] = (None, StartReasons())
    """The leader's term and the reasons that are kept in the database."""
    _delayed_since: dict[str, float] = field(default_factory=dict)
    _silent_since: dict[str, float] = field(default_factory=dict)
    _warned: set[str] = field(default_factory=set)

    async def look(self) -> None:
        """Settle the tries of homes that are gone; start what may start now, oldest run first, and keep why no more could.

        One snapshot is enough for most looks. The run that waits longest is enough, too, if nothing can start.
        """
        most = MOST_READ if len(self.running()) < self.limits.parallelism else 1
        async with self.database.reading() as connection:
            orphans = await self._orphans(connection)
            waiting = await next_startable(connection, limit=most)
        await self._settle(orphans)
        await self._start(most, None if orphans else waiting)

    async def _start(self, most: int, waiting: Sequence[Startable] | None) -> None:
        """Start what may start now, given at most so many that were read; None: they have to be read.

        It reads what can start: the first run of each job that has room for one. After a start the next one of its job
        may be older than what was read, unless a job has one run at a time.
        """
        reasons, after = StartReasons(), 0
        while not self.stopped and reasons.first is None:
            if waiting is None:
                async with self.database.reading() as connection:
                    waiting = await next_startable(connection, after=after, limit=most)
            for task in waiting:
                after = task.number
                dag_id = task.key.instance.dag_id
                if obstacle := self._obstacle(task):
                    reasons = replace(reasons, of_jobs={**reasons.of_jobs, dag_id: obstacle})
                    continue
                admission = self._admit(task)
                if not admission.may_start:
                    first = task.key.task_instance_id
                    reasons = replace(reasons, first=first, why_first=admission.sentence)
                    break
                started = await self._intend(task)
                if started == "delayed":
                    reasons = replace(reasons, of_jobs={**reasons.of_jobs, dag_id: _DELAYED})
                    continue
                if started == "changed" or task.definition.max_active_runs > 1:
                    break
            else:
                if len(waiting) < most:
                    break
            waiting, most = None, MOST_READ
        await self._keep(reasons)

    def _obstacle(self, task: Startable) -> str:
        """Why this process can start no run of the job; '' if it can."""
        # Another process may have reloaded the file, and this one will follow.
        if task.key.instance.dag_id not in self.submissions.jobs:
            return "waits: the job is not configured in the process that leads; give that process the same file"
        if task.definition.submitter not in self.submissions.submitters:
            return f"waits: the submitter {task.definition.submitter} is not configured in the process that leads"
        return ""

    def _admit(self, task: Startable) -> Admission:
        instance = task.key.instance
        needs = self.submissions.needs(instance.dag_id, self.submissions.submitters[task.definition.submitter])
        admission = admit(needs.memory_mb, [running.memory_mb for running in self.running()], self.limits)
        _, kept = self._kept
        is_kept = (kept.first, kept.why_first) == (task.key.task_instance_id, admission.sentence)
        if admission.sentence and not is_kept:
            write = log.warning if admission.may_start else log.info
            event = "run.too_large" if admission.may_start else "run.waiting"
            ids = {"dag_id": instance.dag_id, "run_id": instance.run_id, "trace_id": task.trace_id}
            write(event, reason=admission.sentence, **ids)
        return admission

    async def _intend(self, task: Startable) -> Literal["started", "changed", "delayed"]:
        """Commit the intent and have the try submitted, or end the run if none of its items is left.

        Return `changed` if the run has ended, another process started it, the task has changed, or nothing more is to be started;
        `delayed` while items of the run are being removed.
        """
        if self.stopped:
            return "changed"
        token = self.submissions.issue_token(task.key, task.trace_id)
        tag = f"run-{task.key.task_instance_id}-{task.key.try_number}"
        async with self.leadership.transaction() as connection:
            changed = await self.item_hooks.of_run(connection, task.number, lock=True)
            if self._is_delayed(task, changed):
                return "delayed"
            run = await self._begin(connection, task, changed.settled, tag, token)
            intended = await try_lookup.open_try(connection, task.key)
        if run is None:
            return "changed"
        if run.state in OVER:
            self.metrics.count_end(run)
            log.info("run.skipped", reason=run.reason, trace_id=task.trace_id, **task.key.bindings)
            self.on_end()
            return "changed"
        if intended is None:
            return "changed"
        if task.run_state == "queued":
            self.metrics.observe_start(run)
        self.follow(intended, token)
        return "started"

    async def _begin(
        self, connection: AsyncConnection, task: Startable, changed: ChangedItems, tag: str, token: str
    ) -> RunRow | None:
        """Commit the intent, or end the run if none of its items is left; return it as it is then. None: the task has changed.

        A try waits until the files that the one before missed were looked for.
        """
        if task.key.try_number > 1 and await superseding.postpone(connection, task, changed):
            return None
        if await changed_items.nothing_left(connection, task.number, changed):
            reason = next(fate for fate in LEFT_OUT if fate in changed.counts)
            return await tries.skip(connection, task, reason, changed)
        return await tries.commit_intent(
            connection, task, home_id=self.home_id, tag=tag, token_hash=digest(token), changed=changed
        )

    def _is_delayed(self, task: Startable, changed: ChangedItems) -> bool:
        """Whether a start waits for the end of a removal. What is in hand for longer was left there: the job finds out."""
        if not changed.are_in_hand:
            self._delayed_since.pop(task.key.task_instance_id, None)
            return False
        now = anyio.current_time()
        return now - self._delayed_since.setdefault(task.key.task_instance_id, now) < _LONGEST_DELAY

    async def _keep(self, reasons: StartReasons) -> None:
        """Keep the reasons of this look if they differ from those that are kept."""
        term = self.leadership.term
        if term is not None and (term, reasons) != self._kept:
            async with self.database.statements() as connection:
                await leaders.set_start_reasons(connection, term, reasons.to_json())
            self._kept = term, reasons

    async def _orphans(self, connection: AsyncConnection) -> Sequence[OpenTry]:
        gone = self._gone(await try_lookup.silent_homes(connection))
        return [orphan for home in gone for orphan in await try_lookup.open_tries(connection, home)]

    async def _settle(self, orphans: Sequence[OpenTry]) -> None:
        """Settle the tries of homes that are gone.

        Tries whose drivers ended with their home are ended: that revokes their tokens, in the transaction that frees
        their runs. Tries whose drivers live elsewhere are taken over. Tries of unknown submitters are left alone.
        """
        for orphan in orphans:
            submitter = self.submissions.submitters.get(orphan.submitter)
            if submitter is None:
                if orphan.tag not in self._warned:
                    self._warned.add(orphan.tag)
                    await warn_of_submitter(self.leadership.transaction, orphan)
            elif submitter.ends_with_home:
                log.warning("run.orphaned", tag=orphan.tag, home=orphan.home_id, trace_id=orphan.trace_id)
                handle = None if orphan.handle is None else json.loads(orphan.handle)
                left = submitter.kept_for(handle)
                await record_end(
                    self.leadership.transaction,
                    orphan,
                    LOST,
                    self.metrics,
                    hooks=self.hooks,
                    home_gone=True,
                    kept_for=left,
                )
            else:
                await self._take_over(orphan)

    def _gone(self, silent: frozenset[str]) -> list[str]:
        """Homes that this process has seen silent for a lease: after an outage of the database every home gets one lease."""
        now = anyio.current_time()
        self._silent_since = {home: self._silent_since.get(home, now) for home in silent - {self.home_id}}
        return [home for home, since in self._silent_since.items() if now - since >= self.lease.total_seconds()]

    async def _take_over(self, orphan: OpenTry) -> None:
        async with self.leadership.transaction() as connection:
            taken = await tries.take_over(connection, orphan, self.home_id)
        if taken is not None:
            log.warning("run.taken_over", tag=orphan.tag, home=orphan.home_id, trace_id=orphan.trace_id)
            self.follow(taken, None)


async def warn_of_submitter(transaction: Transaction, open_try: OpenTry) -> None:
    """Warn, on the run and in the log, that only a submitter which this process does not have could find the try."""
    sentence = (
        f"the submitter {open_try.submitter} is not configured any more, so this run's driver is not followed; "
        "configure a job with it again and restart the daemon"
    )
    async with transaction() as connection:
        await tries.warn(connection, open_try.key, sentence)
    ids = {"tag": open_try.tag, "trace_id": open_try.trace_id, **open_try.key.bindings}
    log.error("run.submitter_unknown", reason=sentence, **ids)
