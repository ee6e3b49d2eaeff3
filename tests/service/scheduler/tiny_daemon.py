"""The scheduling half of a daemon as a process of its own: `python -m tests.service.scheduler.tiny_daemon URL FOLDER HOME`."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path

import anyio

from store.database import Database
from store.detection.interest import NO_HOOKS
from store.processes.triggerers import ProcessInfo
from tests.schedulers import make_scheduler
from tests.unit.submit.plain import plain_python, submissions
from watcher.host.leader_election import Leadership
from watcher.host.metadata import keep_unfrozen
from watcher.scheduling.tries.admission import AdmissionLimits
from watcher.scheduling.tries.dispatcher import Dispatcher
from watcher.scheduling.tries.submissions import JobToStart
from watcher.submit.base import SparkApplication

LEASE = timedelta(seconds=2)
PROGRAM = "import os; open({marks!r}, 'a').write(os.environ['ASSET_JOB_CONTEXT'] + chr(10))"


async def main(url: str, folder: Path, home: str) -> None:
    program = folder / f"{home}.py"
    program.write_text(PROGRAM.format(marks=str(folder / "marks")))
    job = JobToStart(application=SparkApplication(application=str(program), conf={}, env={}), connections={})
    jobs = dict.fromkeys(("one", "two"), job)
    async with Database.open(url, idle_in_transaction_timeout=1) as database:
        leadership = Leadership(
            database=database,
            owner=home,
            heartbeat=LEASE / 4,
            lease=LEASE,
            on_taken=lambda: wake(),  # noqa: PLW0108  it is defined below
        )
        dispatcher = Dispatcher(
            database,
            submissions(jobs, spark_submit=plain_python(folder / home)),
            leadership,
            ProcessInfo(id=home, host="here", pid=os.getpid()),
            hooks=NO_HOOKS,
            limits=AdmissionLimits(parallelism=3, memory_mb=10_000, warm_memory_mb=0),
            lease=LEASE,
            on_end=lambda: wake(),  # noqa: PLW0108  likewise
        )
        scheduler = make_scheduler(database, leadership, on_runs=dispatcher.wakeup.set)

        def wake() -> None:
            scheduler.wakeup.set()
            dispatcher.wakeup.set()

        async def look_often() -> None:
            while True:
                await anyio.sleep(0.2)
                wake()

        async with anyio.create_task_group() as tasks:
            await tasks.start(keep_unfrozen, database)
            await tasks.start(leadership.run)
            await tasks.start(scheduler.run)
            await tasks.start(dispatcher.run)
            tasks.start_soon(look_often)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]), sys.argv[3])
