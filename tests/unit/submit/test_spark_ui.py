from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from watcher.submit.base import Progress
from watcher.submit.spark.ui import ask_spark_ui, progress_of, ui_port


def stage(number: int, status: str, tasks: int, done: int, attempt: int = 0) -> dict[str, Any]:
    return {"stageId": number, "attemptId": attempt, "status": status, "numTasks": tasks, "numCompleteTasks": done}


@pytest.mark.parametrize(
    ("stages", "progress"),
    [
        ([], None),
        ([stage(0, "SKIPPED", 3, 0)], None),
        ([stage(1, "ACTIVE", 4, 1), stage(0, "COMPLETE", 2, 2)], (2, 6, 3)),
        ([stage(2, "PENDING", 5, 0), stage(1, "SKIPPED", 3, 0), stage(0, "FAILED", 9, 4)], (2, 9, 4)),
        ([stage(0, "ACTIVE", 9, 1, attempt=1), stage(0, "FAILED", 9, 4)], (1, 9, 1)),
    ],
)
def test_stages_are_counted_once_and_without_tasks_that_will_never_run(
    stages: list[dict[str, Any]], progress: tuple[int, int, int] | None
) -> None:
    found = progress_of(stages)
    assert (None if found is None else (found.stages, found.tasks, found.tasks_done)) == progress
    assert found is None or isinstance(found, Progress)


def test_work_done_before_the_try_is_not_counted() -> None:
    before = {**stage(0, "COMPLETE", 9, 9), "submissionTime": "2026-11-20T09:00:00.000GMT", "inputRecords": 7}
    since = {**stage(1, "COMPLETE", 2, 2), "submissionTime": "2026-11-20T09:00:01.500GMT", "inputRecords": 3}
    progress = progress_of([before, since], datetime(2026, 11, 20, 9, 0, 1, tzinfo=UTC))
    assert progress is not None
    assert (progress.stages, progress.tasks, progress.rows_read) == (1, 2, 3)
    assert progress.first_action_at == datetime(2026, 11, 20, 9, 0, 1, 500_000, tzinfo=UTC)


async def test_an_application_without_a_ui_has_no_progress_and_no_certificates_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("ssl.create_default_context")
    log = tmp_path / "spark-ui.txt"
    assert ui_port(log) is None
    log.write_text(
        "Successfully started service 'SparkUI' on port 4040.\nSuccessfully started service 'SparkUI' on port 1.\n"
    )
    assert ui_port(log) == 1, "the application began anew"
    assert await ask_spark_ui(log) is None
