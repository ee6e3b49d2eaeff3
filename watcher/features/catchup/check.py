"""What becomes of the events that are stored before a job is new, for `watcher check --connect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from config.models import Configuration
from store.database import Database
from store.features.catchup import catchups
from store.features.catchup.catchups import StoredEvents
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
        if dag_id in stored.jobs:
            continue
        if events := sum(stored.events.get(uri, 0) for uri in configuration.uris_awaited_by(job, stored.aliases)):
            gets = "the new job gets them, because of `catchup`" if job.catches_up else "they are never the new job's"
            what = f"{events} events of its assets are stored already: {gets}"
            findings[dag_id] = [
                Finding.info("catchup", what, "" if job.catches_up else "set `catchup: true` to get them")
            ]
    return findings
