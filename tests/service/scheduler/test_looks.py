"""A look of the dispatcher: what it starts on random states, by rules that are written again here, and what it costs."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import insert, update

from store.database import Database
from store.database.schema import database_now, database_time_in, job, run, task_instance, task_try
from store.detection.interest import NO_HOOKS
from store.keys import JobDefinition
from store.runs import runs
from store.runs.tries import task_instances
from store.runs.tries.changed_items import NO_ITEM_HOOKS
from store.runs.tries.try_lookup import OpenTry
from tests.databases import emptied, on_both, statements_of
from tests.effort import SEED, effort
from tests.service.scheduler.settings import HOME, configure, job_on
from watcher.host.leader_election import Leadership
from watcher.scheduling.tries import run_starter
from watcher.scheduling.tries.admission import AdmissionLimits
from watcher.scheduling.tries.run_starter import RunStarter
from watcher.scheduling.tries.submissions import JobToStart, Submissions
from watcher.submit.base import Addresses, Needs, SparkApplication, Workspace
from watcher.submit.spark_submit import SparkSubmit

pytestmark = pytest.mark.service
STATES = effort(40, 3_000)
LEASE = timedelta(minutes=10)
JOBS = ("a", "b", "c", "d", "e")
DRIVER_MB = 550
"""What a driver with the default heap of 512 MB takes here."""
MEMORY_MB = 3000


@dataclass(kw_only=True)
class LookedJob:
    """A job as a state has it. `heap_mb` None: the leading process does not have it."""

    most: int
    paused: bool
    active: bool
    heap_mb: int | None
    known_submitter: bool


@dataclass(kw_only=True)
class LookedRun:
    """A run as a state has it. `kind` says where its task instance and its last try are."""

    dag_id: str
    kind: str
    """queued | alive (cleared, and its old try is open) | running | due | later (retries) | again (queued, run runs) | over"""

    @property
    def counts(self) -> bool:
        """Whether it counts in `max_active_runs` of its job."""
        return self.kind in {"running", "due", "later", "again"}


@dataclass(kw_only=True)
class LookedState:
    jobs: Mapping[str, LookedJob]
    runs: Sequence[LookedRun]
    parallelism: int
    running_mb: list[int] = field(default_factory=list)


def random_state(random: Random) -> LookedState:
    jobs = {
        dag_id: LookedJob(
            most=random.choice((1, 1, 2, 3)),
            paused=random.random() < 0.15,
            active=random.random() < 0.9,
            heap_mb=None if random.random() < 0.15 else random.choice((512, 512, 1024, 2048)),
            known_submitter=random.random() < 0.9,
        )
        for dag_id in JOBS
    }
    kinds = ("queued", "alive", "running", "due", "later", "again", "over")
    made = [
        LookedRun(dag_id=random.choice(JOBS), kind=random.choices(kinds, (12, 1, 2, 1, 1, 1, 2))[0])
        for _ in range(random.randint(1, 25))
    ]
    running = [DRIVER_MB] * random.choice((0, 0, 1, 2))
    return LookedState(jobs=jobs, runs=made, parallelism=random.choice((1, 2, 4, 100)), running_mb=running)


def expected(state: LookedState) -> tuple[list[int], dict[int, str]]:
    """Return the runs that start, in order, and why each other one that waits does not, by their numbers."""
    active = Counter(each.dag_id for each in state.runs if each.counts)
    running = list(state.running_mb)
    started: list[int] = []
    reasons: dict[int, str] = {}
    is_full = False
    on = {dag_id for dag_id, each in state.jobs.items() if each.active and not each.paused}
    kinds = {"queued", "due", "again"}
    waiting = [(number, each) for number, each in enumerate(state.runs) if each.kind in kinds and each.dag_id in on]
    for number, each in waiting:
        of_job = state.jobs[each.dag_id]
        if each.kind == "queued" and active[each.dag_id] >= of_job.most:
            reasons[number] = "waits for another run of its job"
        elif of_job.heap_mb is None:
            reasons[number] = "waits: the job is not configured in the process that leads"
        elif not of_job.known_submitter:
            reasons[number] = "waits: the submitter"
        elif is_full:
            reasons[number] = "waits for its turn behind older runs"
        else:
            need = DRIVER_MB + max(0, of_job.heap_mb - 512)
            if len(running) >= state.parallelism:
                is_full, reasons[number] = True, "waits for its turn: settings.scheduler.parallelism"
            elif running and sum(running) + need > MEMORY_MB:
                is_full, reasons[number] = True, "waits for memory"
            else:
                started.append(number)
                running.append(need)
                active[each.dag_id] += each.kind == "queued"
    for number, each in waiting:  # what was started later may fill the job
        if number in reasons and each.kind == "queued" and active[each.dag_id] >= state.jobs[each.dag_id].most:
            reasons[number] = "waits for another run of its job"
    return started, reasons


async def store(database: Database, state: LookedState) -> None:
    declared = []
    for dag_id, each in state.jobs.items():
        made = job_on(dag_id, None, max_active_runs=each.most)
        definition = replace(made.definition, submitter="spark-submit" if each.known_submitter else "x.Unknown")
        declared.append(replace(made, definition=definition))
    await configure(database, declared)
    async with database.transaction() as connection:
        for dag_id, each in state.jobs.items():
            this = update(job).where(job.c.dag_id == dag_id)
            await connection.execute(this.values(paused=each.paused, active=each.active))
        for number, of_run in enumerate(state.runs):
            run_id = f"r{number}"
            await runs.create_run(connection, of_run.dag_id, run_id, of_run.dag_id, triggered_by="cli")
            is_open = of_run.kind in {"alive", "running"}
            instance = {
                "queued": ("queued", 0),
                "alive": ("queued", 1),
                "running": ("running", 1),
                "due": ("up_for_retry", 1),
                "later": ("up_for_retry", 1),
                "again": ("queued", 1),
                "over": ("failed", 1),
            }
            task_state, tries = instance[of_run.kind]
            later = 3600.0 if of_run.kind == "later" else -1.0
            task = update(task_instance).where(task_instance.c.run_id == run_id)
            values = {"state": task_state, "try_number": tries, "not_before": database_time_in(later)}
            task_id = (await connection.execute(task.values(values).returning(task_instance.c.id))).scalar_one()
            run_state = "running" if of_run.counts else {"over": "failed"}.get(of_run.kind, "queued")
            await connection.execute(update(run).where(run.c.run_id == run_id).values(state=run_state))
            if tries:
                await connection.execute(
                    insert(task_try).values(
                        task_instance_id=task_id,
                        try_number=1,
                        home_id=str(uuid.uuid4()),
                        tag=f"of {run_id}",
                        token_hash="",
                        intent_at=database_now(),
                        ended_at=None if is_open else database_now(),
                    )
                )


async def starter_of(database: Database, state: LookedState, started: list[int]) -> RunStarter:
    here = Path("/nonexistent")
    workspace = Workspace(home=here, logs=here, python="", environment={}, driver_memory_mb=DRIVER_MB)
    running = [Needs(memory_mb=memory) for memory in state.running_mb]
    heaps = {dag_id: each.heap_mb for dag_id, each in state.jobs.items()}
    submissions = Submissions(
        jobs={
            dag_id: JobToStart(
                application=SparkApplication(application="x.py", env={}, driver_memory=f"{heap}m"), connections={}
            )
            for dag_id, heap in heaps.items()
            if heap is not None
        },
        submitters={"spark-submit": SparkSubmit(workspace)},
        addresses=Addresses(local="", public=None),
        issue_token=lambda _key, _trace: "",
    )

    def follow(open_try: OpenTry, _token: str | None) -> None:
        started.append(int(open_try.key.run_id.removeprefix("r")))
        running.append(submissions.needs(open_try.key.dag_id, submissions.submitters[open_try.submitter]))

    leadership = Leadership(database=database, owner=HOME, heartbeat=LEASE, lease=LEASE, on_taken=lambda: None)
    await leadership.campaign()
    return RunStarter(
        database=database,
        leadership=leadership,
        submissions=submissions,
        home_id=HOME,
        hooks=NO_HOOKS,
        item_hooks=NO_ITEM_HOOKS,
        on_end=lambda: None,
        limits=AdmissionLimits(parallelism=state.parallelism, memory_mb=MEMORY_MB, warm_memory_mb=0),
        lease=LEASE,
        running=lambda: running,
        follow=follow,
    )


async def details_of(database: Database, state: LookedState) -> dict[int, str | None]:
    """Return what people read about each run's task instance."""
    async with database.reading() as connection:
        found = {}
        for number, each in enumerate(state.runs):
            (task,) = await task_instances.of_run(connection, each.dag_id, f"r{number}")
            found[number] = task.detail
    return found


@on_both
async def test_a_look_starts_what_the_rules_say_and_people_read_why_the_others_wait(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(STATES):
        monkeypatch.setattr(run_starter, "MOST_READ", (1, 2, 20)[number % 3])
        state = random_state(Random(f"{SEED}/{number}"))
        await emptied(database)
        await store(database, state)
        started: list[int] = []
        starter = await starter_of(database, state, started)
        await starter.look()
        note = f"state {number} of WATCHER_TEST_SEED={SEED}: {state}"
        to_start, reasons = expected(state)
        assert started == to_start, note
        details = await details_of(database, state)
        is_full = any(reason.startswith(("waits for memory", "waits for its turn:")) for reason in reasons.values())
        for which, reason in reasons.items():
            if state.runs[which].kind == "due":
                continue  # a retry is not queued; its detail is how the last try ended
            detail = details[which] or ""
            is_behind = is_full and reason.startswith("waits: ") and "behind older runs" in detail
            assert detail.startswith(reason) or is_behind, (which, reason, detail, note)
        await starter.look()
        assert started == to_start, note


@on_both
async def test_a_look_costs_the_same_however_many_runs_are_queued(database: Database) -> None:
    costs = []
    for queued in (1, 40):
        await emptied(database)
        jobs = {
            dag_id: LookedJob(most=1, paused=False, active=True, heap_mb=512, known_submitter=True) for dag_id in JOBS
        }
        made = [LookedRun(dag_id=dag_id, kind="queued") for _ in range(queued) for dag_id in JOBS]
        state = LookedState(jobs=jobs, runs=made, parallelism=1, running_mb=[DRIVER_MB])
        await store(database, state)
        starter = await starter_of(database, state, [])
        await starter.look()
        JobDefinition.from_json.cache_clear()
        with statements_of(database) as sent:
            for _ in range(3):
                await starter.look()
        costs.append((len(sent), JobDefinition.from_json.cache_info().misses))
    assert costs == [(6, 1), (6, 1)], "two statements a look, and each version of a job is parsed once"
