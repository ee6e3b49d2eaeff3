from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.submit.plain import make_submission
from watcher.submit.base import Submission
from watcher.submit.spark.command import (
    CLASS_PATH,
    JAVA_OPTIONS,
    ClassArchive,
    Paths,
    arguments,
    configuration,
    environment,
)

PATHS = Paths(
    spark_home=Path("/spark"),
    python="/usr/bin/python3.12",
    sdk=Path("/sdk/asset_job.zip"),
    context=Path("/run/context.json"),
    properties=Path("/run/spark.properties"),
    log4j2=Path("/run/log4j2.properties"),
    scratch=Path("/run/scratch"),
    class_archive=None,
)


def a_try(*args: str, **more: Any) -> Submission:
    return make_submission("1", Path("/jobs/load.py"), *args, **more)


def test_the_arguments_name_what_to_run_and_nothing_private() -> None:
    submission = a_try("--fast", "x y", jars=("/a.jar", "/b.jar"), packages=("g:a:1",), py_files=("/own.py",))
    assert arguments(submission, PATHS) == [
        *("/spark/bin/spark-submit", "--master", "local[1]", "--deploy-mode", "client", "--name", "load_orders"),
        *("--driver-memory", "512m", "--properties-file", "/run/spark.properties", "--load-spark-defaults"),
        *(
            "--jars",
            "/a.jar,/b.jar",
            "--packages",
            "g:a:1",
            "--py-files",
            "/sdk/asset_job.zip,/own.py",
        ),
        *("/jobs/load.py", "--fast", "x y"),
    ]


def test_the_sdk_travels_with_a_job_that_has_no_files_of_its_own() -> None:
    found = arguments(a_try(), PATHS)
    assert found[found.index("--py-files") + 1] == "/sdk/asset_job.zip"
    assert not {"--jars", "--packages"} & set(found)


def test_a_job_cannot_override_what_a_try_must_have() -> None:
    conf = {"spark.ui.port": "4040", "spark.local.dir": "/tmp", "spark.sql.shuffle.partitions": "2"}  # noqa: S108
    found = configuration(a_try(conf=conf), PATHS)
    assert found["spark.ui.port"] == "0"
    assert found["spark.local.dir"] == "/run/scratch"
    assert found["spark.asset_job.context"] == "/run/context.json"
    assert found["spark.sql.shuffle.partitions"] == "2"


ARCHIVE = ClassArchive(file=Path("/home/cds/1.jsa"), class_path="/spark/jars/a.jar:/spark/jars/b.jar")
TUNED = (
    " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
ARCHIVED = (
    " -XX:SharedArchiveFile=/home/cds/1.jsa -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
    " -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
)


@pytest.mark.parametrize(
    ("profile", "archive", "tuned"),
    [("small", None, TUNED), ("small", ARCHIVE, TUNED + ARCHIVED), ("large", ARCHIVE, "")],
)
def test_only_the_small_profile_tunes_the_jvm(profile: str, archive: ClassArchive | None, tuned: str) -> None:
    paths = replace(PATHS, class_archive=archive)
    found = configuration(a_try(profile=profile), paths)
    assert (
        found[JAVA_OPTIONS] == f"-Dlog4j2.configurationFile=/run/log4j2.properties -Djava.io.tmpdir=/run/scratch{tuned}"
    )
    assert found.get(CLASS_PATH) == (ARCHIVE.class_path if ARCHIVED in tuned else None)
    launcher = environment(a_try(profile=profile), paths, {}).get("SPARK_LAUNCHER_OPTS")
    assert launcher == (TUNED.strip() if profile == "small" else None)


def test_a_jobs_own_class_path_stays_first_and_no_archive_is_used() -> None:
    found = configuration(a_try(conf={CLASS_PATH: "/my.jar"}), replace(PATHS, class_archive=ARCHIVE))
    assert found[CLASS_PATH] == "/my.jar"
    assert "SharedArchiveFile" not in found[JAVA_OPTIONS]


def test_the_jobs_own_java_options_come_last() -> None:
    found = configuration(a_try(conf={JAVA_OPTIONS: "-Xss4m -Da=b"}), PATHS)[JAVA_OPTIONS]
    assert found.endswith(" -Xss4m -Da=b")


def test_paths_with_blanks_are_quoted_for_the_launcher() -> None:
    paths = replace(PATHS, scratch=Path('/my "runs"/1'))
    assert '"-Djava.io.tmpdir=/my \\"runs\\"/1"' in configuration(a_try(), paths)[JAVA_OPTIONS]


@pytest.mark.parametrize(
    ("master", "own", "marks"),
    [
        ("local[*]", {}, {}),
        ("spark://host:7077", {}, {}),
        ("yarn", {}, {"spark.yarn.tags": "run-1-1"}),
        ("yarn", {"spark.yarn.tags": "team"}, {"spark.yarn.tags": "team,run-1-1"}),
        (
            "k8s://https://host",
            {},
            {
                "spark.kubernetes.driver.label.asset-watcher-try": "run-1-1",
                "spark.kubernetes.executor.label.asset-watcher-try": "run-1-1",
            },
        ),
    ],
)
def test_the_clusters_own_tools_show_the_tag(master: str, own: dict[str, str], marks: dict[str, str]) -> None:
    found = configuration(a_try(master=master, conf=own), PATHS)
    assert {key: value for key, value in found.items() if "yarn" in key or "kubernetes" in key} == marks


def test_a_job_gets_little_of_the_daemons_environment() -> None:
    daemon = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "LAKE_SECRET": "s3cret",
        "WATCHER_SETTINGS__API__SECRET": "s3cret",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "PYTHONPATH": "/elsewhere",
        "SPARK_HOME": "/elsewhere",
    }
    assert environment(a_try(env={"STAGE": "test"}), PATHS, daemon) == {
        "LANG": "C.UTF-8",
        "PATH": "/bin",
        "LC_CTYPE": "C.UTF-8",
        "TMPDIR": "/run/scratch",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": TUNED.strip(),
        "STAGE": "test",
        "SPARK_HOME": "/spark",
        "PYSPARK_PYTHON": "/usr/bin/python3.12",
        "PYSPARK_DRIVER_PYTHON": "/usr/bin/python3.12",
        "ASSET_JOB_CONTEXT": "/run/context.json",
        "ASSET_WATCHER_TRY": "run-1-1",
    }


@pytest.mark.parametrize(
    ("daemon", "drivers"),
    [
        ({}, {"LANG": "C.UTF-8"}),
        ({"LC_ALL": "C"}, {"LANG": "C"}),
        ({"LC_ALL": "", "LANG": "POSIX"}, {"LANG": "POSIX"}),
        ({"LC_ALL": "de_DE.ISO-8859-1", "LANG": "C", "LC_TIME": "C"}, {"LANG": "de_DE.ISO-8859-1"}),
        ({"LANG": "de_DE.UTF-8", "LC_CTYPE": "C", "LC_TIME": "C"}, {"LANG": "de_DE.UTF-8", "LC_TIME": "C"}),
    ],
)
def test_a_driver_has_the_daemons_locale_but_its_characters_are_utf_8(
    daemon: dict[str, str], drivers: dict[str, str]
) -> None:
    environ = environment(a_try(), PATHS, daemon)
    locale = {name: value for name, value in environ.items() if name == "LANG" or name.startswith("LC_")}
    assert locale == {**drivers, "LC_CTYPE": "C.UTF-8"}


def test_a_cluster_is_reached_from_the_machines_own_address() -> None:
    assert "SPARK_LOCAL_IP" not in environment(a_try(master="spark://host:7077"), PATHS, {})


def test_the_token_is_nowhere_but_in_the_context_file() -> None:
    submission = a_try(context={"token": "tok-en"})
    everything = (arguments(submission, PATHS), configuration(submission, PATHS), environment(submission, PATHS, {}))
    assert "tok-en" not in repr(everything)
