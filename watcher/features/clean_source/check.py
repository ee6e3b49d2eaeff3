"""What new jobs do not get of what they catch up with, because it was deleted, for `watcher check --connect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.models import Configuration
from config.models.schedules import AliasCondition, references
from store.database import Database
from store.features.clean_source import removed_files
from store.features.clean_source.removed_files import DeletedFiles
from triggers.base import Finding
from watcher.configuration.findings import Findings


async def check(configuration: Configuration, database: Database | None) -> Findings:
    """Count the deleted files of the stored events of new jobs that catch up."""
    if database is None or not any(job.catches_up for job in configuration.jobs.values()):
        return Findings()
    async with database.reading() as connection:
        deleted = await removed_files.deleted(connection)
    return Findings(jobs=cleaned_findings(configuration, deleted))


def cleaned_findings(configuration: Configuration, deleted: DeletedFiles) -> Mapping[str, Sequence[Finding]]:
    """Return by new job how many files it does not get. Jobs that get all have no finding."""
    findings: dict[str, Sequence[Finding]] = {}
    for dag_id, job in configuration.jobs.items():
        if job.schedule is None or not job.catches_up or dag_id in deleted.jobs:
            continue
        uris: set[str] = set()
        for reference in references(job.schedule.condition):
            is_alias = isinstance(reference, AliasCondition)
            uris.update(
                deleted.aliases.get(reference.name, ()) if is_alias else {configuration.assets[reference.name].uri}
            )
        if files := sum(deleted.files.get(uri, 0) for uri in uris):
            what = f"{files:,} files of the events that the new job gets are cleaned: its runs go without them"
            findings[dag_id] = [
                Finding.info(
                    "cleaned",
                    what,
                    "`clean_source` has deleted them; write them again if it needs them: they are reported as new",
                )
            ]
    return findings
