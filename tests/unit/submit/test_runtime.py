from __future__ import annotations

from pathlib import Path

import pytest

from watcher.submit.base import SubmitError
from watcher.submit.spark.runtime import java_home, java_version


def installation(folder: Path, version: str | None) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch(mode=0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_402", 8), ("", None), (None, None)]
)
def test_the_version_is_read_from_the_release_file(tmp_path: Path, version: str | None, major: int | None) -> None:
    assert java_version(installation(tmp_path / "jdk", version)) == major


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    on_path, at_home = installation(tmp_path / "a", "17"), installation(tmp_path / "b", "21")
    assert java_home({"PATH": f"{on_path}/bin"}) == on_path
    assert java_home({"PATH": f"{on_path}/bin", "JAVA_HOME": str(at_home)}) == at_home


def test_a_link_on_the_path_leads_to_the_installation(tmp_path: Path) -> None:
    folder = installation(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(folder / "bin" / "java")
    assert java_home({"PATH": str(tmp_path / "bin")}) == folder


@pytest.mark.parametrize(
    ("environment", "where"), [({"PATH": "/nowhere"}, "on the PATH"), ({"JAVA_HOME": "/gone"}, "in JAVA_HOME /gone")]
)
def test_a_missing_java_is_reported_with_the_remedy(environment: dict[str, str], where: str) -> None:
    with pytest.raises(SubmitError, match=f"Spark needs Java, and none was found {where}: install Java 17"):
        java_home(environment)


def test_an_old_java_is_reported_with_the_remedy(tmp_path: Path) -> None:
    folder = installation(tmp_path / "jdk", "11.0.2")
    with pytest.raises(SubmitError, match=r"is Java 11: install Java 17 or newer"):
        java_home({"JAVA_HOME": str(folder)})
