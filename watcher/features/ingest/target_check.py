"""Whether `builtin:ingest` can write to its target, tried by writing and removing something, for `watcher check --connect`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import anyio
from anyio.to_thread import run_sync

from config.models import INGEST, Configuration, JobConfig
from config.models.schedules import AssetCondition
from store.database import Database
from triggers.base import Finding
from triggers.s3.connection import S3Connection
from triggers.s3.failures import S3Refused
from watcher.configuration.findings import Findings, judged

_PROBE = "_watcher_probe_"


async def check(configuration: Configuration, database: Database | None) -> Findings:  # noqa: ARG001  it needs none
    """Check the targets of all jobs at once."""
    findings: dict[str, Sequence[Finding]] = {}

    async def judge(dag_id: str, job: JobConfig) -> None:
        target = partial(target_findings, configuration, job)
        findings[dag_id] = await judged(target, "the target did not answer", "check its address and the network")

    async with anyio.create_task_group() as tasks:
        for dag_id, job in configuration.jobs.items():
            tasks.start_soon(judge, dag_id, job)
    return Findings(jobs=findings)


async def target_findings(configuration: Configuration, job: JobConfig) -> list[Finding]:
    """Return the finding about the job's target: none for other applications and for Iceberg, whose catalog decides."""
    options = job.spark.options
    if job.spark.application != INGEST or options.get("format") == "iceberg":
        return []
    target = _uri(configuration, job)
    parts = urlsplit(target)
    if parts.scheme not in {"s3", "s3a"}:
        return [await run_sync(_folder_finding, Path(unquote(parts.path)))]
    connections = {name: configuration.connections[name] for name in job.spark.connections}
    of_s3 = {name: each for name, each in connections.items() if isinstance(each, S3Connection)}
    connection = of_s3.get(options.get("target_connection") or next(iter(of_s3), ""))
    if connection is None:
        return []  # a job without one is refused when the configuration is read, and one of a plug-in cannot be asked
    from triggers.s3.writing import probe_writing  # noqa: PLC0415  with AWS's library, which other targets do without

    try:
        await probe_writing(connection, parts.netloc, f"{parts.path.strip('/')}/{_PROBE}{uuid4().hex}".lstrip("/"))
    except S3Refused as refused:
        failure = refused.failure
        return [
            Finding.error("target", f"{target} cannot be written: {failure.message} ({failure.code})", failure.remedy)
        ]
    return [Finding.ok("target", f"{target} can be written")]


def _uri(configuration: Configuration, job: JobConfig) -> str:
    """Return the address of the target: the uri of the job's only outlet if none is named."""
    outlets = [outlet.name for outlet in job.outlets if isinstance(outlet, AssetCondition)]
    return str(job.spark.options.get("target") or configuration.assets[outlets[0]].uri)


def _folder_finding(folder: Path) -> Finding:
    """Write a file into the folder, or into the nearest one above it that is there, and remove it. Blocking.

    Nothing that another check could meet is made: of several jobs, the targets may lack the same folders.
    """
    try:
        place = next(each for each in [folder, *folder.parents] if each.exists())
        NamedTemporaryFile(dir=place, prefix=_PROBE).close()
    except OSError as error:
        remedy = "let this user write there, or correct the target"
        return Finding.error("target", f"{folder} cannot be written: {error.strerror}", remedy)
    return Finding.ok("target", f"{folder} can be written")
