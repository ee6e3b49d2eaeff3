"""What a try needs before it starts: its application from the configuration, its folder, its private context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from store.runs.tries import OpenTry
from watcher.logs import try_log
from watcher.submit.base import SparkApplication, SubmitError, TaskTry


@dataclass(frozen=True, kw_only=True)
class JobToStart:
    """One job's Spark application and the credentials its private context carries, by connection name."""

    application: SparkApplication
    connections: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Turns a stored try into what a submitter starts. `issue_token` makes a token for (task instance, try)."""

    jobs: Mapping[str, JobToStart]
    runs_folder: Path
    logs_directory: Path
    api_url: str
    issue_token: Callable[[str, int], str]

    def prepare(self, open_try: OpenTry, token: str) -> TaskTry:
        """The try, ready to be submitted. Raises `SubmitError` when its job is configured no more."""
        job = self.jobs.get(open_try.dag_id)
        if job is None:
            raise SubmitError(
                f"the job {open_try.dag_id} is not configured any more; configure it again and retry the run"
            )
        identity = {name: getattr(open_try, name) for name in _IDENTITY}
        context = {"api": self.api_url, "token": token, **identity, "connections": job.connections}
        return self._task_try(open_try, job.application, context)

    def driver_memory(self, dag_id: str) -> str:
        """The heap of a job's driver; the usual one of a job that is configured no more."""
        job = self.jobs.get(dag_id)
        return SparkApplication.driver_memory if job is None else job.application.driver_memory

    def describe(self, open_try: OpenTry) -> TaskTry:
        """The try as far as finding it again needs."""
        return self._task_try(open_try, SparkApplication(application="", conf={}, env={}), {})

    def _task_try(self, open_try: OpenTry, application: SparkApplication, context: Mapping[str, Any]) -> TaskTry:
        # No run_id in it: that holds colons, and the folder becomes part of the driver's PYTHONPATH.
        folder = self.runs_folder / open_try.dag_id / open_try.task_instance_id / str(open_try.try_number)
        return TaskTry(
            **{name: getattr(open_try, name) for name in _IDENTITY},
            tag=open_try.tag,
            folder=folder,
            log=try_log(
                self.logs_directory,
                open_try.dag_id,
                open_try.run_id,
                open_try.task_id,
                open_try.map_index,
                open_try.try_number,
            ),
            application=application,
            context=context,
        )


_IDENTITY = ("task_instance_id", "dag_id", "run_id", "task_id", "map_index", "try_number")
