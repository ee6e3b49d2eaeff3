"""What runs beside the job: the token is renewed, progress is reported."""

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

from .client import Client, Transport

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker

log = logging.getLogger("asset_job")

_PROGRESS_EVERY = 2.0
_RENEW_EVERY = 300.0


class Background(threading.Thread, ABC):
    """Acts periodically beside the job; its failures do not reach the job."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"asset-job-{name}", daemon=True)
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.wait(self.pause()):
            self._safely()

    def stop(self) -> None:
        self._ending.set()
        self.join(timeout=_PROGRESS_EVERY)  # it may hang in a call of its own; the job goes on

    @abstractmethod
    def pause(self) -> float:
        """Seconds until the next act."""

    @abstractmethod
    def act(self) -> None:
        """May raise anything."""

    def _safely(self) -> None:
        try:
            self.act()
        except Exception:  # Spark may be starting, stopping or gone: the job itself will notice
            log.debug("%s failed", self.name, exc_info=True)


class Renewal(Background):
    """Renews the token after a third of its life: by its own length, so that the clocks' difference does not matter."""

    def __init__(self, client: Client) -> None:
        super().__init__("renewal")
        self._client = client

    def pause(self) -> float:
        return token_life(self._client.token) / 3

    def act(self) -> None:
        self._client.token = self._client.call("POST", "tries/token", body={})["token"]


class Progress(Background):
    """Reports what Spark's StatusTracker counts, once there is a Spark session."""

    def __init__(self, client: Transport) -> None:
        super().__init__("progress")
        self._client = client
        self._stages: dict[int, tuple[int, int]] = {}
        self._settled: set[int] = set()
        self._began: dict[str, str] = {}
        self._application: dict[str, str] = {}
        self._costs: dict[str, int] = {}
        self._reported: dict[str, int | str] = {}

    def pause(self) -> float:
        return _PROGRESS_EVERY

    def act(self) -> None:
        if "pyspark.sql" in sys.modules:
            context = sys.modules["pyspark.sql"].SparkSession.active().sparkContext
            self._add_costs(context, self.look(context.statusTracker()))
            self._began = self._began or _began(context)
            self._application = self._application or {"application_id": context.applicationId}
        known = self._stages or self._application
        progress: dict[str, int | str] = {}
        if known:
            progress = {**self.counts(), **self._began, **self._application, **self._costs}
        if progress != self._reported:
            self._client.call("POST", "tries/progress", body=progress, patience=0)
            self._reported = progress

    def run(self) -> None:
        super().run()
        self._safely()  # the last counts, so that a bar ends where the job ended

    def look(self, tracker: StatusTracker) -> list[int]:
        """Of an ended job only finished tasks count: its skipped stages have none. Returns the stages of jobs that just ended."""
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
        """Rows and bytes as Spark counts them, of stages that ended; it keeps the newest thousand."""
        status = context._jsc.sc().statusStore()  # noqa: SLF001  Python has no other way to it
        for stage in stages:
            with suppress(Exception):  # a skipped one was never there
                data = status.lastStageAttempt(stage)
                self._costs = {
                    "rows_read": self._costs.get("rows_read", 0) + data.inputRecords(),
                    "bytes_read": self._costs.get("bytes_read", 0) + data.inputBytes(),
                    "rows_written": self._costs.get("rows_written", 0) + data.outputRecords(),
                    "bytes_written": self._costs.get("bytes_written", 0) + data.outputBytes(),
                }

    def counts(self) -> dict[str, int]:
        tasks, done = (sum(counts[column] for counts in self._stages.values()) for column in (0, 1))
        return {"stages": len(self._stages), "tasks": tasks, "tasks_done": done}


def _began(context: SparkContext) -> dict[str, str]:
    """When the first job began, by Spark's own clock; {} before there was one, or where Spark does not tell."""
    with suppress(Exception):
        # Python has no other way to it. What a warm driver has done before it got its try is not the job's.
        first = int(context.getConf().get("spark.asset_job.first_job", "0") or 0)
        at = context._jsc.sc().statusStore().job(first).submissionTime().get()  # noqa: SLF001
        return {"first_action_at": datetime.fromtimestamp(at.getTime() / 1000, UTC).isoformat()}
    return {}


def token_life(token: str) -> float:
    """Seconds between `iat` and `exp` of a JWT; a guess for a token that does not say."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return max(float(claims["exp"]) - float(claims["iat"]), 0.5)
    except (IndexError, ValueError, KeyError, TypeError):
        return 3 * _RENEW_EVERY
