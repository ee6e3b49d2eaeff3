"""What the database and the dispatcher get of a configuration: plain declarations. The database gets no secrets."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

from config.models import INGEST, Configuration, JobConfig
from config.models.assets import parts_by_asset
from config.models.deadlines import DeadlineConfig, ExpectByConfig
from config.models.schedules import AliasCondition, AssetCondition, Reference, condition_to_json, references
from store.catalog.catalog_sync import Applies, Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.keys import Batching, ClockDeadline, CronSchedule, JobDefinition, Role
from store.partition_keys import Completeness
from triggers.base import BaseConnection
from triggers.hosting import ChangingSecrets
from watcher.configuration.vocabulary import submitter_class
from watcher.errors import StartRefused
from watcher.host.metadata import logs_directory
from watcher.host.plugins import NotRevealed
from watcher.installed import installed, resolve
from watcher.scheduling.planning.base import JobStep, Planners
from watcher.scheduling.tries.submissions import JobToStart
from watcher.submit.base import NoOptions, SparkApplication, Submitter, TryRecords, Workspace
from watcher.submit.sdk_archive import INGEST_PROGRAM


def steps() -> Mapping[str, JobStep]:
    """Return the steps of the installed features, in the order of the list."""
    return {name: resolve(path) for name, path in installed().paths("step").items()}


def planners() -> Planners:
    """Make the planners of the installed features. The scheduler of a process and its API share them."""
    return Planners(by_mode={word: resolve(path)() for word, path in installed().words("planners").items()})


Declares: TypeAlias = Callable[[Configuration], Applies]
"""Returns what a feature writes of a configuration when that is applied."""


def declared(configuration: Configuration, features: Mapping[str, Declares]) -> Declared:
    """The part of the configuration that the database mirrors, with what `features` write of it, by their names."""
    parts = parts_by_asset(configuration.assets)
    return Declared(
        hash=configuration.hash,
        assets=[
            DeclaredAsset(
                name=name,
                uri=asset.uri,
                group=asset.group,
                extra=json.dumps(asset.extra),
                expect_by=_expect_by(asset.expect_by),
                expect_every_seconds=None if asset.expect_every is None else int(asset.expect_every.total_seconds()),
                partition_parts=None if (own := parts[name]) is None else json.dumps(own),
            )
            for name, asset in configuration.assets.items()
        ],
        watchers=[
            DeclaredWatcher(
                name=watcher.name,
                asset=name,
                trigger=watcher.trigger,
                definition=configuration.definitions[watcher.name],
                further_assets=watcher.facts.further_assets,
            )
            for name, asset in configuration.assets.items()
            for watcher in asset.watchers.values()
        ],
        aliases={name: alias.group for name, alias in configuration.aliases.items()},
        jobs=[_job(dag_id, job) for dag_id, job in configuration.jobs.items()],
        features={name: declares(configuration) for name, declares in features.items()},
    )


def _expect_by(written: str | ExpectByConfig | None) -> str | None:
    config = ExpectByConfig(by=written) if isinstance(written, str) else written
    due_by = None if config is None else _clock_deadline(config)
    return None if due_by is None else due_by.to_json()


def _clock_deadline(config: DeadlineConfig | ExpectByConfig) -> ClockDeadline | None:
    if config.cron is None:
        return None
    cron = CronSchedule(expression=config.cron, timezone=config.timezone)
    return ClockDeadline(cron=cron, since=config.since)


def _job(dag_id: str, job: JobConfig) -> DeclaredJob:
    condition = None if job.schedule is None else job.schedule.condition
    cron = None if job.schedule is None else job.schedule.cron
    named: Mapping[Role, Sequence[Reference]] = {
        "schedule": tuple(references(condition)),
        "inlet": job.inlets,
        "outlet": job.outlets,
    }
    deadline = job.clock_deadline
    definition = JobDefinition(
        schedule=None if condition is None else condition_to_json(condition),
        batch=Batching(
            mode=job.batch.mode,
            debounce=job.batch.debounce,
            max_wait=job.batch.max_wait,
            max_events=job.batch.max_events,
            by=job.batch.by,
            complete=None if (complete := job.batch.complete) is None else Completeness.of(vars(complete)),
            run_after=deadline.after if deadline.then == "run" else None,
        ),
        cron=None if cron is None else CronSchedule(expression=cron.expression, timezone=cron.timezone),
        joint=job.schedule is not None and job.schedule.joint,
        catchup=job.catchup,
        max_active_runs=job.max_active_runs,
        retries=job.retries,
        retry_delay=job.retry_delay,
        timeout=job.timeout,
        deadline=deadline.after,
        due_by=_clock_deadline(deadline),
        expect_within=job.expect_within,
        application=str(job.spark.application),
        master=job.spark.master,
        submitter=job.spark.submitter,
        options=job.spark.options,
    )
    return DeclaredJob(
        dag_id=dag_id,
        task_id=job.task_id,
        definition=definition,
        paused=job.paused,
        assets={role: _named(AssetCondition, of_role) for role, of_role in named.items()},
        aliases={role: _named(AliasCondition, of_role) for role, of_role in named.items()},
    )


def _named(kind: type[Reference], references: Iterable[Reference]) -> frozenset[str]:
    return frozenset(reference.name for reference in references if isinstance(reference, kind))


def jobs_to_start(configuration: Configuration) -> Mapping[str, JobToStart]:
    """The jobs that the dispatcher starts, with the contents of the connections that each lists. Raises `StartRefused`."""
    return {
        dag_id: JobToStart(
            application=_application(job, configuration.submitter_options.get(dag_id)),
            connections={name: _revealed(name, configuration.connections[name]) for name in job.spark.connections},
            changing=_changing(dag_id, job, configuration.connections),
            submitter=job.spark.submitter,
            warm=job.spark.warm,
        )
        for dag_id, job in configuration.jobs.items()
    }


def submitters(configuration: Configuration, workspace: Workspace) -> Mapping[str, Submitter]:
    """The submitters that jobs name or tries may need, by the name that is stored with a try. Raises `StartRefused`."""
    registered = installed(configuration.settings.features).configured(configuration.settings).submitters()
    names = {*registered, *(job.spark.submitter for job in configuration.jobs.values())}
    return {name: _submitter(name, workspace) for name in names}


def _submitter(name: str, workspace: Workspace) -> Submitter:
    try:
        return submitter_class(name)(workspace)
    except Exception as error:  # a plug-in's own code may raise anything
        raise StartRefused(
            f"the submitter {name} cannot be made ({error}); repair it, or correct spark.submitter"
        ) from error


def _application(job: JobConfig, options: BaseModel | None) -> SparkApplication:
    spark = job.spark
    return SparkApplication.of(
        spark,
        application=str(INGEST_PROGRAM) if spark.application == INGEST else spark.application,
        env={name: value.get_secret_value() for name, value in spark.env.items()},
        options=NoOptions() if options is None else options,
    )


def _revealed(name: str, connection: BaseModel) -> Mapping[str, Any]:
    """What a connection reveals to jobs, with its secrets. It belongs in the job's private context (0600) only."""
    native = cast("BaseConnection", connection)  # the vocabulary holds no others
    try:
        revealed = {"type": native.type, **native.reveal_to_jobs()}
        json.dumps(revealed, allow_nan=False)
    except NotRevealed as error:
        raise _not_revealed(name, native.type, str(error)) from None
    except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything, and its text may hold a secret
        raise _not_revealed(name, native.type, type(error).__name__) from None
    return revealed


def _changing(dag_id: str, job: JobConfig, connections: Mapping[str, BaseModel]) -> Mapping[str, ChangingSecrets]:
    """Return those of the job's connections whose secrets change. Raises `StartRefused` for warm drivers."""
    changing = {
        name: connection
        for name in job.spark.connections
        if isinstance(connection := connections[name], ChangingSecrets) and connection.has_changing_secrets
    }
    if changing and job.spark.warm:
        raise StartRefused(
            f"job {dag_id}: a warm driver would keep an outdated password of the connection {min(changing)}; "
            "leave spark.warm out, or give the connection a password that does not change"
        )
    return changing


def _not_revealed(name: str, kind: str, fault: str) -> StartRefused:
    return StartRefused(
        f"connection {name}: `reveal_to_jobs` of `{kind}` returns no JSON object ({fault}); correct the class"
    )


def workspace(
    configuration: Configuration, home: Path, *, installation: str = "", tries: TryRecords | None = None
) -> Workspace:
    """What this process lends its submitters. `tries` and the id `installation` are of an open metadata database."""
    return Workspace(
        home=home,
        logs=logs_directory(configuration.settings),
        python=sys.executable,
        environment=os.environ,
        driver_memory_mb=configuration.settings.scheduler.driver_memory_mb,
        installation=installation,
        settings=configuration.settings,
        tries=tries,
        event_logs=configuration.settings.scheduler.spark_history_url is not None,
    )
