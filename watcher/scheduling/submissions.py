"""What a try needs before it starts: its submitter, its application from the configuration, its private context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from store.keys import TryKey
from store.runs.try_lookup import OpenTry
from watcher.submit.base import Addresses, Needs, SparkApplication, Submission, SubmitError, Submitter


@dataclass(frozen=True, kw_only=True)
class JobToStart:
    """One job's Spark application and the credentials its private context carries, by connection name."""

    application: SparkApplication
    connections: Mapping[str, Mapping[str, Any]]
    submitter: str = "spark-submit"
    warm: int = 0
    """How many drivers are to wait for its tries."""


@dataclass(frozen=True, kw_only=True)
class Submissions:
    """Turns a stored try into what a submitter starts; `submitters` are by the name that is stored with a try."""

    jobs: Mapping[str, JobToStart]
    submitters: Mapping[str, Submitter]
    addresses: Addresses
    issue_token: Callable[[TryKey, str], str]
    """For a try, in the trace of its run."""

    def needs(self, dag_id: str, submitter: Submitter) -> Needs:
        """What a driver of the job is reckoned with; the usual one's of a job that is configured no more."""
        job = self.jobs.get(dag_id)
        return submitter.needs(SparkApplication(application="", conf={}, env={}) if job is None else job.application)

    def submission(self, open_try: OpenTry, token: str) -> Submission:
        """The try, ready to be submitted. Raises `SubmitError` when the configuration does not have it any more."""
        dag_id = open_try.key.instance.dag_id
        job = self.jobs.get(dag_id)
        if job is None:
            raise SubmitError(f"the job {dag_id} is not configured any more; configure it again and retry the run")
        if job.submitter != open_try.submitter:
            raise SubmitError(f"the job {dag_id} got another submitter before this try was started; retry the run")
        url, who = self.submitters[open_try.submitter].api_url(self.addresses), open_try.key.json
        return Submission(
            key=open_try.key,
            tag=open_try.tag,
            application=job.application,
            context={"api": url, "token": token, "trace_id": open_try.trace_id, **who, "connections": job.connections},
        )
