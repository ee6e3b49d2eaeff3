"""Reaching every source and judging it, without watching it, and what runs would miss: what `watcher check --connect` prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import anyio

from config.models import Configuration
from triggers.base import Finding
from triggers.errors import SourceUnavailable
from watcher import app
from watcher.declaring import jobs_to_start, submitters
from watcher.dispatcher.submissions import JobToStart
from watcher.submit.base import SparkApplication, Submitter
from watcher.triggerer.building import Hosted, build
from watcher.triggerer.clients import Clients, open_clients

PATIENCE: Final = 60.0
"""Seconds that one source gets."""


async def all_findings(configuration: Configuration) -> Sequence[dict[str, Any]]:
    """Every watcher's findings and then every job's: `watcher` (null: of the `job`), `check`, `level`, `message`, `remedy`."""
    of_watchers: dict[str, Sequence[Finding]] = {}
    of_jobs: dict[str, Sequence[Finding]] = {}
    by_name = submitters(configuration, app.workspace(configuration, configuration.settings.home))

    async def judge_watcher(one: Hosted, clients: Clients) -> None:
        of_watchers[one.name] = await _source_findings(one, clients, configuration)

    async def judge_job(dag_id: str, job: JobToStart) -> None:
        of_jobs[dag_id] = await _job_findings(by_name[job.submitter], job.application)

    async with open_clients(configuration.connections) as clients, anyio.create_task_group() as checks:
        for one in app.hosted(configuration, defaultdict(int)):
            checks.start_soon(judge_watcher, one, clients)
        for dag_id, job in jobs_to_start(configuration).items():
            checks.start_soon(judge_job, dag_id, job)
    return [
        *(
            {"watcher": name, **asdict(finding)}
            for name, findings in sorted(of_watchers.items())
            for finding in findings
        ),
        *(
            {"watcher": None, "job": dag_id, **asdict(finding)}
            for dag_id, findings in sorted(of_jobs.items())
            for finding in findings
        ),
    ]


async def _job_findings(submitter: Submitter, application: SparkApplication) -> Sequence[Finding]:
    """Whatever goes wrong is that job's finding: a plug-in may raise anything."""
    try:
        with anyio.fail_after(PATIENCE):
            return await submitter.check(application)
    except TimeoutError:
        return [_unreached(f"the submitter did not answer within {PATIENCE:g} s", "check what it starts drivers with")]
    except Exception as error:  # noqa: BLE001
        return [_unreached(str(error) or type(error).__name__, "")]


async def _source_findings(one: Hosted, clients: Clients, configuration: Configuration) -> Sequence[Finding]:
    """Whatever goes wrong is that watcher's finding: a plug-in may raise anything."""
    try:
        with anyio.fail_after(PATIENCE):
            trigger = await build(one, clients, configuration.settings.triggerer.poll_timeout)
            return await trigger.check()
    except TimeoutError:
        return [_unreached(f"the source did not answer within {PATIENCE:g} s", "check address and network")]
    except SourceUnavailable as error:
        return [_unreached(str(error), "check the connection's address, and that the network leads there")]
    except Exception as error:  # noqa: BLE001
        return [_unreached(str(error) or type(error).__name__, "")]


def _unreached(message: str, remedy: str) -> Finding:
    return Finding.error("connect", message, remedy)
