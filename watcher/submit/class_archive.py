"""The AppCDS archive that lets `profile: small` start in a third of the CPU time: where it is, and for what it holds.

An archive is good for one JVM and one class path, and a JVM leaves out what does not fit (JEP 350). `jars/*`, which
Spark puts on the class path, comes in the file system's own order, which differs from machine to machine; so the jars are
named one by one, sorted, before it: that way an archive made in an image holds wherever the image runs.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TRAINING = Path(__file__).with_name("archive_training.py")
"""The program whose classes are archived."""
SHIPPED = Path(sys.prefix) / "share" / "asset-watcher" / "cds"
"""Where an image has its archive; `python -m watcher.submit.archive_building` makes it."""


@dataclass(frozen=True, kw_only=True)
class ClassArchive:
    """`class_path` has to come before everything else on the JVM's."""

    file: Path
    class_path: str


def archives_of(home: Path) -> Path:
    """The folder of the archives that the daemon of this home makes."""
    return home / "cds"


def find_archive(home: Path, java: Path, spark_home: Path) -> ClassArchive | None:
    """The archive of this JVM and this Spark: the image's, or the one made here."""
    name = archive_name(java, spark_home)
    files = (folder / name for folder in (SHIPPED, archives_of(home)))
    file = next((file for file in files if file.exists()), None)
    return None if file is None else ClassArchive(file=file, class_path=class_path(spark_home))


def class_path(spark_home: Path) -> str:
    return os.pathsep.join(map(str, _jars(spark_home)))


def archive_name(java: Path, spark_home: Path) -> str:
    """Another one after every change of the JVM, of a jar, or of what the archive is made with."""
    key = hashlib.sha256(TRAINING.read_bytes())
    for words in _identity(java, spark_home):
        key.update(repr(words).encode())
    return f"{key.hexdigest()[:16]}.jsa"


def _identity(java: Path, spark_home: Path) -> Iterator[tuple[str, int, int]]:
    """The JVM compares seconds and sizes of the jars, too."""
    yield str(spark_home), 0, 0
    for file in (java / "release", java / "lib" / "server" / "libjvm.so", *_jars(spark_home)):
        if file.exists():
            found = file.stat()
            yield str(file), int(found.st_mtime), found.st_size


def _jars(spark_home: Path) -> list[Path]:
    return sorted((spark_home / "jars").glob("*.jar"))
