from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from watcher.submit.base import SubmitError, TaskTry
from watcher.submit.command import ClassArchive
from watcher.submit.folder import TryFolder
from watcher.submit.spark_submit import SparkSubmit

NewTry = Callable[..., TaskTry]


@pytest.fixture
def submitter(tmp_path: Path) -> SparkSubmit:
    return SparkSubmit(home=tmp_path, python=sys.executable, environment=os.environ)


async def test_a_missing_application_is_told_with_the_setting_to_correct(
    submitter: SparkSubmit, new_try: NewTry
) -> None:
    task_try = new_try("")
    Path(task_try.application.application).unlink()
    with pytest.raises(SubmitError, match=r"application_0.py does not exist: .* jobs.load_orders.spark.application"):
        await submitter.submit(task_try)
    assert not task_try.folder.exists()


@pytest.mark.parametrize("option", ["jars", "py_files"])
async def test_a_missing_file_is_told_and_what_spark_finds_itself_is_not_looked_up(
    submitter: SparkSubmit, new_try: NewTry, option: str
) -> None:
    task_try = new_try("", **{option: ("s3a://lake/a.jar", "/nowhere/*.jar", "/nowhere/b.jar")})
    with pytest.raises(SubmitError, match=f"^/nowhere/b.jar does not exist: .* jobs.load_orders.spark.{option}"):
        await submitter.submit(task_try)


async def test_a_python_without_pyspark_is_told_with_the_remedy(
    submitter: SparkSubmit, new_try: NewTry, tmp_path: Path
) -> None:
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(SubmitError, match=r"has no pyspark with Spark in it: .* -m pip install 'pyspark>=4'"):
        await submitter.submit(new_try("", python=str(bare)))


async def test_a_python_that_does_not_run_is_told(submitter: SparkSubmit, new_try: NewTry) -> None:
    with pytest.raises(SubmitError, match=r"the Python /nowhere/python does not run: correct the job's spark.python"):
        await submitter.submit(new_try("", python="/nowhere/python"))


async def test_a_machine_without_java_is_told(new_try: NewTry, tmp_path: Path) -> None:
    submitter = SparkSubmit(home=tmp_path, python=sys.executable, environment={"PATH": "/nowhere"})
    with pytest.raises(SubmitError, match="Spark needs Java"):
        await submitter.submit(new_try(""))


@pytest.mark.parametrize(
    ("defaults", "used"),
    [("", True), ("spark.executor.cores 1", True), ("spark.driver.extraClassPath /site.jar", False)],
)
def test_an_archive_does_not_replace_the_sites_own_class_path(
    new_try: NewTry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defaults: str, used: bool
) -> None:
    archive = ClassArchive(file=tmp_path / "a.jsa", class_path="/a.jar")
    monkeypatch.setattr("watcher.submit.spark_submit.find_archive", lambda _folder, _runtime: archive)
    submitter = SparkSubmit(home=tmp_path, python=sys.executable, environment=os.environ)
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    task_try = new_try("", env={"SPARK_CONF_DIR": str(tmp_path)})
    command = submitter.command(task_try, TryFolder(task_try.folder))
    assert ("SharedArchiveFile" in command.files["spark.properties"]) == used
