"""Two daemons on one PostgreSQL: the leader is killed, or stopped and resumed; every event has one run."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections import Counter
from contextlib import contextmanager

import anyio
import pytest
from sqlalchemy import select

from store.database import Database
from store.database.schema import leader, run, task_try
from tests.effort import PATIENCE, effort
from tests.service.scheduler.settings import configure, consumed, job_on, queued, tell

pytestmark = pytest.mark.service
EVENTS = effort(150, 3000)


@contextmanager
def daemons(url, folder):
    running = {}

    def start(home):
        with (folder / f"{home}.log").open("ab") as log:
            words = [sys.executable, "-m", "tests.service.scheduler.tiny_daemon", url, str(folder), home]
            running[home] = subprocess.Popen(words, stdout=log, stderr=log)

    try:
        yield running, start
    finally:
        for process in running.values():
            process.kill()
            process.wait()


async def leading(database, not_=None):
    with anyio.fail_after(PATIENCE):
        while True:
            async with database.reading() as session:
                home = (await session.execute(select(leader.c.owner))).scalar_one_or_none()
            if home not in {None, not_}:
                return home
            await anyio.sleep(0.05)


@pytest.mark.slow
async def test_no_run_is_duplicated_or_missing_while_leaders_die_and_sleep(database_url, tmp_path):
    url = database_url
    async with Database.open(url) as database:
        ids = await configure(database, [job_on("one", "a", max_events=25), job_on("two", {"all": ["a", "b"]})])
        homes = [str(uuid.uuid4()) for _ in range(2)]
        with daemons(url, tmp_path) as (running, start):
            for home in homes:
                start(home)
            told = []

            async def arrive(share):
                for _ in range(EVENTS // 5 // share):
                    told.extend(await tell(database, *[ids["a"]] * 4, ids["b"]))
                    await anyio.sleep(0.01)

            first = await leading(database)
            await arrive(3)
            running[first].send_signal(signal.SIGSTOP)
            await arrive(3)
            second = await leading(database, not_=first)
            await arrive(6)
            running[first].send_signal(signal.SIGCONT)
            await arrive(6)
            running[second].kill()
            running[second].wait()
            await leading(database, not_=second)
            start(second)
            while len(told) < EVENTS:
                told.extend(await tell(database, ids["a"], ids["b"]))
            with anyio.fail_after(PATIENCE):
                while await unfinished(database):
                    await anyio.sleep(0.2)
        for dag_id, every in (("one", told), ("two", told)):
            used = Counter(event for events in (await consumed(database, dag_id)).values() for event in events)
            left = await queued(database, dag_id)
            assert max(used.values()) == 1
            wanted = set(every) if dag_id == "two" else {e for e in every if e in used or e in left}
            assert wanted == set(used) | set(left)
        async with database.reading() as session:
            states = Counter((await session.execute(select(run.c.state))).scalars())
            tries = Counter(row.try_number for row in await session.execute(select(task_try.c.try_number)))
    starts = Counter((tmp_path / "marks").read_text().split())
    assert set(starts.values()) == {1}, "a try starts once, whoever leads"
    assert set(states) == {"success"}
    print(f"{len(told)} events, {sum(states.values())} runs, tries {dict(tries)}")  # noqa: T201


async def unfinished(database):
    if await queued(database, "one") or await queued(
        database, "two"
    ):  # first, because queued events become runs meanwhile
        return True
    async with database.reading() as session:
        return bool((await session.execute(select(run.c.id).where(run.c.state.in_(["queued", "running"])))).all())
