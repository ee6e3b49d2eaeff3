from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from watcher.submit.base import SubmitError
from watcher.submit.spark.class_archive import NoArchiveFolder, archive_folder, find_archive, make_archive
from watcher.submit.spark.runtime import Runtime

NOT_AT_ALL = 'echo "Unrecognized VM option: ArchiveClassesAtExit" >&2; exit 1'
SPARK_SUBMIT = """#!/bin/sh
echo made >> "$JAVA_HOME/made"
properties=$(printf '%s\\n' "$@" | sed -n '/^--properties-file$/{n;p;}')
touch "$(sed -n 's/.*ArchiveClassesAtExit\\\\=\\([^ ]*\\).*/\\1/p' "$properties")"
"""


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """A stand-in Java and a stand-in Spark."""
    java, spark = tmp_path / "jdk", tmp_path / "spark"
    for folder in (java / "bin", spark / "bin", spark / "jars"):
        folder.mkdir(parents=True)
    (java / "release").write_text('JAVA_VERSION="17.0.1"\n')
    program(java / "bin" / "java", "#!/bin/sh\n")
    program(spark / "bin" / "spark-submit", SPARK_SUBMIT)
    for name in ("b.jar", "a.jar"):
        (spark / "jars" / name).touch()
    return Runtime(python=sys.executable, spark_home=spark, java=java)


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def make(folder: Path | None, runtime: Runtime) -> bool:
    return make_archive(folder, runtime, os.environ)


def made(runtime: Runtime) -> int:
    return (runtime.java / "made").read_text().count("made")


def test_the_archive_is_made_once_and_names_the_jars_in_a_fixed_order(runtime: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert find_archive(folder, runtime) is None
    assert make(folder, runtime) is True
    archive = find_archive(folder, runtime)
    assert archive is not None
    assert archive.class_path == f"{runtime.spark_home}/jars/a.jar:{runtime.spark_home}/jars/b.jar"
    assert make(folder, runtime) is False
    assert made(runtime) == 1
    assert sorted(file.suffix for file in folder.iterdir()) == [".jsa", ".json"]


def test_an_update_of_java_or_spark_requires_a_new_archive_and_removes_the_old_one(
    runtime: Runtime, tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    jar = runtime.spark_home / "jars" / "a.jar"
    updates = [
        lambda: (runtime.java / "release").write_text('JAVA_VERSION="17.0.2"+1\n'),
        (runtime.spark_home / "jars" / "c.jar").touch,
        lambda: os.utime(jar, (1, 1)),
        jar.unlink,
    ]
    make(folder, runtime)
    for update in updates:
        update()
        assert find_archive(folder, runtime) is None
        assert make(folder, runtime) is True
        assert len(list(folder.glob("*.jsa"))) == len(list(folder.glob("*.json"))) == 1


def test_archives_of_other_installations_stay_and_unfinished_ones_are_removed(runtime: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    (folder / "unfinished-1").mkdir(parents=True)
    for name in ("unknown", "cut-off"):
        (folder / f"{name}.jsa").touch()
    (folder / "cut-off.json").write_text("{")
    other = Runtime(python=runtime.python, spark_home=tmp_path / "other", java=runtime.java)
    (other.spark_home / "jars").mkdir(parents=True)
    (other.spark_home / "bin").symlink_to(runtime.spark_home / "bin")
    make(folder, runtime)
    make(folder, other)
    assert find_archive(folder, runtime) is not None
    assert find_archive(folder, other) is not None
    assert len(list(folder.glob("*.jsa"))) == 2
    assert not (folder / "unfinished-1").exists()
    homes = {json.loads(file.read_bytes())["spark_home"] for file in folder.glob("*.json")}
    assert homes == {str(runtime.spark_home), str(other.spark_home)}


MAKE = """
import os, sys
from pathlib import Path
from watcher.submit.spark.class_archive import make_archive
from watcher.submit.spark.runtime import Runtime
folder, spark, java = map(Path, sys.argv[1:])
print(make_archive(folder, Runtime(python=sys.executable, spark_home=spark, java=java), os.environ))
"""


def test_only_one_of_several_concurrent_processes_makes_the_archive(runtime: Runtime, tmp_path: Path) -> None:
    words = [sys.executable, "-c", MAKE, str(tmp_path / "cache"), str(runtime.spark_home), str(runtime.java)]
    makers = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = sorted(maker.communicate()[0].strip() for maker in makers)
    assert said == ["False", "False", "True"]
    assert made(runtime) == 1


def test_a_java_that_makes_no_archive_is_reported_and_leaves_nothing(runtime: Runtime, tmp_path: Path) -> None:
    program(runtime.spark_home / "bin" / "spark-submit", f"#!/bin/sh\n{NOT_AT_ALL}\n")
    with pytest.raises(SubmitError) as raised:
        make(tmp_path / "cache", runtime)
    assert str(raised.value).startswith(
        "this Java makes no class archive, so Spark jobs start as slowly as without one: "
    )
    assert "Unrecognized VM option: ArchiveClassesAtExit" in str(raised.value)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/home/me"}, "/cache/asset-watcher/class-archives"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "/home/me/.cache/asset-watcher/class-archives"),
        ({"HOME": "/home/me"}, "/home/me/.cache/asset-watcher/class-archives"),
        ({"XDG_CACHE_HOME": "/a:b", "HOME": "/home/me"}, None),
        ({}, None),
    ],
)
def test_the_folder_is_the_users_cache(environment: dict[str, str], folder: str | None) -> None:
    assert archive_folder(environment) == (None if folder is None else Path(folder))


def test_without_a_folder_there_is_no_archive_and_an_error_says_why(runtime: Runtime, tmp_path: Path) -> None:
    assert find_archive(None, runtime) is None
    (tmp_path / "file").touch()
    for folder in (None, tmp_path / "file" / "below"):
        with pytest.raises(NoArchiveFolder, match=r"^no class archive: "):
            make(folder, runtime)
        assert find_archive(folder, runtime) is None
    assert not (runtime.java / "made").exists()


def test_a_process_that_holds_the_folder_for_good_is_not_waited_for_for_ever(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher.submit.spark.class_archive.LONGEST", 0.1)
    holder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(NoArchiveFolder, match=f"another process has held {tmp_path} for 0.1 s"):
            make(tmp_path, runtime)
    finally:
        os.close(holder)
    assert not (runtime.java / "made").exists()


def test_the_command_reports_a_missing_folder_in_one_line_and_succeeds() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in {"HOME", "XDG_CACHE_HOME"}}
    words = [sys.executable, "-m", "watcher", "spark", "archive"]
    command = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert (command.returncode, command.stderr) == (0, "")
    assert command.stdout.startswith("no class archive: ")
    assert command.stdout.count("\n") == 1
