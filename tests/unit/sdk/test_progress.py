from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from asset_job.background import ProgressReporter
from asset_job.client import Client
from tests.unit.sdk.execution_server import ExecutionServer, token


class Job(NamedTuple):
    stageIds: list[int]  # noqa: N815 - Spark's names, here and below
    status: str


class Stage(NamedTuple):
    numTasks: int  # noqa: N815
    numCompletedTasks: int  # noqa: N815


@dataclass
class Tracker:
    """Spark's StatusTracker at one moment."""

    jobs: dict[int, Job]
    stages: dict[int, Stage]
    grouped: set[int] = field(default_factory=set)
    asked: list[int] = field(default_factory=list)

    def getJobIdsForGroup(self, _group: None) -> list[int]:  # noqa: N802
        return [job for job in self.jobs if job not in self.grouped]

    def getActiveJobsIds(self) -> list[int]:  # noqa: N802
        return [job for job, found in self.jobs.items() if found.status == "RUNNING"]

    def getJobInfo(self, job: int) -> Job | None:  # noqa: N802
        self.asked.append(job)
        return self.jobs[job]

    def getStageInfo(self, stage: int) -> Stage | None:  # noqa: N802
        return self.stages.get(stage)


def looked(progress: ProgressReporter, tracker: Tracker) -> dict[str, int]:
    progress.count_stages(cast("Any", tracker))
    return progress.counts()


def test_counts_grow_with_the_application_and_ended_jobs_are_not_queried_again(daemon: ExecutionServer) -> None:
    progress = ProgressReporter(Client(daemon.url, token("first")))
    running = Tracker({0: Job([0, 1], "RUNNING")}, {0: Stage(4, 2)})
    assert looked(progress, running) == {"stages": 1, "tasks": 4, "tasks_done": 2}
    ended = Tracker({0: Job([0, 1], "SUCCEEDED"), 1: Job([2], "RUNNING")}, {0: Stage(4, 4), 1: Stage(2, 2)}, {1})
    assert looked(progress, ended) == {"stages": 2, "tasks": 6, "tasks_done": 6}
    assert looked(progress, ended) == {"stages": 2, "tasks": 6, "tasks_done": 6}
    assert ended.asked == [0, 1, 1]


def test_a_skipped_stage_does_not_keep_the_progress_from_completion(daemon: ExecutionServer) -> None:
    progress = ProgressReporter(Client(daemon.url, token("first")))
    tracker = Tracker({0: Job([0, 1], "SUCCEEDED")}, {0: Stage(4, 0), 1: Stage(2, 2)})
    assert looked(progress, tracker) == {"stages": 2, "tasks": 2, "tasks_done": 2}
