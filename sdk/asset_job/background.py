"""Threads that run beside the job: one renews the token, one reports progress."""

from __future__ import annotations

import base64
import json
import logging
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from asset_job.client import Client, Transport

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker

log = logging.getLogger("asset_job")

_PROGRESS_EVERY = 2.0
_RENEW_EVERY = 300.0


class Background(threading.Thread, ABC):
    """A thread that acts periodically beside the job. Its failures do not reach the job."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"asset-job-{name}", daemon=True)
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.wait(self.pause()):
            self._safely()

    def stop(self) -> None:
        """Ask the thread to end, and wait for it a few seconds at most."""
        self._ending.set()
        self.join(timeout=_PROGRESS_EVERY)  # it may hang in a call of its own; the job continues

    @abstractmethod
    def pause(self) -> float:
        """The seconds until the next `act`."""

    @abstractmethod
    def act(self) -> None:
        """Do what is due. May raise anything."""

    def _safely(self) -> None:
        try:
            self.act()
        except Exception:  # Spark may be starting, stopping or gone; the job itself will notice
            log.debug("%s failed", self.name, exc_info=True)


class TokenRenewal(Background):
    """Renews the token after a third of its lifetime. Only the lifetime counts, so the clocks of the machines may differ."""

    def __init__(self, client: Client) -> None:
        super().__init__("renewal")
        self._client = client

    def pause(self) -> float:
        return token_life(self._client.token) / 3

    def act(self) -> None:
        self._client.token = self._client.call("POST", "tries/token", body={})["token"]


class ProgressReporter(Background):
    """Reports what Spark's StatusTracker counts, once there is a Spark session."""

    def __init__(self, client: Transport) -> None:
        super().__init__("progress")
        self._client = client
        self._stages: dict[int, tuple[int, int]] = {}
        self._settled: set[int] = set()
        self._first_action: dict[str, str] = {}
        self._application: dict[str, str] = {}
        self._costs: dict[str, int] = {}
        self._reported: dict[str, int | str] = {}

    def pause(self) -> float:
        return _PROGRESS_EVERY

    def act(self) -> None:
        if "pyspark.sql" in sys.modules:
            context = sys.modules["pyspark.sql"].SparkSession.active().sparkContext
            self._add_costs(context, self.count_stages(context.statusTracker()))
            self._first_action = self._first_action or _first_action(context)
            self._application = self._application or {"application_id": context.applicationId}
        known = self._stages or self._application
        progress: dict[str, int | str] = {}
        if known:
            progress = {**self.counts(), **self._first_action, **self._application, **self._costs}
        if progress != self._reported:
            self._client.call("POST", "tries/progress", body=progress, patience=0)
            self._reported = progress

    def run(self) -> None:
        super().run()
        self._safely()  # the last counts, so that a progress bar is complete at the end

    def count_stages(self, tracker: StatusTracker) -> list[int]:
        """Take the counts from the tracker, and return the stages of jobs that have just ended.

        Once a job has ended, only its finished tasks count, because its skipped stages never finish any.
        """
        settled: list[int] = []
        for job in {*tracker.getJobIdsForGroup(None), *tracker.getActiveJobsIds()} - self._settled:
            info = tracker.getJobInfo(job)
            ended = info is not None and info.status != "RUNNING"
            for stage in info.stageIds if info else ():
                if counts := tracker.getStageInfo(stage):
                    done = counts.numCompletedTasks
                    self._stages[stage] = (done if ended else counts.numTasks, done)
            if ended:
                self._settled.add(job)
                settled += info.stageIds if info else ()
        return settled

    def _add_costs(self, context: SparkContext, stages: list[int]) -> None:
        """Add the rows and bytes that Spark counted for stages that ended. Spark keeps the newest thousand stages."""
        status = context._jsc.sc().statusStore()  # noqa: SLF001 - Python has no other access to it
        for stage in stages:
            with suppress(Exception):  # a skipped stage has no attempt
                data = status.lastStageAttempt(stage)
                self._costs = {
                    "rows_read": self._costs.get("rows_read", 0) + data.inputRecords(),
                    "bytes_read": self._costs.get("bytes_read", 0) + data.inputBytes(),
                    "rows_written": self._costs.get("rows_written", 0) + data.outputRecords(),
                    "bytes_written": self._costs.get("bytes_written", 0) + data.outputBytes(),
                }

    def counts(self) -> dict[str, int]:
        """How many stages and tasks there are, and how many tasks are done."""
        tasks, done = (sum(counts[column] for counts in self._stages.values()) for column in (0, 1))
        return {"stages": len(self._stages), "tasks": tasks, "tasks_done": done}


def _first_action(context: SparkContext) -> dict[str, str]:
    """When the first Spark job began, by Spark's own clock; {} if none began yet, or Spark does not report it."""
    with suppress(Exception):
        # Python has no other access to it. Jobs that a warm driver ran before it got its try do not count.
        first = int(context.getConf().get("spark.asset_job.first_job", "0") or 0)
        at = context._jsc.sc().statusStore().job(first).submissionTime().get()  # noqa: SLF001
        return {"first_action_at": datetime.fromtimestamp(at.getTime() / 1000, UTC).isoformat()}
    return {}


def token_life(token: str) -> float:
    """The seconds between `iat` and `exp` of a JWT; a default for a token without them."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(float(claims["exp"]) - float(claims["iat"]), 0.5)
    except (IndexError, ValueError, KeyError, TypeError):
        return 3 * _RENEW_EVERY
