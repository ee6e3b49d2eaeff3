"""The daemon dies at every boundary of every transaction of a run's life; the run starts once and ends."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
import pytest
from sqlalchemy import select

from store.database.schema import run, task_try
from store.detection.interest import NO_HOOKS
from store.processes.triggerers import ProcessInfo
from tests.effort import PATIENCE
from tests.schedulers import make_scheduler
from tests.service.scheduler.settings import HOME, configure, consumed, job_on, queued, tell
from tests.unit.submit.plain import plain_python, submissions
from watcher.host.leader_election import Leadership
from watcher.scheduling.tries.admission import AdmissionLimits
from watcher.scheduling.tries.dispatcher import Dispatcher
from watcher.scheduling.tries.submissions import JobToStart
from watcher.submit.base import SparkApplication

pytestmark = pytest.mark.service
LEASE = timedelta(seconds=15)
MOST_TRANSACTIONS = 20


class Killed(BaseException):
    """The death of the process. None of our handlers catches it, so nothing more happens."""


@asynccontextmanager
async def dying(database, at, when):
    """The write with number `at` never begins, or is the last thing that happens."""
    originals, count = {name: getattr(database, name) for name in ("transaction", "statements")}, 0

    def counted(original):
        @asynccontextmanager
        async def writing():
            nonlocal count
            count += 1
            mine = count
            if mine >= at and when == "before":
                raise Killed
            async with original() as session:
                yield session
            if mine >= at:
                raise Killed

        return writing

    for name, original in originals.items():
        setattr(database, name, counted(original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(database, name, original)


async def live(database, folder):
    """Run a daemon's scheduling half until the run has ended."""
    leadership = Leadership(database=database, owner=HOME, heartbeat=LEASE / 3, lease=LEASE, on_taken=lambda: None)
    jobs = {"load": JobToStart(application=application(folder), connections={})}
    dispatcher = Dispatcher(
        database,
        submissions(jobs, spark_submit=plain_python(folder)),
        leadership,
        ProcessInfo(id=HOME, host="here", pid=1),
        hooks=NO_HOOKS,
        limits=AdmissionLimits(parallelism=1, memory_mb=10_000, warm_memory_mb=0),
        lease=LEASE,
        on_end=lambda: dispatcher.wakeup.set(),  # noqa: PLW0108  it is defined by then
    )
    scheduler = make_scheduler(database, leadership, on_runs=dispatcher.wakeup.set)
    async with anyio.create_task_group() as tasks:
        await leadership.campaign()
        await tasks.start(scheduler.run)
        await tasks.start(dispatcher.run)
        with anyio.fail_after(PATIENCE):
            while await ends(database) != [True]:
                await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()


async def died(database, folder, at, when):
    killed = False
    try:
        async with dying(database, at, when):
            await live(database, folder)
    except* Killed:
        killed = True
    return killed


async def ends(database):
    async with database.reading() as session:
        return [ended is not None for (ended,) in await session.execute(select(task_try.c.ended_at))]


def application(folder):
    program = folder / "job.py"
    program.write_text(f"open({str(folder / 'marks')!r}, 'a').write('x')")
    return SparkApplication(application=str(program), conf={}, env={})


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
async def test_a_run_is_created_started_and_ended_once_wherever_the_daemon_dies(database, tmp_path, when):
    ids = await configure(database, [job_on("load", "a")])
    for at in range(1, MOST_TRANSACTIONS):
        folder = tmp_path / str(at)
        folder.mkdir()
        async with database.transaction() as session:
            await session.execute(task_try.delete())
        (event,) = await tell(database, ids["a"])
        if not await died(database, folder, at, when):
            assert at > 5, "a run's life has more boundaries than that"
            break
        await live(database, folder)
        assert (folder / "marks").read_text() == "x", (at, when)
        assert list((await consumed(database, "load")).values())[-1] == [event]
        assert await queued(database, "load") == []
    else:
        pytest.fail("it never lived to the end")
    async with database.reading() as session:
        states = (await session.execute(select(run.c.state))).scalars().all()
    assert set(states) == {"success"}
    assert len(states) == at
