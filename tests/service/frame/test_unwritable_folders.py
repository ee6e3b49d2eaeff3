"""A folder of logs that cannot be written to is a problem, `/readyz` warns, and a job that ends because of it names the folder."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import loopback
from tests.databases import on_both
from tests.stand_in_spark import stand_in_spark
from tests.torture.daemons import Daemons, until
from tests.torture.disks import NO_DISK, full, small_disk
from watcher.host.health import Health
from watcher.host.machine import write_fault
from watcher.operations.folder_watch import FolderWatch
from watcher.scheduling.problems.sources import of_process

JOB = """\
from asset_job import run

with run():
    print("a line of the log " * 100_000)
"""


async def test_a_folder_that_cannot_be_written_to_is_a_problem_since_the_first_failure(tmp_path: Path) -> None:
    health, folder, began = Health(), tmp_path / "logs", datetime.now(UTC)
    watch = FolderWatch(folders=[folder], health=health)
    folder.touch()  # a file in its place
    await watch.check(folder)
    (problem,) = of_process(health, [])
    await watch.check(folder)
    assert [(each.subject, each.since) for each in of_process(health, [])] == [(problem.subject, problem.since)]
    assert (problem.kind, problem.level, problem.subject) == ("logs", "error", {"folder": str(folder)})
    assert problem.message.startswith(f"nothing can be written below {folder}: File exists, ")
    assert problem.since is not None
    assert began <= problem.since <= datetime.now(UTC)
    folder.unlink()
    await watch.check(folder)
    assert ([*of_process(health, [])], folder.is_dir(), [*folder.iterdir()]) == ([], True, [])


def test_a_full_disk_is_a_fault_with_its_free_bytes() -> None:
    with small_disk() as disk:
        if disk is None:
            pytest.skip(NO_DISK)
        assert write_fault(disk) == ""
        with full(disk):
            assert write_fault(disk).endswith(", 0 bytes are free")
        assert write_fault(disk) == ""
        with full(disk):
            os.truncate(disk / "ballast", (disk / "ballast").stat().st_size - 20_000)
            assert write_fault(disk).startswith("the disk is full, ")


@pytest.mark.slow
@pytest.mark.service
@on_both
def test_jobs_fail_for_a_full_disk_below_the_logs_and_say_which_folder(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    spark = {"application": "job.py", "master": "local[1]", "env": {"SPARK_HOME": str(stand_in_spark(tmp_path))}}
    with (
        small_disk() as disk,
        Daemons(
            tmp_path, {"jobs": {"load": {"spark": spark}}}, database_url, logs={"directory": str(disk or tmp_path)}
        ) as daemons,
    ):
        if disk is None:
            pytest.skip(NO_DISK)
        daemons.start()
        until(daemons.is_ready)
        with full(disk):
            until(lambda: daemons.get("/readyz")["warnings"])
            ready = daemons.get("/readyz")
            assert (ready["status"], f"nothing can be written below {disk}: " in ready["warnings"][0]) == (
                "ready",
                True,
            )
            (problem,) = daemons.get("/api/v2/problems")
            assert (problem["kind"], problem["subject"]) == ("logs", {"folder": str(disk)})
            assert "0 bytes are free" in problem["message"]
            assert problem["since"]
            failed = run_of(daemons)
            assert (failed["state"], str(disk) in failed["reason"]) == ("failed", True), failed["reason"]
        until(lambda: daemons.get("/readyz")["warnings"] == [] or daemons.get("/api/v2/problems")[0]["kind"] != "logs")
        assert run_of(daemons)["state"] == "success"
        assert daemons.stop() == 0


def run_of(daemons: Daemons) -> dict[str, str]:
    """Run the job and return its run after its end."""
    runs = f"{daemons.address}/api/v2/dags/load/dagRuns"
    run_id = loopback.post(runs, json={"logical_date": None}).raise_for_status().json()["dag_run_id"]

    def run() -> dict[str, str]:
        answer: dict[str, str] = loopback.get(f"{runs}/{run_id}").raise_for_status().json()
        return answer

    until(lambda: run()["state"] in {"success", "failed"})
    return run()
