"""Makes the class archives that are missing, in the background: no job waits for one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from shutil import rmtree
from typing import Final

import anyio
import structlog
from anyio.abc import Process
from anyio.to_thread import run_sync

from watcher.retries import keep_going
from watcher.submit import archive_building
from watcher.submit.base import SparkApplication, SubmitError
from watcher.submit.class_archive import archive_name, archives_of, find_archive
from watcher.submit.spark_submit import Runtime, SparkSubmit

QUIET_AT_FIRST: Final = timedelta(minutes=1)
LOOK_EVERY: Final = timedelta(seconds=2)

log = structlog.get_logger()


class ArchiveMaker:
    """Sees to the archives of these applications once, `after` a while, whenever `idle` says that nothing runs."""

    def __init__(
        self,
        submitter: SparkSubmit,
        applications: Iterable[SparkApplication],
        idle: Callable[[], bool],
        *,
        after: timedelta = QUIET_AT_FIRST,
    ) -> None:
        self._submitter = submitter
        self._applications = [one for one in applications if one.profile == "small"]
        self._idle = idle
        self._after = after

    async def run(self) -> None:
        """Until every archive is there or is known not to be possible; when cancelled, nothing of it goes on."""
        if not self._applications:
            return
        await anyio.sleep(self._after.total_seconds())
        async with keep_going("archive.failed"):
            runtimes = await run_sync(self._runtimes)
            await run_sync(self._sweep, runtimes.keys())
            for name, runtime in runtimes.items():
                if find_archive(self._submitter.home, runtime.java, runtime.spark_home) is None:
                    while not self._idle():  # noqa: ASYNC110  a moment's delay more or less is nothing here
                        await anyio.sleep(LOOK_EVERY.total_seconds())
                    await self._make(name, runtime)

    def _runtimes(self) -> dict[str, Runtime]:
        """By the archive's name. A runtime that lacks something is told when its job starts."""
        found = {}
        for application in self._applications:
            with suppress(SubmitError):
                runtime = self._submitter.runtime_of(application)
                found[archive_name(runtime.java, runtime.spark_home)] = runtime
        return found

    async def _make(self, name: str, runtime: Runtime) -> None:
        log.info("archive.making", archive=name, java=str(runtime.java))
        process = await anyio.open_process(
            [
                *(sys.executable, "-m", archive_building.__name__, "--while-stdin"),
                *("--python", runtime.python, "--spark-home", str(runtime.spark_home)),
                str(archives_of(self._submitter.home)),
            ],
            stdin=subprocess.PIPE,  # held open by this process alone: it ends with us, even by SIGKILL
            stdout=subprocess.PIPE,
            env={**self._submitter.environment, "JAVA_HOME": str(runtime.java)},
            start_new_session=True,
        )
        try:
            said = b"".join([chunk async for chunk in process.stdout]) if process.stdout else b""
            code = await process.wait()
        finally:
            await _end(process)
        if code == 0:
            log.info("archive.made", archive=name)
        else:
            log.warning("archive.failed", archive=name, reason=said.decode(errors="replace").strip())

    def _sweep(self, wanted: Iterable[str]) -> None:
        """Away with archives of a Java or a Spark that no job uses any more, and with what was killed half made.

        A JVM that has one open keeps it, and one that comes too late goes without.
        """
        folder = archives_of(self._submitter.home)
        for archive in folder.glob("*.jsa"):
            if archive.name not in wanted:
                archive.unlink(missing_ok=True)
        for unfinished in folder.glob(f"{archive_building.UNFINISHED}*"):
            rmtree(unfinished, ignore_errors=True)


async def _end(process: Process) -> None:
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        await process.aclose()
