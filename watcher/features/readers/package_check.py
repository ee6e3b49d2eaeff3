"""Whether the Python of each job has the packages that it reads and writes with, for `watcher check --connect`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import anyio
from anyio import run_process

from config.models import INGEST, Configuration, JobConfig
from config.models.schedules import AssetCondition, references
from store.database import Database
from triggers.base import Finding
from watcher.configuration.findings import Findings, judged

_READERS: Final[Mapping[str | None, Sequence[str]]] = {
    None: ("pyarrow",),
    "s3": ("pyarrow", "obstore"),
    "postgres": ("pyarrow", "adbc_driver_manager", "adbc_driver_postgresql"),
}
"""The modules that read a source, by the type of its watcher's connection; None: files of a folder."""
_TABLES: Final[Mapping[str, Sequence[str]]] = {
    "delta": ("pyarrow", "obstore", "deltalake"),
    "iceberg": ("pyarrow", "obstore", "pyiceberg"),
}
"""The modules that write a table, by its format. Parquet on S3 needs what reads from there."""
_ASK: Final = "import importlib.util as u, json, sys; print(json.dumps([name for name in sys.argv[1:] if u.find_spec(name) is None]))"


async def check(configuration: Configuration, database: Database | None) -> Findings:  # noqa: ARG001  it needs none
    """Ask the Python of each job that runs on this machine. That of an image, or of another machine, is not asked."""
    findings: dict[str, Sequence[Finding]] = {}

    async def judge(dag_id: str, job: JobConfig) -> None:
        asked = partial(_of_job, configuration, job)
        findings[dag_id] = await judged(asked, "the job's Python did not answer", "correct the job's spark.python")

    async with anyio.create_task_group() as tasks:
        for dag_id, job in configuration.jobs.items():
            if job.spark.submitter == "spark-submit":
                tasks.start_soon(judge, dag_id, job)
    return Findings(jobs=findings)


async def _of_job(configuration: Configuration, job: JobConfig) -> list[Finding]:
    modules = sorted({*needed_modules(configuration, job)})
    python = job.spark.python or sys.executable
    if not modules or shutil.which(python) is None or not await _uses_readers(job):
        return []  # a Python that is not there is a finding of the submitter
    answer = await run_process([python, "-c", _ASK, *modules], check=False, cwd="/")
    if answer.returncode:
        return []  # likewise
    missing: list[str] = json.loads(answer.stdout.splitlines()[-1])
    if not missing:
        return [Finding.ok("readers", f"{python} has {_listed(modules)}")]
    what = f"{python} lacks {_listed(missing)}, with which the job reads and writes"
    remedy = f"install what is missing: `{python} -m pip install {_listed(missing, ' ')}`"
    if job.spark.application == INGEST:
        return [Finding.error("readers", what, remedy)]
    return [Finding.warning("readers", f"{what} by `asset_job`", remedy)]


def needed_modules(configuration: Configuration, job: JobConfig) -> Iterator[str]:
    """Yield the modules that `asset_job` reads the job's sources with, and that `builtin:ingest` writes its table with."""
    awaited = references(job.schedule.condition) if job.schedule else ()
    names = {each.name for each in (*awaited, *job.inlets) if isinstance(each, AssetCondition)}
    for name in names & configuration.assets.keys():
        for watcher in configuration.assets[name].watchers.values():
            connection = None if watcher.connection is None else configuration.connections[watcher.connection]
            yield from _READERS.get(getattr(connection, "type", None), ())
    if job.spark.application != INGEST:
        return
    yield from _TABLES.get(str(job.spark.options.get("format")), ())
    target = job.spark.options.get("target") or ""
    outlets = [configuration.assets[each.name].uri for each in job.outlets if each.name in configuration.assets]
    if str(target or next(iter(outlets), "")).startswith(("s3:", "s3a:")):
        yield from _READERS["s3"]


async def _uses_readers(job: JobConfig) -> bool:
    """Whether the job is `builtin:ingest`, or its program names `asset_job`."""
    if job.spark.application == INGEST:
        return True
    program = anyio.Path(job.spark.application.removeprefix("file:"))
    try:
        return b"asset_job" in await program.read_bytes()
    except OSError:  # an address of Spark's, or a file that is a finding of the submitter
        return False


def _listed(modules: Sequence[str], separator: str = ", ") -> str:
    """The packages that have the modules."""
    return separator.join(modules).replace("_", "-")
