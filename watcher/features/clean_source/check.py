"""What jobs do not get of their events, because it was deleted, for `watcher check --connect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.models import Configuration
from config.models.jobs import JobConfig
from store.database import Database
from store.features.clean_source import removed_files
from store.features.clean_source.removed_files import DeletedFiles
from triggers.base import Finding
from watcher.configuration.findings import Findings


async def check(configuration: Configuration, database: Database | None) -> Findings:
    """Count the deleted files of events that jobs get: of stored ones those of new jobs that catch up, and of queued ones."""
    if database is None:
        return Findings()
    async with database.reading() as connection:
        deleted = await removed_files.deleted(connection)
    return Findings(jobs=cleaned_findings(configuration, deleted))


def cleaned_findings(configuration: Configuration, deleted: DeletedFiles) -> Mapping[str, Sequence[Finding]]:
    """Return by job how many files it does not get. Jobs that get all have no finding."""
    findings: dict[str, Sequence[Finding]] = {}
    for dag_id, job in configuration.jobs.items():
        is_new = dag_id not in deleted.jobs
        files = _of_new_job(configuration, job, deleted) if is_new else deleted.queued.get(dag_id, 0)
        if files:
            which = "stored events that the new job gets" if is_new else "events in its queue"
            what = f"{files:,} files of {which} are cleaned: its runs go without them"
            remedy = "`clean_source` has deleted them; write them again if it needs them: they are reported as new"
            findings[dag_id] = [Finding.info("cleaned", what, remedy)]
    return findings


def _of_new_job(configuration: Configuration, job: JobConfig, deleted: DeletedFiles) -> int:
    if not job.catches_up:
        return 0
    return sum(deleted.files.get(uri, 0) for uri in configuration.uris_awaited_by(job, deleted.aliases))
