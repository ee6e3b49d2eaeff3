"""What a configuration tells the database and the dispatcher: plain declarations, without secrets in the database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from config.models import INGEST, Configuration, JobConfig
from config.schedules import AliasCondition, AssetCondition, Reference, condition_to_json, references
from store.catalog.catalog_sync import Declared, DeclaredAlias, DeclaredAsset, DeclaredJob, DeclaredWatcher
from watcher.dispatcher.submissions import JobToStart
from watcher.submit.base import SparkApplication
from watcher.submit.sdk_archive import INGEST_PROGRAM


def declared(configuration: Configuration) -> Declared:
    """The part that the database mirrors."""
    return Declared(
        hash=configuration.hash,
        assets=[
            DeclaredAsset(
                name=name,
                uri=asset.uri,
                group=asset.group,
                extra=json.dumps(asset.extra),
                expect_every_seconds=None if asset.expect_every is None else int(asset.expect_every.total_seconds()),
            )
            for name, asset in configuration.assets.items()
        ],
        watchers=[
            DeclaredWatcher(name=watcher.name, asset=name, trigger=watcher.trigger)
            for name, asset in configuration.assets.items()
            for watcher in asset.watchers.values()
        ],
        aliases=[DeclaredAlias(name=name, group=alias.group) for name, alias in configuration.aliases.items()],
        jobs=[_job(dag_id, job) for dag_id, job in configuration.jobs.items()],
    )


def _job(dag_id: str, job: JobConfig) -> DeclaredJob:
    condition = None if job.schedule is None else job.schedule.condition
    cron = None if job.schedule is None else job.schedule.cron
    scheduled_on = tuple(references(condition))
    definition = {
        "schedule": None if condition is None else condition_to_json(condition),
        "batch": {
            "mode": job.batch.mode,
            "debounce": job.batch.debounce.total_seconds(),
            "max_wait": job.batch.max_wait.total_seconds(),
            "max_events": job.batch.max_events,
        },
        "cron": None if cron is None else {"expression": cron.expression, "timezone": cron.timezone},
        "catchup": job.catchup,
        "max_active_runs": job.max_active_runs,
        "retries": job.retries,
        "retry_delay": job.retry_delay.total_seconds(),
        "timeout": None if job.timeout is None else job.timeout.total_seconds(),
        "spark": {
            "application": str(job.spark.application),
            "master": job.spark.master,
            "submitter": job.spark.submitter,
        },
        "options": job.spark.options,
    }
    return DeclaredJob(
        dag_id=dag_id,
        task_id=job.task_id,
        definition=json.dumps(definition),
        paused=job.paused,
        schedule=_named(AssetCondition, scheduled_on),
        inlets=_named(AssetCondition, job.inlets),
        outlets=_named(AssetCondition, job.outlets),
        schedule_aliases=_named(AliasCondition, scheduled_on),
        inlet_aliases=_named(AliasCondition, job.inlets),
        outlet_aliases=_named(AliasCondition, job.outlets),
        cron=None if cron is None else f"{cron.expression} {cron.timezone}",
    )


def _named(kind: type[Reference], references: Iterable[Reference]) -> frozenset[str]:
    return frozenset(reference.name for reference in references if isinstance(reference, kind))


def jobs_to_start(configuration: Configuration) -> Mapping[str, JobToStart]:
    """What the dispatcher starts, with the credentials of the connections each job names."""
    return {
        dag_id: JobToStart(
            application=_application(job),
            connections={name: _revealed(configuration.connections[name]) for name in job.spark.connections},
            submitter=job.spark.submitter,
        )
        for dag_id, job in configuration.jobs.items()
    }


def _application(job: JobConfig) -> SparkApplication:
    spark = job.spark
    return SparkApplication(
        application=str(INGEST_PROGRAM) if spark.application == INGEST else spark.application,
        master=spark.master,
        profile=spark.profile,
        driver_memory=spark.driver_memory,
        conf=spark.conf,
        packages=tuple(spark.packages),
        jars=tuple(map(str, spark.jars)),
        py_files=tuple(map(str, spark.py_files)),
        args=tuple(spark.args),
        env={name: value.get_secret_value() for name, value in spark.env.items()},
        python=None if spark.python is None else str(spark.python),
    )


def _revealed(connection: BaseModel) -> dict[str, Any]:
    """The connection with its secrets in clear: for the job's private context (0600) only."""
    values = connection.model_dump(exclude_none=True)
    return {name: value.get_secret_value() if isinstance(value, SecretStr) else value for name, value in values.items()}
