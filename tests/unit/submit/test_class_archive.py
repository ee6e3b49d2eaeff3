from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from tests.e2e.watching import processes_that_mention
from tests.effort import PATIENCE
from watcher.submit import class_archive
from watcher.submit.archiving import ArchiveMaker
from watcher.submit.base import SparkApplication
from watcher.submit.class_archive import archive_name, archives_of, find_archive
from watcher.submit.spark_submit import SparkSubmit

NOT_AT_ALL = 'echo "Unrecognized VM option: ArchiveClassesAtExit" >&2; exit 1'
FOR_EVER = "echo started > $JAVA_HOME/started; sleep 600 & wait"


@pytest.fixture
def java(tmp_path: Path) -> Path:
    folder = tmp_path / "jdk"
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text('JAVA_VERSION="17.0.1"\n')
    return folder


def behaves(java: Path, script: str) -> None:
    (java / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (java / "bin" / "java").chmod(0o755)


def maker(tmp_path: Path, java: Path, idle: Callable[[], bool] = lambda: True, **spark: str) -> ArchiveMaker:
    submitter = SparkSubmit(home=tmp_path, python=sys.executable, environment={**os.environ, "JAVA_HOME": str(java)})
    application = SparkApplication(application="", conf={}, env={}, **spark)
    return ArchiveMaker(submitter, [application, application], idle, after=timedelta(0))


def test_an_update_of_java_or_spark_asks_for_another_archive(java: Path, tmp_path: Path) -> None:
    spark = tmp_path / "spark"
    (spark / "jars").mkdir(parents=True)
    names = [archive_name(java, spark)]
    assert archive_name(java, spark) == names[0]
    (java / "release").write_text('JAVA_VERSION="17.0.2"+1\n')
    names.append(archive_name(java, spark))
    (spark / "jars" / "spark-core.jar").touch()
    names.append(archive_name(java, spark))
    os.utime(spark / "jars" / "spark-core.jar", (1, 1))
    names.append(archive_name(java, spark))
    assert len(set(names)) == 4


def test_the_images_archive_comes_first_and_names_the_jars_in_one_order(
    java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, image = tmp_path / "spark", tmp_path / "image"
    (spark / "jars").mkdir(parents=True)
    for name in ("b.jar", "a.jar"):
        (spark / "jars" / name).touch()
    monkeypatch.setattr(class_archive, "SHIPPED", image)
    assert find_archive(tmp_path, java, spark) is None
    for folder in (archives_of(tmp_path), image):
        folder.mkdir()
        (folder / archive_name(java, spark)).touch()
        found = find_archive(tmp_path, java, spark)
        assert found is not None
        assert found.file.parent == folder
        assert found.class_path == f"{spark}/jars/a.jar:{spark}/jars/b.jar"


async def test_a_java_that_makes_no_archive_is_told_once_in_a_sentence(java: Path, tmp_path: Path) -> None:
    behaves(java, NOT_AT_ALL)
    with capture_logs() as logs:
        await maker(tmp_path, java).run()
    (failed,) = [entry["reason"] for entry in logs if entry["event"] == "archive.failed"]
    assert failed.startswith("this Java makes no class archive, so that Spark jobs start as slowly as without: ")
    assert "Unrecognized VM option: ArchiveClassesAtExit" in failed
    assert list(archives_of(tmp_path).iterdir()) == []


async def test_nothing_is_made_for_the_large_profile(java: Path, tmp_path: Path) -> None:
    behaves(java, NOT_AT_ALL)
    await maker(tmp_path, java, profile="large").run()
    assert not archives_of(tmp_path).exists()


async def test_it_waits_until_nothing_runs_and_tidies_up_meanwhile(java: Path, tmp_path: Path) -> None:
    behaves(java, NOT_AT_ALL)
    archives_of(tmp_path).mkdir()
    (archives_of(tmp_path) / "of-another-java.jsa").touch()
    (archives_of(tmp_path) / "unfinished-1").mkdir()
    asked = 0

    def idle() -> bool:
        nonlocal asked
        asked += 1
        assert list(archives_of(tmp_path).iterdir()) == []
        return asked > 1

    with capture_logs() as logs:
        await maker(tmp_path, java, idle).run()
    assert asked == 2
    assert [entry["event"] for entry in logs] == ["archive.making", "archive.failed"]


async def test_nothing_goes_on_when_the_daemon_stops(java: Path, tmp_path: Path) -> None:
    behaves(java, FOR_EVER)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(maker(tmp_path, java).run)
        await until_started(java)
        tasks.cancel_scope.cancel()
    await until_gone(java)


MAKE = """
import anyio, os, sys
from datetime import timedelta
from pathlib import Path
from watcher.submit.archiving import ArchiveMaker
from watcher.submit.base import SparkApplication
from watcher.submit.spark_submit import SparkSubmit
submitter = SparkSubmit(home=Path(sys.argv[1]), python=sys.executable, environment=os.environ)
application = SparkApplication(application="", conf={}, env={})
anyio.run(ArchiveMaker(submitter, [application], lambda: True, after=timedelta(0)).run)
"""


async def test_nothing_goes_on_when_the_daemon_is_killed(java: Path, tmp_path: Path) -> None:
    behaves(java, FOR_EVER)
    environment = {**os.environ, "JAVA_HOME": str(java)}
    async with await anyio.open_process([sys.executable, "-c", MAKE, str(tmp_path)], env=environment) as daemon:
        await until_started(java)
        daemon.kill()
    await until_gone(java)


async def until_gone(java: Path) -> None:
    with anyio.fail_after(PATIENCE):
        while processes_that_mention(java):
            await anyio.sleep(0.05)


async def until_started(java: Path) -> None:
    with anyio.fail_after(PATIENCE):
        while not (java / "started").exists():
            await anyio.sleep(0.05)
