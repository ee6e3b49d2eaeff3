"""Checks every source without watching it, and what runs would lack, for `watcher check --connect`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Final

import anyio
from sqlalchemy.exc import SQLAlchemyError

from config.models import Configuration
from config.models.settings import AirflowSettings, Settings
from store.catalog import aliases, catchups
from store.database import migrations
from store.detection import positions
from store.errors import StoreError
from store.runs import queues
from triggers.base import BaseEventTrigger, Finding
from triggers.errors import SourceUnavailable
from watcher.configuration.declarations import jobs_to_start, submitters, workspace
from watcher.configuration.left_slots import slot_findings, slots_of
from watcher.configuration.queue_checks import catchup_findings, queue_findings
from watcher.configuration.sources import hosted as hosted_watchers
from watcher.configuration.sources import open_sources
from watcher.configuration.target_checks import target_findings
from watcher.host.database_address import connections_to_database, database_url
from watcher.outbound.airflow.checks import check as airflow_check
from watcher.scheduling.tries.submissions import JobToStart
from watcher.triggerer.clients import Clients, Hosted, open_trigger
from watcher.triggerer.committing import identity_json, identity_of
from watcher.triggerer.source_change import what_changed

PATIENCE: Final = 60.0
"""Seconds for the check of one source."""
DATABASE_PATIENCE: Final = 3.0
"""Seconds for the metadata database."""


async def all_findings(configuration: Configuration) -> Sequence[dict[str, Any]]:
    """Return the findings of every watcher, then of every job, then of Airflow.

    Each has `watcher` (null for a `job`; both are null for Airflow), `check`, `level`, `message` and `remedy`.
    """
    of_watchers: dict[str, Sequence[Finding]] = {}
    of_jobs: dict[str, list[Finding]] = defaultdict(list)
    of_airflow: list[Finding] = []
    stored = await _stored(configuration)
    by_name = submitters(configuration, workspace(configuration, configuration.settings.home))

    async def judge_watcher(hosted: Hosted, clients: Clients) -> None:
        check = partial(_of_source, hosted, clients, configuration.settings, stored.positions.get(hosted.name))
        silence = "the source did not answer"
        of_watchers[hosted.name] = await _judged(check, silence, "check address and network")

    async def judge_job(dag_id: str, job: JobToStart) -> None:
        check = partial(by_name[job.submitter].check, job.application)
        silence = "the submitter did not answer"
        of_jobs[dag_id].extend(await _judged(check, silence, "check what it starts drivers with"))
        target = partial(target_findings, configuration, configuration.jobs[dag_id])
        of_jobs[dag_id].extend(await _judged(target, "the target did not answer", "check its address and the network"))

    async def judge_airflow(settings: AirflowSettings) -> None:
        remedy = "check settings.airflow.base_url, and that the network leads there"
        of_airflow.extend(await _judged(partial(airflow_check, settings), "Airflow did not answer", remedy))

    async with open_sources(configuration) as clients, anyio.create_task_group() as checks:
        if configuration.settings.airflow is not None:
            checks.start_soon(judge_airflow, configuration.settings.airflow)
        for hosted in hosted_watchers(configuration, defaultdict(int)).values():
            checks.start_soon(judge_watcher, hosted, clients)
        for dag_id, job in jobs_to_start(configuration).items():
            checks.start_soon(judge_job, dag_id, job)
    left_slots = await slot_findings(configuration, stored.slots)
    for dag_id, findings in stored.queues.items():
        of_jobs[dag_id].extend(findings)
    for name in (name for name in stored.positions if name not in configuration.watchers):
        what = "has a position, and is not configured"
        remedy = f"configure it again, or let another go on there: `watcher watchers rename {name} NEW`"
        of_watchers[name] = [Finding.warning("position", what, remedy), *left_slots.get(name, ())]
    judged: list[tuple[dict[str, Any], Sequence[Finding]]] = [
        *(({"watcher": name}, findings) for name, findings in sorted(of_watchers.items())),
        *(({"watcher": None, "job": dag_id}, findings) for dag_id, findings in sorted(of_jobs.items())),
        ({"watcher": None, "job": None}, of_airflow),
    ]
    return [{**whose, **asdict(finding)} for whose, findings in judged for finding in findings]


async def _of_source(hosted: Hosted, clients: Clients, settings: Settings, identity: str | None) -> Sequence[Finding]:
    """Return the findings of the trigger's check, and how much there is to report if it found no error.

    `identity` is the source of the watcher's position. If that is another one now, people must decide, and the findings say so.
    """
    timeout, known = settings.triggerer.poll_timeout, identity is not None
    async with open_trigger(hosted, clients, timeout, has_position=known, dry_run=True) as trigger:
        findings = await trigger.check()
        if any(finding.level == "error" for finding in findings):
            return findings
        selected = await trigger.survey()
        is_changed = known and identity_json(trigger.source_identity()) != identity
        undecided = await _undecided(trigger, settings) if is_changed else None
    return [*findings, *(each for each in (selected, undecided) if each is not None)]


async def _undecided(trigger: BaseEventTrigger[Any, Any], settings: Settings) -> Finding | None:
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
    """What the metadata database has: watchers with a position, slots of those not configured, findings about jobs' events."""

    positions: Mapping[str, str] = field(default_factory=dict)
    """The source identities of the watchers that have a position, by name."""
    slots: Mapping[str, str] = field(default_factory=dict)
    queues: Mapping[str, Sequence[Finding]] = field(default_factory=dict)


async def _stored(configuration: Configuration) -> _Stored:
    """Read the metadata database, if it answers and has this program's schema."""
    settings = configuration.settings
    url = database_url(settings)
    if url.get_backend_name() == "sqlite" and not await anyio.Path(str(url.database)).exists():
        return _Stored()
    try:
        async with connections_to_database(settings) as database:
            await migrations.check(database, DATABASE_PATIENCE)
            async with database.reading(DATABASE_PATIENCE) as connection:
                queued, resolved = await queues.counted(connection), await aliases.all_resolved_names(connection)
                earlier = catchup_findings(configuration, await catchups.stored(connection))
                known = await positions.identities(connection)
                slots = await slots_of(connection, [name for name in known if name not in configuration.watchers])
    except (OSError, TimeoutError, SQLAlchemyError, StoreError):
        return _Stored()
    left = queue_findings(configuration, queued, resolved)
    return _Stored(positions=known, slots=slots, queues={**earlier, **left})


async def _judged(check: Callable[[], Awaitable[Sequence[Finding]]], silence: str, remedy: str) -> Sequence[Finding]:
    """Run a check. Anything that goes wrong becomes a finding, because a plug-in may raise anything."""
    try:
        with anyio.fail_after(PATIENCE):
            return await check()
    except TimeoutError:
        return [Finding.error("connect", f"{silence} within {PATIENCE:g} s", remedy)]
    except SourceUnavailable as error:
        has_remedy = "; " in str(error)
        remedy = "" if has_remedy else "check the connection's address, and that the network leads there"
        return [Finding.error("connect", str(error), remedy)]
    except Exception as error:  # noqa: BLE001
        return [Finding.error("connect", str(error) or type(error).__name__, "")]
