"""What a try needs before it starts: its submitter, its application from the configuration, its private context."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from store.keys import TryKey
from store.runs.tries.try_lookup import OpenTry
from triggers.hosting import ChangingSecrets
from watcher.submit.base import (
    Addresses,
    Needs,
    SparkApplication,
    Submission,
    SubmitError,
    Submitter,
    WarmRequest,
)


@dataclass(frozen=True, kw_only=True)
class JobToStart:
    """One job's Spark application and the credentials its private context carries, by connection name."""

    application: SparkApplication
    connections: Mapping[str, Mapping[str, Any]]
    changing: Mapping[str, ChangingSecrets] = field(default_factory=dict)
    """The connections among them whose secrets change by themselves."""
    submitter: str = "spark-submit"
    warm: int = 0
    """How many warm drivers wait for its tries."""


@dataclass(frozen=True, kw_only=True)
class Submissions:
    """Turns a stored try into what a submitter starts. `submitters` are keyed by the name that is stored with a try."""

    jobs: Mapping[str, JobToStart]
    submitters: Mapping[str, Submitter]
    addresses: Addresses
    issue_token: Callable[[TryKey, str], str]
    """Issues the token of a try, given its key and the trace id of its run."""

    async def connection(self, dag_id: str, name: str) -> Mapping[str, Any] | None:
        """Return a connection of the job, with its secrets of now; None if the job has no such one. Raises TriggerError.

        Those that were kept are not used: a job asks when a server has refused them.
        """
        job = self.jobs.get(dag_id)
        if job is None or name not in job.connections:
            return None
        changing = job.changing.get(name)
        return job.connections[name] if changing is None else await changing.reveal_now(anew=True)

    def needs(self, dag_id: str, submitter: Submitter) -> Needs:
        """What a driver of the job needs; that of a default driver if the job is not configured any more."""
        job = self.jobs.get(dag_id)
        return submitter.needs(SparkApplication(application="", env={}) if job is None else job.application)

    def warm_requests(self, submitter: str) -> Sequence[WarmRequest]:
        """The warm drivers that jobs of this submitter are configured with, in the configuration's order."""
        return [
            WarmRequest(dag_id=dag_id, count=job.warm, application=job.application, connections=job.connections)
            for dag_id, job in self.jobs.items()
            if job.submitter == submitter
        ]

    def submission(self, open_try: OpenTry, token: str) -> Submission:
        """Return the try, ready to be submitted. Raises `SubmitError` if it is not configured any more."""
        dag_id = open_try.key.instance.dag_id
        job = self.jobs.get(dag_id)
        if job is None:
            raise SubmitError(f"the job {dag_id} is not configured any more; configure it again and retry the run")
        if job.submitter != open_try.submitter:
            raise SubmitError(f"the job {dag_id} got another submitter before this try was started; retry the run")
        url, identity = self.submitters[open_try.submitter].api_url(self.addresses), open_try.key.json
        return Submission(
            key=open_try.key,
            tag=open_try.tag,
            application=job.application,
            context={
                "api": url,
                "token": token,
                "trace_id": open_try.trace_id,
                **identity,
                "connections": job.connections,
            },
        )

    async def with_changing_secrets(self, submission: Submission) -> Submission:
        """Return the submission with those secrets as they are now that change by themselves. Raises TriggerError."""
        changing = self.jobs[submission.key.instance.dag_id].changing
        if not changing:
            return submission
        now = {name: await connection.reveal_now() for name, connection in changing.items()}
        connections = {**submission.context["connections"], **now}
        return replace(submission, context={**submission.context, "connections": connections})
