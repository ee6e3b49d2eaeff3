"""The dispatcher with real processes under the real shim; Spark itself is not needed for its rules."""

from __future__ import annotations

import json
import os
import signal
import uuid
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from sqlalchemy import func, select, update
from structlog.testing import capture_logs

from store.catalog import catalog_sync
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob
from store.database.schema import asset, asset_event, leader, queued_event, run, task_instance, task_try
from store.detection.interest import NO_HOOKS
from store.errors import TryFenced
from store.keys import JobDefinition, TryRef
from store.processes import triggerers
from store.processes.triggerers import ProcessInfo
from store.runs import runs
from store.runs.actions import decisions
from store.runs.tries import renewals, startable, task_instances, tries, try_lookup
from tests.databases import on_both
from tests.effort import PATIENCE
from tests.plugins.cluster_server import ADDRESS, running_cluster
from tests.plugins.remote_cluster import RemoteCluster
from tests.unit.submit.plain import PlainPython, plain_python, submissions, workspace
from watcher.host.leader_election import Leadership
from watcher.scheduling.tries.admission import AdmissionLimits
from watcher.scheduling.tries.dispatcher import Dispatcher
from watcher.scheduling.tries.submissions import JobToStart
from watcher.submit.base import Attachment, NotYet, Progress, SparkApplication, Status
from watcher.submit.spark.yarn import ApplicationsLeft

pytestmark = pytest.mark.service
HOUR = timedelta(hours=1)
LEASE = timedelta(seconds=15)
NEVER = datetime(2100, 1, 1, tzinfo=UTC)
HOME = "44444444-4444-4444-4444-444444444444"
COUNTED = "open({marks!r}, 'a').write('started\\n')\n"


class Jobs:
    """Programs that the dispatcher starts as jobs; each leaves a mark whenever it is started."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.marks = folder / "marks"
        self.programs: dict[str, JobToStart] = {}
        self.declared: list[DeclaredJob] = []
        self.assets: list[DeclaredAsset] = []

    def add(
        self, dag_id: str, program: str, driver_memory: str = "512m", submitter: str = "spark-submit", **definition
    ):
        path = self.folder / f"{dag_id}.py"
        path.write_text(COUNTED.format(marks=str(self.marks)) + program)
        application = SparkApplication(application=str(path), driver_memory=driver_memory, conf={}, env={})
        self.programs[dag_id] = JobToStart(application=application, connections={}, submitter=submitter)
        roles = {"outlet": definition.pop("outlets", set()), "inlet": definition.pop("inlets", set())}
        roles["schedule"] = definition.pop("waits_for", set())
        aliases = definition.pop("aliases", {})
        spark = {"submitter": submitter}
        known = {"max_active_runs": 1, "retries": 0, "retry_delay": 0, "timeout": None, "spark": spark, **definition}
        self.declared.append(
            DeclaredJob(
                dag_id=dag_id,
                task_id=dag_id,
                definition=JobDefinition.from_json(json.dumps(known)),
                paused=False,
                assets={role: frozenset(names) for role, names in roles.items()},
                aliases=aliases,
            )
        )

    def declare_assets(self, *names: str):
        self.assets = [DeclaredAsset(name=name, uri=f"x://{name}", group="asset", extra="{}") for name in names]

    @property
    def started(self) -> int:
        return self.marks.read_text().count("started") if self.marks.exists() else 0


def with_args(jobs, dag_id, *args):
    job = jobs.programs[dag_id]
    jobs.programs[dag_id] = replace(job, application=job.application.running(job.application.application, args))


@pytest.fixture
def jobs(tmp_path) -> Jobs:
    return Jobs(tmp_path)


def leading(database, owner=HOME, lease=LEASE):
    return Leadership(database=database, owner=owner, heartbeat=lease / 3, lease=lease, on_taken=lambda: None)


def make(
    database,
    jobs,
    *,
    parallelism=4,
    memory_mb=10_000,
    submitter=None,
    submitters=None,
    home=HOME,
    leadership=None,
    lease=LEASE,
):
    dispatcher = Dispatcher(
        database,
        submissions(jobs.programs, **(submitters or {"spark_submit": submitter or plain_python(jobs.folder)})),
        leadership or leading(database, home),
        ProcessInfo(id=home, host="here", pid=1),
        hooks=NO_HOOKS,
        limits=AdmissionLimits(parallelism=parallelism, memory_mb=memory_mb, warm_memory_mb=0),
        lease=lease,
        on_end=lambda: dispatcher.wakeup.set(),  # noqa: PLW0108  it is defined by then
    )
    return dispatcher


@asynccontextmanager
async def dispatching(database, jobs, **options):
    dispatcher = make(database, jobs, **options)
    await dispatcher.leadership.campaign()
    async with anyio.create_task_group() as tasks:
        await tasks.start(dispatcher.run)
        yield dispatcher
        tasks.cancel_scope.cancel()


async def queue(database, jobs, *runs_of):
    async with database.transaction() as session:
        await catalog_sync.apply(
            session,
            Declared(hash="", assets=jobs.assets, watchers=[], aliases={"daily": "asset"}, jobs=jobs.declared),
            database.dialect,
        )
        for number, dag_id in enumerate(runs_of):
            await runs.create_run(
                session, dag_id, f"manual__{number}", dag_id, triggered_by="test", conf="{}", note=None
            )


async def intend(connection, task, home=HOME):
    tag = f"run-{task.key.task_instance_id}-{task.key.try_number}"
    assert await tries.commit_intent(connection, task, home_id=home, tag=tag, token_hash="")


async def rows(database, statement):
    async with database.reading() as session:
        return (await session.execute(statement)).all()


async def states(database):
    return [state for (state,) in await rows(database, select(run.c.state).order_by(run.c.id))]


async def until_states(database, *wanted):
    with anyio.fail_after(PATIENCE):
        while await states(database) != list(wanted):
            await anyio.sleep(0.05)


@on_both
async def test_a_queued_run_is_started_once_and_ends_according_to_its_exit_code(database, jobs):
    jobs.add("good", "")
    jobs.add("bad", "raise SystemExit(3)")
    await queue(database, jobs, "good", "bad")
    async with dispatching(database, jobs):
        await until_states(database, "success", "failed")
    assert jobs.started == 2
    found = await rows(database, select(run.c.reason, run.c.warning).order_by(run.c.id))
    assert "never used the SDK" in found[0].warning
    assert "3" in found[1].reason


@on_both
async def test_a_failed_try_is_repeated_as_often_as_allowed(database, jobs):
    jobs.add("bad", "raise SystemExit(1)", retries=2)
    await queue(database, jobs, "bad")
    async with dispatching(database, jobs):
        await until_states(database, "failed")
    assert jobs.started == 3
    ((number, state),) = await rows(database, select(task_instance.c.try_number, task_instance.c.state))
    assert (number, state) == (3, "failed")


@on_both
async def test_a_failure_that_the_job_reports_as_final_uses_no_retry_and_says_so(database, jobs, tmp_path):
    go = tmp_path / "go"
    jobs.add("bad", WAITING.format(go=str(go)) + "\nraise SystemExit(1)", retries=3)
    await queue(database, jobs, "bad")
    async with dispatching(database, jobs):
        with anyio.fail_after(PATIENCE):
            while not jobs.started:
                await anyio.sleep(0.05)
        ((instance,),) = await rows(database, select(task_instance.c.id))
        ref = TryRef(task_instance_id=instance, try_number=1)
        async with database.transaction() as connection:
            await tries.claim(connection, ref, "nonce")
            await tries.finish(connection, ref, finish_state="failed", message="a.csv is no CSV", is_final=True)
        go.touch()
        await until_states(database, "failed")
    assert jobs.started == 1
    ((reason,),) = await rows(database, select(run.c.reason))
    assert reason == "a.csv is no CSV (not tried again: another try would fail alike)"
    ((used,),) = await rows(database, select(func.count()).where(task_try.c.counted))
    assert used == 0


async def emitted(database):
    names = select(asset.c.name, asset_event.c.extra).join(asset_event, asset_event.c.asset_id == asset.c.id)
    made_by = (asset_event.c.source_dag_id, asset_event.c.source_run_id, asset_event.c.source_task_id)
    return await rows(database, names.add_columns(*made_by).order_by(asset_event.c.id))


@on_both
async def test_a_program_without_the_sdk_emits_its_outlets_events_when_it_succeeds_and_starts_waiting_jobs(
    database, jobs
):
    jobs.declare_assets("orders", "sums", "customers")
    jobs.add("plain", "", outlets={"sums", "orders"}, inlets={"customers"}, aliases={"outlet": frozenset({"daily"})})
    jobs.add("after", "", waits_for={"orders"})
    await queue(database, jobs, "plain")
    async with dispatching(database, jobs):
        await until_states(database, "success")
    made_by = ("plain", "manual__0", "plain")
    assert [tuple(row) for row in await emitted(database)] == [("orders", "{}", *made_by), ("sums", "{}", *made_by)]
    queued = await rows(database, select(queued_event.c.dag_id))
    assert [dag_id for (dag_id,) in queued] == ["after"]


@pytest.mark.parametrize(
    ("program", "state"),
    [
        ("raise SystemExit(1)", "failed"),
        ("import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); time.sleep(600)", "failed"),
    ],
)
async def test_a_program_without_the_sdk_that_fails_or_is_stopped_emits_nothing(database, jobs, program, state):
    jobs.declare_assets("orders")
    jobs.add("plain", program, outlets={"orders"}, timeout=0.5)
    await queue(database, jobs, "plain")
    async with dispatching(database, jobs):
        await until_states(database, state)
    assert await emitted(database) == []


async def test_a_program_that_claimed_its_try_or_was_settled_by_a_person_emits_nothing(database, jobs, tmp_path):
    jobs.declare_assets("orders")
    wait = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.02)\n"
    jobs.add("claimed", wait, outlets={"orders"})
    jobs.add("settled", wait, outlets={"orders"})
    await queue(database, jobs, "claimed", "settled")
    async with dispatching(database, jobs):
        await until_states(database, "running", "running")
        with anyio.fail_after(PATIENCE):
            while jobs.started < 2:
                await anyio.sleep(0.02)
        async with database.transaction() as connection:
            [open_claimed] = [
                each for each in await try_lookup.open_tries(connection, HOME) if each.key.dag_id == "claimed"
            ]
            await tries.claim(
                connection, TryRef(task_instance_id=open_claimed.key.task_instance_id, try_number=1), "a child"
            )
            await decisions.settle(connection, "settled", "manual__1", "success")
        (tmp_path / "go").touch()
        await until_states(database, "failed", "success")
    assert await emitted(database) == []


async def test_arguments_are_rendered_for_the_run(database, jobs, tmp_path):
    jobs.add("load", f"import sys; open({str(tmp_path / 'args')!r}, 'w').write(repr(sys.argv[1:]))\n")
    with_args(jobs, "load", "--run={{ run_id }}", "{{ conf }} {{ try_number }}", "$HOME; x")
    await queue(database, jobs, "load")
    async with dispatching(database, jobs):
        await until_states(database, "success")
    assert (tmp_path / "args").read_text() == repr(["--run=manual__0", "{} 1", "$HOME; x"])


async def test_an_argument_that_cannot_be_rendered_fails_the_run_at_once_despite_its_retries(database, jobs):
    jobs.add("load", "", retries=3)
    with_args(jobs, "load", "x", "{{ triggering_asset_events.orders[-1].extra.key }}")
    await queue(database, jobs, "load")
    async with dispatching(database, jobs):
        await until_states(database, "failed")
    [(reason,)] = await rows(database, select(run.c.reason))
    assert reason == "spark.args[1] cannot be rendered: 'dict object' has no attribute 'orders'"
    assert jobs.started == 0


async def test_max_active_runs_and_parallelism_bound_what_runs(database, jobs):
    jobs.add("one", "import time; time.sleep(0.5)")
    jobs.add("two", "import time; time.sleep(0.5)", max_active_runs=5)
    await queue(database, jobs, "one", "one", "two", "two", "two")
    most = 0
    async with dispatching(database, jobs, parallelism=3):
        with anyio.fail_after(PATIENCE):
            while (now := await states(database)).count("success") < 5:
                most = max(most, now.count("running"))
                ones = await rows(database, select(run.c.state).where(run.c.dag_id == "one", run.c.state == "running"))
                assert len(ones) <= 1
                await anyio.sleep(0.05)
    assert most <= 3
    assert jobs.started == 5


async def details(database):
    found = await rows(database, select(run.c.dag_id, run.c.run_id).order_by(run.c.id))
    async with database.reading() as connection:
        return [task.detail for key in found for task in await task_instances.of_run(connection, *key)]


async def test_a_run_that_does_not_fit_into_memory_keeps_its_place_and_says_why(database, jobs, tmp_path):
    pids = tmp_path / "pids"
    jobs.add("slow", SLEEPER.format(pids=str(pids)))
    jobs.add("large", "", driver_memory="1g")
    jobs.add("usual", "")
    await queue(database, jobs, "slow", "large", "slow", "usual")
    async with dispatching(database, jobs, memory_mb=1200) as dispatcher:
        await until_started(pids)
        with anyio.fail_after(PATIENCE):
            while None in (said := (await details(database))[1:]):
                await anyio.sleep(0.05)
        assert said == [
            (
                "waits for memory: it needs 1062 MB, and running jobs leave less of the 1200 MB "
                "of settings.scheduler.memory_mb"
            ),
            "waits for another run of its job: max_active_runs is 1",
            "waits for its turn behind older runs",
        ]
        assert await states(database) == ["running", "queued", "queued", "queued"]
        for number in (0, 2):
            await settle(database, "failed", f"manual__{number}")
        dispatcher.wakeup.set()
        with anyio.fail_after(PATIENCE):
            while (await states(database))[1::2] != ["success", "success"]:
                await anyio.sleep(0.05)
    assert (await details(database))[1::2] == [None, None]


async def test_a_job_larger_than_the_memory_runs_alone_with_a_warning(database, jobs):
    jobs.add("usual", "import time; time.sleep(0.5)")
    jobs.add("huge", "", driver_memory="100g")
    await queue(database, jobs, "usual", "huge")
    together = []
    with capture_logs() as logs:
        async with dispatching(database, jobs):
            with anyio.fail_after(PATIENCE):
                while (now := await states(database)) != ["success", "success"]:
                    together.append(now.count("running"))
                    await anyio.sleep(0.02)
    assert max(together) == 1
    (warning,) = [entry for entry in logs if entry["event"] == "run.too_large"]
    assert warning["log_level"] == "warning"
    assert "102438 MB, more than the 10000 MB of settings.scheduler.memory_mb: it runs alone" in warning["reason"]


async def test_a_retry_is_started_when_it_is_due_not_at_the_next_check(database, jobs, monkeypatch):
    monkeypatch.setattr("watcher.scheduling.tries.dispatcher.CHECK_EVERY", timedelta(hours=1))
    jobs.add("bad", "raise SystemExit(1)", retries=2, retry_delay=0.2)
    await queue(database, jobs, "bad")
    async with dispatching(database, jobs):
        await until_states(database, "failed")
    assert jobs.started == 3


async def test_a_job_past_its_timeout_is_stopped_and_says_so(database, jobs):
    jobs.add("slow", "import time; time.sleep(600)", timeout=1)
    await queue(database, jobs, "slow")
    async with dispatching(database, jobs):
        await until_states(database, "failed")
    ((reason,),) = await rows(database, select(run.c.reason))
    assert reason == "the job ran longer than its timeout of 1 s and was stopped"


@pytest.mark.parametrize(("code", "state"), [(0, "success"), (3, "failed")])
async def test_a_job_that_ended_while_the_daemon_was_down_longer_than_its_timeout_has_not_timed_out(
    database, jobs, tmp_path, code, state
):
    done = tmp_path / "done"
    jobs.add(
        "quick", f"import time; time.sleep(0.5); open({str(done)!r}, 'w').close(); raise SystemExit({code})", timeout=2
    )
    await queue(database, jobs, "quick")
    with_handle = select(task_try.c.tag).where(task_try.c.handle.is_not(None))
    async with dispatching(database, jobs):
        with anyio.fail_after(PATIENCE):
            while not await rows(database, with_handle):
                await anyio.sleep(0.02)
    with anyio.fail_after(PATIENCE):
        while not list(jobs.folder.glob("**/exit.json")):
            await anyio.sleep(0.02)
    ((began,),) = await rows(database, select(task_try.c.intent_at))
    async with database.transaction() as connection:
        await connection.execute(update(task_try).values(intent_at=began - HOUR))
    async with dispatching(database, jobs):
        await until_states(database, state)
    ((reason,),) = await rows(database, select(run.c.reason))
    assert "timeout" not in (reason or "")


class FailsToCancelOnce(PlainPython):
    """YARN's resource manager does not answer: the driver is stopped, and the call fails."""

    asked = 0

    async def cancel(self, handle, grace):
        await super().cancel(handle, grace)
        self.asked += 1
        if self.asked == 1:
            raise ApplicationsLeft("no resource manager answers")


async def test_a_timeout_is_not_forgotten_if_stopping_the_job_fails_at_first(database, jobs, monkeypatch):
    monkeypatch.setattr("watcher.scheduling.tries.followed_try.CHECK_EVERY", timedelta(seconds=0.2))
    jobs.declare_assets("orders")
    ends_well = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(0)); time.sleep(600)"
    jobs.add("plain", ends_well, outlets={"orders"}, timeout=1)
    await queue(database, jobs, "plain")
    async with dispatching(database, jobs, submitter=FailsToCancelOnce(workspace(jobs.folder))):
        await until_states(database, "failed")
    assert await emitted(database) == []


class WaitsForANode(PlainPython):
    """A cluster without room: until there is some, the driver is submitted and does not start."""

    says = "waits for a node: 0/1 nodes are available: 1 Insufficient memory"
    polls = 0

    async def poll(self, handle):
        self.polls += 1
        return Status(phase="starting", reason=self.says) if self.says else await super().poll(handle)


async def until_detail(database, detail):
    with anyio.fail_after(PATIENCE):
        while await details(database) != [detail]:
            await anyio.sleep(0.05)


async def test_what_a_driver_waits_for_is_shown_on_its_run_until_it_starts(database, jobs):
    jobs.add("slow", "import time; time.sleep(600)", timeout=3600)
    await queue(database, jobs, "slow")
    submitter = WaitsForANode(workspace(jobs.folder))
    async with dispatching(database, jobs, submitter=submitter):
        await until_detail(database, WaitsForANode.says)
        submitter.says = "waits for its image: ErrImagePull"
        await until_detail(database, submitter.says)
    async with dispatching(database, jobs):  # a daemon that knows nothing of what another one showed
        await until_detail(database, None)
        await settle(database, "failed")
        await until_all_have_ended(database)


async def test_what_a_driver_waits_for_changes_nothing_that_a_person_decided(database, jobs):
    jobs.add("slow", "import time; time.sleep(600)")
    await queue(database, jobs, "slow")
    submitter = WaitsForANode(workspace(jobs.folder))
    async with dispatching(database, jobs, submitter=submitter) as dispatcher:
        await until_detail(database, WaitsForANode.says)
        await settle(database, "failed")
        [decided] = await details(database)
        submitter.says, polls = "waits for its image: ErrImagePull", submitter.polls
        with anyio.fail_after(PATIENCE):
            while submitter.polls < polls + 3:
                await anyio.sleep(0.05)
        assert await details(database) == [decided]
        submitter.says = ""
        dispatcher.wakeup.set()
        await until_all_have_ended(database)


class GrantedMeanwhile(PlainPython):
    """A cluster in which the driver of an earlier submission is granted its lease just after nothing of it was found."""

    attachments = 0

    def __init__(self, workspace, database):
        super().__init__(workspace)
        self.database = database

    async def attach(self, key, tag, handle):  # noqa: ARG002
        self.attachments += 1
        if self.attachments > 1:
            raise NotYet("waits until the driver has certainly ended")
        async with self.database.statements() as connection:
            await renewals.renew(connection, key, "", None)
        return Attachment.ABSENT


async def test_a_try_whose_driver_starts_while_its_home_looks_for_it_is_not_submitted_again(database, jobs):
    jobs.add("plain", "")
    await queue(database, jobs, "plain")
    async with database.transaction() as connection:
        [task] = await startable.next_startable(connection)
        await intend(connection, task)
    async with dispatching(database, jobs, submitter=GrantedMeanwhile(workspace(jobs.folder), database)):
        await until_detail(database, "waits until the driver has certainly ended")
    assert not jobs.marks.exists()


class FailsOftenToPoll(PlainPython):
    poll_every = timedelta(seconds=0.2)
    polls = 0

    async def poll(self, handle):
        self.polls += 1
        if self.polls % 4 == 0:
            raise OSError(24, "Too many open files")
        return await super().poll(handle)


class SeldomPolled(PlainPython):
    poll_every = timedelta(seconds=1)

    def __init__(self, workspace):
        super().__init__(workspace)
        self.polled_at = []

    async def poll(self, handle):
        self.polled_at.append(anyio.current_time())
        return await super().poll(handle)


async def test_a_submitter_says_how_often_it_is_polled(database, jobs):
    jobs.add("slow", "import time; time.sleep(3)")
    await queue(database, jobs, "slow")
    submitter = SeldomPolled(workspace(jobs.folder))
    async with dispatching(database, jobs, submitter=submitter):
        await until_states(database, "success")
    first, *_, last = submitter.polled_at
    assert len(submitter.polled_at) <= last - first + 2


async def test_a_timeout_counts_from_the_start_despite_temporary_failures(database, jobs, monkeypatch):
    monkeypatch.setattr("watcher.scheduling.tries.followed_try.CHECK_EVERY", timedelta(seconds=0.2))
    jobs.add("slow", "import time; time.sleep(600)", timeout=2)
    await queue(database, jobs, "slow")
    async with dispatching(database, jobs, submitter=FailsOftenToPoll(workspace(jobs.folder))):
        await until_states(database, "failed")
    ((reason,),) = await rows(database, select(run.c.reason))
    assert reason == "the job ran longer than its timeout of 2 s and was stopped"


async def test_a_run_cleared_while_its_old_process_is_ending_has_all_its_retries(database, jobs, tmp_path):
    first = tmp_path / "first"
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, lambda *_: time.sleep(1) or exit(1)); time.sleep(600)"
    )
    jobs.add(
        "bad",
        f"import os\nif not os.path.exists({str(first)!r}):\n    open({str(first)!r}, 'w').close()\n    {stubborn}\n"
        "raise SystemExit(1)",
        retries=1,
    )
    await queue(database, jobs, "bad")
    async with dispatching(database, jobs) as dispatcher:
        with anyio.fail_after(PATIENCE):
            while not first.exists():
                await anyio.sleep(0.02)
        async with database.transaction() as session:
            await decisions.settle(session, "bad", "manual__0", "failed")
        async with database.transaction() as session:
            await decisions.clear(session, "bad", "manual__0")
        dispatcher.wakeup.set()
        await until_states(database, "failed")
    assert jobs.started == 3, "the cancelled try, the first after the clear, and its one retry"


async def test_a_run_of_a_job_that_the_leading_process_does_not_know_yet_waits_and_says_so(database, jobs):
    jobs.add("gone", "")
    jobs.programs.clear()
    jobs.add("usual", "")
    await queue(database, jobs, "gone", "usual")
    async with dispatching(database, jobs):
        await until_states(database, "queued", "success")
    assert (await details(database))[0] == (
        "waits: the job is not configured in the process that leads; give that process the same file"
    )


async def test_runs_of_one_partition_never_run_at_the_same_time(database, jobs):
    """Those of other keys do, as far as `max_active_runs` lets them; nor do others wait behind them."""
    jobs.add("parts", "", max_active_runs=3, batch={"mode": "per_partition"})
    jobs.add("usual", "", max_active_runs=3)
    await queue(database, jobs)
    async with database.transaction() as session:
        for dag_id in ("parts", "usual"):
            for number, key in enumerate(("a", "a", None, None, "b")):
                more = {"triggered_by": "test", "conf": "{}", "note": None, "partition_key": key}
                await runs.create_run(session, dag_id, f"manual__{number}", dag_id, **more)
    started = []
    async with database.transaction() as session:
        while tasks := await startable.next_startable(session):
            await intend(session, tasks[0])
            started.append((tasks[0].key.dag_id, tasks[0].key.run_id[-1]))
        ended = (run.c.dag_id == "parts", run.c.run_id == "manual__0")
        await session.execute(update(run).where(*ended).values(state="success"))
        (next_one,) = await startable.next_startable(session)
    assert sorted(started) == [
        ("parts", "0"),
        ("parts", "2"),
        ("parts", "4"),
        ("usual", "0"),
        ("usual", "1"),
        ("usual", "2"),
    ]
    assert (next_one.key.dag_id, next_one.key.run_id) == ("parts", "manual__1")


async def test_an_intent_without_a_start_is_submitted_as_the_same_try(database, jobs):
    """The daemon died between the commit of the intent and the start."""
    jobs.add("good", "")
    await queue(database, jobs, "good")
    async with database.transaction() as session:
        (task,) = await startable.next_startable(session)
        await intend(session, task)
    async with dispatching(database, jobs):
        await until_states(database, "success")
    assert jobs.started == 1
    assert [number for (number,) in await rows(database, select(task_try.c.try_number))] == [1]


async def test_a_start_without_a_stored_handle_is_found_again_and_not_repeated(database, jobs):
    jobs.add("good", "import time; time.sleep(1)")
    await queue(database, jobs, "good")
    started = anyio.Event()

    class Lost(PlainPython):
        async def submit(self, submission):
            await super().submit(submission)
            started.set()
            await anyio.sleep_forever()

    async with dispatching(database, jobs, submitter=Lost(workspace(jobs.folder))):
        await started.wait()
    ((handle,),) = await rows(database, select(task_try.c.handle))
    assert handle is None
    async with dispatching(database, jobs):
        await until_states(database, "success")
    assert jobs.started == 1


@on_both
async def test_a_running_job_outlives_the_dispatcher_and_is_followed_again(database, jobs):
    jobs.add("good", "import time; time.sleep(1.5)")
    await queue(database, jobs, "good")
    async with dispatching(database, jobs):
        await until_states(database, "running")
        with anyio.fail_after(PATIENCE):
            while jobs.started < 1:
                await anyio.sleep(0.05)
    async with dispatching(database, jobs):
        await until_states(database, "success")
    assert jobs.started == 1


async def test_stopping_with_the_jobs_uses_up_no_retry_and_they_start_again(database, jobs):
    jobs.add("once", f"import time; time.sleep(600 if open({str(jobs.marks)!r}).read().count('started') == 1 else 0)")
    await queue(database, jobs, "once")
    async with dispatching(database, jobs) as dispatcher:
        with anyio.fail_after(PATIENCE):
            while jobs.started < 1:
                await anyio.sleep(0.05)
        await dispatcher.cancel_all()
    assert await states(database) == ["running"]
    async with dispatching(database, jobs):
        await until_states(database, "success")
    assert jobs.started == 2
    counted = [one for (one,) in await rows(database, select(task_try.c.counted).order_by(task_try.c.try_number))]
    assert counted == [False, True]


@pytest.mark.parametrize(("restarted", "ends"), [(True, "success"), (False, "failed")])
async def test_a_lost_try_keeps_its_retry_only_after_a_restart_of_the_machine(
    database, jobs, tmp_path, restarted, ends
):
    pids = tmp_path / "pids"
    jobs.add("slow", SLEEPER.format(pids=str(pids)) + f" if open({str(pids)!r}).read().count('\\n') == 1 else None")
    await queue(database, jobs, "slow")
    async with dispatching(database, jobs):
        await until_started(pids)
    (marker,) = tmp_path.glob("runs/slow/*/1/started.json")
    started = json.loads(marker.read_text())
    os.kill(started["pid"], signal.SIGKILL)
    for pid in alive(pids):
        os.kill(int(pid), signal.SIGKILL)
    if restarted:
        marker.write_text(json.dumps(started | {"boot_id": str(uuid.uuid4())}))
    async with dispatching(database, jobs):
        await until_states(database, ends)
    assert jobs.started == (2 if restarted else 1)
    first = (await rows(database, select(task_try.c.counted, task_try.c.message).order_by(task_try.c.try_number)))[0]
    assert first.counted == (not restarted)
    assert ("restart of its machine" in first.message) == restarted


async def test_another_homes_tries_are_left_alone_while_it_is_alive(database, jobs):
    other = str(uuid.uuid4())
    jobs.add("theirs", "")
    await queue(database, jobs, "theirs")
    async with database.transaction() as session:
        (task,) = await startable.next_startable(session)
        await intend(session, task, other)
        await triggerers.beat_dispatcher(session, ProcessInfo(id=other, host="there", pid=1), HOUR, database.dialect)
    async with dispatching(database, jobs, lease=timedelta(0)) as dispatcher:
        await dispatcher._starter.look()
    assert jobs.started == 0
    assert await states(database) == ["running"]


SLEEPER = "import os, time; open({pids!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(600)"


def alive(pids):
    return [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()]


async def until_started(pids):
    with anyio.fail_after(PATIENCE):
        while not pids.exists() or not pids.read_text():
            await anyio.sleep(0.05)


async def settle(database, state, run_id="manual__0"):
    async with database.transaction() as session:
        await decisions.settle(session, "slow", run_id, state)


async def until_all_have_ended(database):
    with anyio.fail_after(PATIENCE):
        while (None,) in await rows(database, select(task_try.c.ended_at)):
            await anyio.sleep(0.05)


@on_both
@pytest.mark.parametrize("state", ["failed", "success"])
async def test_a_settled_run_has_its_driver_stopped_and_is_not_repeated(database, jobs, tmp_path, state):
    pids = tmp_path / "pids"
    jobs.add("slow", SLEEPER.format(pids=str(pids)), retries=3)
    await queue(database, jobs, "slow")
    async with dispatching(database, jobs) as dispatcher:
        await until_started(pids)
        await settle(database, state)
        assert await states(database) == [state]
        dispatcher.wakeup.set()
        await until_all_have_ended(database)
    assert alive(pids) == []
    assert await states(database) == [state]
    ((task, number),) = await rows(database, select(task_instance.c.state, task_instance.c.try_number))
    assert (task, number) == (state, 1)


async def test_a_run_cancelled_while_the_daemon_was_down_is_stopped_at_its_start(database, jobs, tmp_path):
    pids = tmp_path / "pids"
    jobs.add("slow", SLEEPER.format(pids=str(pids)))
    await queue(database, jobs, "slow")
    async with dispatching(database, jobs):
        await until_started(pids)
    await settle(database, "failed")
    assert len(alive(pids)) == 1
    async with dispatching(database, jobs) as dispatcher:
        with anyio.fail_after(PATIENCE):
            while alive(pids):
                dispatcher.wakeup.set()
                await anyio.sleep(0.1)
        await until_all_have_ended(database)
    assert await states(database) == ["failed"]


async def test_an_intent_that_was_cancelled_is_not_started(database, jobs):
    jobs.add("slow", "")
    await queue(database, jobs, "slow")
    async with database.transaction() as session:
        (task,) = await startable.next_startable(session)
        await intend(session, task)
    await settle(database, "failed")
    async with dispatching(database, jobs):
        await until_all_have_ended(database)
    assert (jobs.started, await states(database)) == (0, ["failed"])


async def test_a_cleared_run_starts_over_with_all_its_retries(database, jobs):
    jobs.add("bad", "raise SystemExit(1)", retries=1)
    await queue(database, jobs, "bad")
    async with dispatching(database, jobs) as dispatcher:
        await until_states(database, "failed")
        assert jobs.started == 2
        async with database.transaction() as session:
            await decisions.clear(session, "bad", "manual__0")
        assert await states(database) == ["queued"]
        dispatcher.wakeup.set()
        await until_states(database, "failed")
    assert jobs.started == 4


async def test_a_run_cleared_before_its_old_process_has_ended_waits_for_that(database, jobs, tmp_path):
    pids = tmp_path / "pids"
    jobs.add("slow", SLEEPER.format(pids=str(pids)) + f" if open({str(pids)!r}).read().count('\\n') == 1 else None")
    await queue(database, jobs, "slow")
    async with dispatching(database, jobs):
        await until_started(pids)
    await settle(database, "failed")
    async with database.transaction() as session:
        await decisions.clear(session, "slow", "manual__0")
        assert await startable.next_startable(session) == []
    async with dispatching(database, jobs) as dispatcher:
        with anyio.fail_after(PATIENCE):
            while jobs.started < 2:
                dispatcher.wakeup.set()
                await anyio.sleep(0.1)
        assert len(alive(pids)) <= 1
        await settle(database, "failed")
        dispatcher.wakeup.set()
        await until_all_have_ended(database)
    assert jobs.started == 2


async def test_a_handle_that_is_stored_late_does_not_hide_that_the_run_was_cleared(database, jobs):
    """The daemon died between the start and the handle; then people cancelled the run and cleared it."""
    jobs.add("slow", "")
    await queue(database, jobs, "slow")
    async with database.transaction() as session:
        (task,) = await startable.next_startable(session)
        await intend(session, task)
    await settle(database, "failed")
    async with database.transaction() as session:
        await decisions.clear(session, "slow", "manual__0")
    async with database.transaction() as session:
        await tries.store_handle(session, await try_lookup.open_try(session, task.key), "{}")
    assert await rows(database, select(task_instance.c.state)) == [("queued",)]


@on_both
async def test_the_tries_of_a_home_that_is_gone_are_fenced_and_start_again_elsewhere(database, jobs):
    jobs.add("theirs", "")
    await queue(database, jobs, "theirs")
    other = str(uuid.uuid4())
    async with database.transaction() as session:
        (task,) = await startable.next_startable(session)
        await intend(session, task, other)
        gone = ProcessInfo(id=other, host="there", pid=1)
        await triggerers.beat_dispatcher(session, gone, timedelta(seconds=-1), database.dialect)
    async with dispatching(database, jobs, lease=timedelta(seconds=0)):
        await until_states(database, "success")
    assert jobs.started == 1
    found = await rows(database, select(task_try.c.home_id, task_try.c.counted).order_by(task_try.c.try_number))
    assert [tuple(row) for row in found] == [(other, False), (HOME, True)]
    with pytest.raises(TryFenced):
        async with database.transaction() as session:
            await tries.fence(session, TryRef(task_instance_id=task.key.task_instance_id, try_number=1))


async def test_a_home_that_lost_its_tries_stops_their_drivers_when_it_wakes_up(database, jobs, tmp_path):
    pids = tmp_path / "pids"
    jobs.add("slow", SLEEPER.format(pids=str(pids)))
    await queue(database, jobs, "slow")
    async with dispatching(database, jobs) as dispatcher:
        await until_started(pids)
        dispatcher.leadership._epoch = None  # as long as it slept, another leads
        async with database.transaction() as session:
            gone = ProcessInfo(id=HOME, host="here", pid=1)
            await triggerers.beat_dispatcher(session, gone, timedelta(seconds=-1), database.dialect)
        elsewhere = make(database, jobs, home=str(uuid.uuid4()), leadership=leading(database), lease=timedelta(0))
        await elsewhere.leadership.campaign()
        await elsewhere._starter.look()
        with anyio.fail_after(PATIENCE):
            while alive(pids):
                dispatcher.wakeup.set()
                await anyio.sleep(0.1)


async def test_a_standby_starts_nothing_but_follows_its_own_tries(database, jobs):
    jobs.add("first", "import time; time.sleep(1)")
    jobs.add("second", "")
    await queue(database, jobs, "first", "second")
    async with dispatching(database, jobs, parallelism=1):
        await until_states(database, "running", "queued")
    async with database.transaction() as session:
        await session.execute(
            update(leader).values(owner=str(uuid.uuid4()), epoch=leader.c.epoch + 1, expires_at=NEVER)
        )
    async with dispatching(database, jobs) as dispatcher:
        assert not dispatcher.leadership.leads
        await until_states(database, "success", "queued")
        dispatcher.wakeup.set()
    assert await states(database) == ["success", "queued"]


async def test_after_an_outage_each_home_has_a_lease_to_report_and_no_home_gives_up_itself(database, jobs, tmp_path):
    pids = tmp_path / "pids"
    jobs.add("slow", SLEEPER.format(pids=str(pids)))
    await queue(database, jobs, "slow")
    async with dispatching(database, jobs) as dispatcher:
        await until_started(pids)
        async with database.transaction() as session:
            slept = ProcessInfo(id=HOME, host="here", pid=1)
            await triggerers.beat_dispatcher(session, slept, timedelta(seconds=-1), database.dialect)
        dispatcher._starter.lease = timedelta(0)
        await dispatcher._starter.look()
        other = make(database, jobs, home=str(uuid.uuid4()), leadership=dispatcher.leadership)
        await other._starter.look()
        assert await rows(database, select(task_try.c.ended_at)) == [(None,)]
        await settle(database, "failed")
        dispatcher.wakeup.set()
        await until_all_have_ended(database)


class Telling(PlainPython):
    """A job whose progress Spark's UI could report."""

    asked = 0

    async def progress(self, handle):
        assert handle["tag"]
        self.asked += 1
        return Progress(stages=1, tasks=10, tasks_done=self.asked)


@pytest.mark.parametrize("claimed", [False, True])
async def test_the_progress_of_a_job_is_recorded_unless_it_reports_its_own(
    database, jobs, tmp_path, monkeypatch, claimed
):
    monkeypatch.setattr("watcher.scheduling.tries.followed_try.PROGRESS_EVERY", timedelta(milliseconds=50))
    pids, submitter = tmp_path / "pids", Telling(workspace(tmp_path))
    jobs.add("slow", SLEEPER.format(pids=str(pids)))
    await queue(database, jobs, "slow")
    async with database.transaction() as session:
        (task,) = await startable.next_startable(session)
        await intend(session, task)
        if claimed:
            await tries.claim(session, TryRef(task_instance_id=task.key.task_instance_id, try_number=1), "nonce")
    async with dispatching(database, jobs, submitter=submitter) as dispatcher:
        with anyio.fail_after(PATIENCE):
            while not pids.exists() if claimed else submitter.asked < 3:
                await anyio.sleep(0.05)
        if not claimed:
            with anyio.fail_after(PATIENCE):
                while (await rows(database, select(task_try.c.progress)))[0].progress is None:
                    await anyio.sleep(0.05)
        await settle(database, "failed")
        dispatcher.wakeup.set()
        await until_all_have_ended(database)
    ((progress, cost),) = await rows(database, select(task_try.c.progress, task_try.c.cost))
    assert {"cpu_seconds", "peak_memory_mb"} <= json.loads(cost).keys()
    if claimed:
        assert (progress, submitter.asked) == (None, 0)
    else:
        assert json.loads(progress).keys() == {"stages", "tasks", "tasks_done"}


async def test_a_job_has_time_to_report_its_own_progress_before_its_driver_is_asked(database, jobs, tmp_path):
    submitter = Telling(workspace(tmp_path))
    jobs.add("quick", "import time; time.sleep(0.5)")
    await queue(database, jobs, "quick")
    async with dispatching(database, jobs, submitter=submitter):
        await until_states(database, "success")
    assert submitter.asked == 0


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    with running_cluster(tmp_path / "cluster") as address:
        monkeypatch.setenv(ADDRESS, address)
        yield


REMOTE = "tests.plugins.remote_cluster.RemoteCluster"
WAITING = "import os, time\nwhile not os.path.exists({go!r}): time.sleep(0.05)"


def remote(folder):
    """A home in which jobs may name the cluster's submitter."""
    return {"spark_submit": plain_python(folder), REMOTE: RemoteCluster(workspace(folder))}


@pytest.mark.usefixtures("cluster")
async def test_another_home_attaches_to_the_running_driver_of_a_killed_home(database, jobs, tmp_path):
    go, elsewhere = tmp_path / "go", str(uuid.uuid4())
    jobs.add("remote", WAITING.format(go=str(go)), submitter=REMOTE)
    await queue(database, jobs, "remote")
    async with dispatching(database, jobs, submitters=remote(tmp_path / "one")):
        with anyio.fail_after(PATIENCE):
            while jobs.started < 1:
                await anyio.sleep(0.05)
    async with database.transaction() as connection:
        gone = ProcessInfo(id=HOME, host="there", pid=1)
        await triggerers.beat_dispatcher(connection, gone, timedelta(seconds=-1), database.dialect)
    with capture_logs() as logs:
        async with dispatching(
            database,
            jobs,
            submitters=remote(tmp_path / "two"),
            home=elsewhere,
            leadership=leading(database),
            lease=timedelta(0),
        ) as dispatcher:
            with anyio.fail_after(PATIENCE):
                while "run.attached" not in [entry["event"] for entry in logs]:
                    dispatcher.wakeup.set()
                    await anyio.sleep(0.05)
            assert await states(database) == ["running"]
            go.touch()
            await until_states(database, "success")
    assert jobs.started == 1
    ((home, number, submitter),) = await rows(
        database, select(task_try.c.home_id, task_try.c.try_number, task_try.c.submitter)
    )
    assert (home, number, submitter) == (elsewhere, 1, REMOTE)


@pytest.mark.usefixtures("cluster")
async def test_a_home_leaves_alone_a_driver_that_another_home_has_taken_over(database, jobs, tmp_path):
    go = tmp_path / "go"
    jobs.add("remote", WAITING.format(go=str(go)), submitter=REMOTE)
    await queue(database, jobs, "remote")
    with capture_logs() as logs:
        async with dispatching(database, jobs, submitters=remote(tmp_path)) as dispatcher:
            with anyio.fail_after(PATIENCE):
                while jobs.started < 1:
                    await anyio.sleep(0.05)
            async with database.transaction() as connection:
                await connection.execute(update(task_try).values(home_id=str(uuid.uuid4())))
            with anyio.fail_after(PATIENCE):
                while dispatcher._followed:
                    dispatcher.wakeup.set()
                    await anyio.sleep(0.05)
    assert "run.left_to_another_home" in [entry["event"] for entry in logs]
    assert await rows(database, select(task_try.c.ended_at)) == [(None,)]
    go.touch()


@pytest.mark.parametrize("home", [HOME, "55555555-5555-5555-5555-555555555555"])
async def test_a_try_whose_submitter_is_not_configured_any_more_is_left_alone(database, jobs, home):
    jobs.add("remote", "", submitter=REMOTE)
    await queue(database, jobs, "remote")
    async with database.transaction() as connection:
        (task,) = await startable.next_startable(connection)
        await intend(connection, task, home)
        gone = ProcessInfo(id=home, host="there", pid=1)
        await triggerers.beat_dispatcher(connection, gone, timedelta(seconds=-1), database.dialect)
    with capture_logs() as logs:
        async with dispatching(database, jobs, lease=timedelta(0)) as dispatcher:
            with anyio.fail_after(PATIENCE):
                while (await rows(database, select(run.c.warning)))[0].warning is None:
                    dispatcher.wakeup.set()
                    await anyio.sleep(0.05)
            await dispatcher._starter.look()
    ((warning, state),) = await rows(database, select(run.c.warning, run.c.state))
    assert warning.startswith(f"the submitter {REMOTE} is not configured any more")
    assert state == "running"
    assert await rows(database, select(task_try.c.ended_at, task_try.c.home_id)) == [(None, home)]
    assert [entry["reason"] for entry in logs if entry["event"] == "run.submitter_unknown"] == [warning]


async def test_a_run_whose_submitter_is_not_configured_waits_and_says_so(database, jobs):
    jobs.add("remote", "", submitter=REMOTE)
    jobs.add("usual", "")
    await queue(database, jobs, "remote", "usual")
    async with dispatching(database, jobs):
        await until_states(database, "queued", "success")
    assert (await details(database))[0] == (
        f"waits: the submitter {REMOTE} is not configured in the process that leads"
    )


class StandInWarmDrivers:
    """The warm drivers of a third party's submitter; it records the dispatcher's requests."""

    def __init__(self):
        self.requests = None
        self.conditions = None
        self.states = {"starting": 1, "ready": 2}

    def adopt(self, requests):
        self.requests = requests

    async def run(self, conditions, *, task_status=anyio.TASK_STATUS_IGNORED):
        self.conditions = conditions
        task_status.started()
        await anyio.sleep_forever()


async def test_any_submitter_may_have_warm_drivers_for_its_own_jobs(database, jobs):
    jobs.add("usual", "")
    jobs.add("elsewhere", "", submitter="elsewhere")
    jobs.programs["elsewhere"] = replace(jobs.programs["elsewhere"], warm=3)
    submitter = plain_python(jobs.folder)
    warm = submitter.warm = StandInWarmDrivers()
    others = RemoteCluster(workspace(jobs.folder))
    async with dispatching(database, jobs, submitters={"spark_submit": others, "elsewhere": submitter}) as dispatcher:
        added = plain_python(jobs.folder)
        added_warm = added.warm = StandInWarmDrivers()
        assert [(request.dag_id, request.count) for request in warm.requests] == [("elsewhere", 3)]
        assert (warm.conditions.memory_mb, warm.conditions.running_mb(), warm.conditions.may_start()) == (
            10_000,
            0,
            True,
        )
        jobs.programs["elsewhere"] = replace(jobs.programs["elsewhere"], warm=1)
        submitters = {**dispatcher.submissions.submitters, "added": added}
        dispatcher.adopt(replace(dispatcher.submissions, jobs=dict(jobs.programs), submitters=submitters), None)
        assert [request.count for request in warm.requests] == [1]
        with anyio.fail_after(PATIENCE):
            while added_warm.conditions is None:
                await anyio.sleep(0.02)


class LeavesSomething(PlainPython):
    """Its ended tries leave something, which it removes at the second attempt."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked = []

    def kept_for(self, handle):
        assert handle is not None
        return timedelta(0)

    async def forget(self, key, tag, handle):
        self.asked.append((key.dag_id, tag, handle["tag"]))
        if len(self.asked) == 1:
            raise OSError("the cluster does not answer")


async def test_what_a_try_left_is_removed_after_its_end_until_that_succeeds(database, jobs, monkeypatch):
    monkeypatch.setattr("watcher.scheduling.tries.dispatcher.CHECK_EVERY", timedelta(seconds=0.05))
    monkeypatch.setattr("watcher.scheduling.tries.forgetting.AGAIN_AFTER", timedelta(0))
    jobs.add("quick", "")
    await queue(database, jobs, "quick")
    submitter = LeavesSomething(workspace(jobs.folder))
    left = select(task_try.c.tag, task_try.c.ended_at, task_try.c.forget_at)
    async with dispatching(database, jobs, submitter=submitter):
        with anyio.fail_after(PATIENCE):
            while len(submitter.asked) < 2 or (await rows(database, left))[0].forget_at is not None:
                await anyio.sleep(0.05)
    ((tag, ended_at, _),) = await rows(database, left)
    assert submitter.asked == [("quick", tag, tag)] * 2
    assert ended_at is not None
