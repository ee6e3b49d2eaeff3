from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.unit.submit.plain import spark_submit, workspace
from watcher.submit.base import Needs, SparkApplication, Submission, SubmitError
from watcher.submit.spark.command import ClassArchive
from watcher.submit.spark_submit import SparkSubmit

NewTry = Callable[..., Submission]


@pytest.fixture
def submitter(tmp_path: Path) -> SparkSubmit:
    return spark_submit(tmp_path)


async def test_a_missing_application_is_reported_with_the_setting_to_correct(
    submitter: SparkSubmit, new_try: NewTry
) -> None:
    submission = new_try("")
    Path(submission.application.application).unlink()
    with pytest.raises(SubmitError, match=r"application_0.py does not exist: .* jobs.load_orders.spark.application"):
        await submitter.submit(submission)
    assert not submitter.folder(submission.key).path.exists()


@pytest.mark.parametrize("option", ["jars", "py_files"])
async def test_a_missing_file_is_reported_unless_spark_itself_finds_it(
    submitter: SparkSubmit, new_try: NewTry, option: str
) -> None:
    submission = new_try("", **{option: ("s3a://lake/a.jar", "/nowhere/*.jar", "/nowhere/b.jar")})
    with pytest.raises(SubmitError, match=f"^/nowhere/b.jar does not exist: .* jobs.load_orders.spark.{option}"):
        await submitter.submit(submission)


async def test_a_python_without_pyspark_is_reported_with_the_remedy(
    submitter: SparkSubmit, new_try: NewTry, tmp_path: Path
) -> None:
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(SubmitError, match=r"has no pyspark with Spark in it: .* -m pip install 'pyspark>=4'"):
        await submitter.submit(new_try("", python=str(bare)))


async def test_a_python_that_does_not_run_is_reported(submitter: SparkSubmit, new_try: NewTry) -> None:
    with pytest.raises(SubmitError, match=r"the Python /nowhere/python does not run: correct the job's spark.python"):
        await submitter.submit(new_try("", python="/nowhere/python"))


async def test_a_machine_without_java_is_reported(new_try: NewTry, tmp_path: Path) -> None:
    submitter = SparkSubmit(workspace(tmp_path, {"PATH": "/nowhere"}))
    with pytest.raises(SubmitError, match="Spark needs Java"):
        await submitter.submit(new_try(""))


IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="here"/>
  <resolvers>
    <ibiblio name="here" m2compatible="true" root="{root}"/>
  </resolvers>
</ivysettings>
"""
POM = "<project><modelVersion>4.0.0</modelVersion><groupId>g</groupId><artifactId>a</artifactId><version>1</version></project>"


@pytest.mark.slow
@pytest.mark.spark
async def test_a_check_reports_packages_that_cannot_be_fetched_and_keeps_the_others_for_the_first_run(
    new_try: NewTry, submitter: SparkSubmit, tmp_path: Path
) -> None:
    repository = tmp_path / "repository" / "g" / "a" / "1"
    repository.mkdir(parents=True)
    (repository / "a-1.pom").write_text(POM)
    with ZipFile(repository / "a-1.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "")
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(IVY_SETTINGS.format(root=f"{(tmp_path / 'repository').as_uri()}/"))
    conf = {"spark.jars.ivySettings": str(settings), "spark.jars.ivy": str(tmp_path / "ivy")}
    assert await submitter.check(new_try("", packages=("g:a:1",), conf=conf).application) == []
    assert list((tmp_path / "ivy").rglob("*a-1.jar"))
    [finding] = await submitter.check(new_try("", packages=("g:a:1", "g:b:2"), conf=conf).application)
    assert (finding.check, finding.level, finding.message) == (
        "packages",
        "error",
        "the package g:b:2 could not be fetched",
    )


@pytest.mark.parametrize(
    ("defaults", "used"),
    [("", True), ("spark.executor.cores 1", True), ("spark.driver.extraClassPath /site.jar", False)],
)
def test_an_archive_does_not_replace_the_sites_own_class_path(
    new_try: NewTry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defaults: str, used: bool
) -> None:
    archive = ClassArchive(file=tmp_path / "a.jsa", class_path="/a.jar")
    monkeypatch.setattr("watcher.submit.spark_submit.find_archive", lambda _folder, _runtime: archive)
    submitter = spark_submit(tmp_path)
    (tmp_path / "spark-defaults.conf").write_text(defaults)
    submission = new_try("", env={"SPARK_CONF_DIR": str(tmp_path)})
    command = submitter.command(submission, submitter.folder(submission.key))
    assert ("SharedArchiveFile" in command.files["spark.properties"]) == used


@pytest.mark.parametrize(
    ("driver_memory", "need_mb"),
    [("512m", 550), ("1g", 1062), ("2G", 2086), ("100m", 550), ("600000k", 624), ("1t", 1_048_614)],
)
def test_a_larger_heap_is_added_to_what_a_default_driver_needs(
    submitter: SparkSubmit, driver_memory: str, need_mb: int
) -> None:
    application = SparkApplication(application="", driver_memory=driver_memory, conf={}, env={})
    assert submitter.needs(application) == Needs(memory_mb=need_mb)


async def test_a_check_reports_what_a_run_would_lack(new_try: NewTry, submitter: SparkSubmit, tmp_path: Path) -> None:
    assert await submitter.check(new_try("").application) == []
    bare = SparkSubmit(workspace(tmp_path, {"PATH": "/nowhere"}))
    findings = await bare.check(new_try("", jars=("/nowhere/a.jar",)).application)
    assert [(finding.check, finding.level, finding.message) for finding in findings] == [
        ("jars", "error", "/nowhere/a.jar does not exist"),
        ("runtime", "error", "Spark needs Java, and none was found on the PATH"),
    ]
    assert "apt-get install" in findings[1].remedy
