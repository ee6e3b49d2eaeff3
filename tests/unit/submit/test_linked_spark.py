from __future__ import annotations

from pathlib import Path

from watcher.submit.spark.runtime import linked_spark


def spark(site_packages: Path) -> Path:
    home = site_packages / "pyspark"
    for folder in (home / "bin", home / "jars", home / "python" / "lib", site_packages / "py4j"):
        folder.mkdir(parents=True)
    for file in (home / "__init__.py", site_packages / "py4j" / "__init__.py", home / "jars" / "a.jar"):
        file.touch()
    for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip"):
        (home / "python" / "lib" / name).write_bytes(b"a zip")
    return home


def test_the_linked_spark_has_the_installed_packages_in_place_of_its_zips(tmp_path: Path) -> None:
    home = spark(tmp_path)
    linked = linked_spark(tmp_path / "home", home)
    assert (linked / "bin").resolve() == home / "bin"
    assert (linked / "jars" / "a.jar").exists()
    lib = linked / "python" / "lib"
    assert (lib / "pyspark.zip" / "pyspark").resolve() == home
    assert (lib / "py4j-0.10.9.9-src.zip" / "py4j").resolve() == tmp_path / "py4j"
    (home / "conf").mkdir()
    assert (linked / "conf").exists(), "a folder that came later"


def test_the_linked_spark_is_made_once(tmp_path: Path) -> None:
    home = spark(tmp_path)
    linked = linked_spark(tmp_path / "home", home)
    made = linked.stat().st_ino
    assert linked_spark(tmp_path / "home", home) == linked
    assert linked.stat().st_ino == made
    assert [path.name for path in linked.parent.iterdir()] == [linked.name]


def test_a_spark_that_pip_did_not_install_is_used_as_it_is(tmp_path: Path) -> None:
    home = spark(tmp_path)
    (tmp_path / "py4j" / "__init__.py").unlink()
    assert linked_spark(tmp_path / "home", home) == home
    assert linked_spark(tmp_path / "home", tmp_path / "nowhere") == tmp_path / "nowhere"
