"""Checks every source without watching it, and what runs would lack, for `watcher check --connect`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

import anyio
from sqlalchemy.exc import SQLAlchemyError

from config.models import Configuration
from config.models.settings import Settings
from store.catalog import aliases, watchers
from store.database import Database, migrations
from store.detection import positions
from store.errors import StoreError
from store.runs.queue import queues
from triggers.base import Finding
from triggers.hosting import Surveys
from watcher.configuration.declarations import jobs_to_start, submitters, workspace
from watcher.configuration.findings import Check, Findings, judged
from watcher.configuration.queue_checks import queue_findings
from watcher.configuration.sources import OpenIsolation, open_sources
from watcher.configuration.sources import hosted as hosted_watchers
from watcher.host.database_address import connections_to_database, database_url
from watcher.scheduling.tries.submissions import JobToStart
from watcher.triggerer.clients import Clients, Hosted, open_trigger
from watcher.triggerer.committing import identity_json, identity_of
from watcher.triggerer.open_triggers import OpenTrigger
from watcher.triggerer.source_change import what_changed

DATABASE_PATIENCE: Final = 3.0
"""Seconds for the metadata database."""
_UNANSWERED: Final = (OSError, TimeoutError, SQLAlchemyError, StoreError)
"""What a metadata database raises that does not answer, or is of another release."""


async def all_findings(
    configuration: Configuration, checks: Sequence[Check], open_isolation: OpenIsolation
) -> Sequence[dict[str, Any]]:
    """Return the findings of every watcher, then of every job, then of the rest that the features check.

    Each has `watcher` (null for a `job`; both are null for the rest), `check`, `level`, `message` and `remedy`.
    """
    of_watchers: defaultdict[str, list[Finding]] = defaultdict(list)
    of_jobs: defaultdict[str, list[Finding]] = defaultdict(list)
    of_features: dict[Check, Findings] = {}
    by_name = submitters(configuration, workspace(configuration, configuration.settings.home))

    async def judge_watcher(hosted: Hosted, clients: Clients, identity: str | None) -> None:
        has_reported = hosted.name in stored.reported
        check = partial(_of_source, hosted, clients, configuration.settings, identity, has_reported=has_reported)
        silence = "the source did not answer"
        of_watchers[hosted.name].extend(await judged(check, silence, "check address and network"))

    async def judge_job(dag_id: str, job: JobToStart) -> None:
        check = partial(by_name[job.submitter].check, job.application)
        silence = "the submitter did not answer"
        of_jobs[dag_id].extend(await judged(check, silence, "check what it starts drivers with"))

    async def judge_feature(check: Check, database: Database | None) -> None:
        try:
            of_features[check] = await check(configuration, database)
        except _UNANSWERED:
            of_features[check] = Findings()

    async with _answering(configuration.settings) as database:
        stored = await _stored(configuration, database)
        async with open_sources(configuration, open_isolation) as clients, anyio.create_task_group() as tasks:
            for check in checks:
                tasks.start_soon(judge_feature, check, database)
            for hosted in hosted_watchers(configuration, defaultdict(int)).values():
                tasks.start_soon(judge_watcher, hosted, clients, stored.positions.get(hosted.name))
            for dag_id, job in jobs_to_start(configuration).items():
                tasks.start_soon(judge_job, dag_id, job)
    for name in (name for name in stored.positions if name not in configuration.watchers):
        what = "has a position, and is not configured"
        remedy = f"configure it again, or let another go on there: `watcher watchers rename {name} NEW`"
        of_watchers[name].append(Finding.warning("position", what, remedy))
    in_order = [of_features[check] for check in checks]
    for found in in_order:
        _add(of_watchers, found.watchers)
        _add(of_jobs, found.jobs)
    _add(of_jobs, stored.queues)
    by_subject: list[tuple[dict[str, Any], Sequence[Finding]]] = [
        *(({"watcher": name}, findings) for name, findings in sorted(of_watchers.items())),
        *(({"watcher": None, "job": dag_id}, findings) for dag_id, findings in sorted(of_jobs.items())),
        ({"watcher": None, "job": None}, [finding for found in in_order for finding in found.others]),
    ]
    return [{**subject, **asdict(finding)} for subject, findings in by_subject for finding in findings]


def _add(findings: defaultdict[str, list[Finding]], more: Mapping[str, Sequence[Finding]]) -> None:
    for name, of_name in more.items():
        findings[name].extend(of_name)


async def _of_source(
    hosted: Hosted, clients: Clients, settings: Settings, identity: str | None, *, has_reported: bool
) -> Sequence[Finding]:
    """Return the findings of the trigger's check, and how much there is to report if it found no error.

    That nothing is selected is no error of a watcher that has reported something: what it selects may be cleaned away.
    `identity` is the source of the watcher's position. If that is another one now, people must decide, and the findings say so.
    """
    timeout, known = settings.triggerer.poll_timeout, identity is not None
    async with open_trigger(hosted, clients, timeout, has_position=known, dry_run=True) as trigger:
        findings = await trigger.check()
        if any(finding.level == "error" for finding in findings):
            return findings
        surveys = trigger.ability(Surveys)
        selected = None if surveys is None else await surveys.survey()
        if selected is not None and selected.level == "error" and has_reported:
            selected = replace(selected, level="warning")
        is_changed = known and identity_json(trigger.source_identity()) != identity
        undecided = await _undecided(trigger, settings) if is_changed else None
    return [*findings, *(each for each in (selected, undecided) if each is not None)]


async def _undecided(trigger: OpenTrigger, settings: Settings) -> Finding | None:
    """Return what people must decide before a watcher goes on with its position; None: nothing."""
    async with connections_to_database(settings) as database, database.reading() as connection:
        loaded = await positions.read(connection, trigger.context.watcher)
    change = None if loaded is None else await what_changed(trigger, loaded, await identity_of(trigger, loaded))
    if change is None:
        return None
    message, _, remedy = change.partition("; ")
    return Finding.warning("source", f"{message}; the watcher will be blocked until somebody decides", remedy)


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """What the metadata database has: positions' source identities, who has reported, and findings about jobs' events."""

    positions: Mapping[str, str] = field(default_factory=dict)
    reported: Collection[str] = ()
    queues: Mapping[str, Sequence[Finding]] = field(default_factory=dict)


@asynccontextmanager
async def _answering(settings: Settings) -> AsyncIterator[Database | None]:
    """Open the metadata database; None if it does not answer, or has not this program's schema."""
    url = database_url(settings)
    if url.get_backend_name() == "sqlite" and not await anyio.Path(str(url.database)).exists():
        yield None
        return
    async with connections_to_database(settings) as database:
        try:
            await migrations.check(database, DATABASE_PATIENCE)
        except _UNANSWERED:
            yield None
        else:
            yield database


async def _stored(configuration: Configuration, database: Database | None) -> _Stored:
    if database is None:
        return _Stored()
    try:
        async with database.reading(DATABASE_PATIENCE) as connection:
            queued, resolved = await queues.counted(connection), await aliases.all_resolved_names(connection)
            known, reported = await positions.identities(connection), await watchers.with_events(connection)
    except _UNANSWERED:
        return _Stored()
    return _Stored(positions=known, reported=reported, queues=queue_findings(configuration, queued, resolved))
