"""What becomes of the events that are stored before a job is new, for `watcher check --connect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.models import Configuration
from config.models.schedules import AliasCondition, references
from store.catalog import catchups
from store.catalog.catchups import StoredEvents
from store.database import Database
from triggers.base import Finding
from watcher.configuration.findings import Findings


async def check(configuration: Configuration, database: Database | None) -> Findings:
    """Count the stored events of new jobs."""
    if database is None:
        return Findings()
    async with database.reading() as connection:
        stored = await catchups.stored(connection)
    return Findings(jobs=catchup_findings(configuration, stored))


def catchup_findings(configuration: Configuration, stored: StoredEvents) -> Mapping[str, Sequence[Finding]]:
    """Return by new job what becomes of the events of its assets that are stored already. Jobs without any have no finding."""
    findings: dict[str, Sequence[Finding]] = {}
    for dag_id, job in configuration.jobs.items():
        if job.schedule is None or dag_id in stored.jobs:
            continue
        assets: set[str] = set()
        for reference in references(job.schedule.condition):
            is_alias = isinstance(reference, AliasCondition)
            uris = stored.aliases.get(reference.name, ()) if is_alias else {configuration.assets[reference.name].uri}
            assets.update(uris)
        if events := sum(stored.events.get(uri, 0) for uri in assets):
            gets = "the new job gets them, because of `catchup`" if job.catches_up else "they are never the new job's"
            what = f"{events} events of its assets are stored already: {gets}"
            findings[dag_id] = [
                Finding.info("catchup", what, "" if job.catches_up else "set `catchup: true` to get them")
            ]
    return findings
