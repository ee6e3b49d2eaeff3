"""The AppCDS archive that lets `profile: small` start in a third of the CPU time: where it is, and how it is made.

An archive is valid for one JVM and one class path, and a JVM ignores one that does not fit (JEP 350). `jars/*`, which
Spark puts on the class path, comes in the file system's own order, which differs from machine to machine. So the jars are
named one by one, sorted, before it. That way an archive made in an image is valid wherever the image runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from config.models.spark import write_properties
from watcher.submit.base import SparkApplication, Submission, SubmitError
from watcher.submit.local.shim import sync_folder
from watcher.submit.spark import command
from watcher.submit.spark.runtime import Runtime

_LOCK_EVERY: Final = 0.2
LONGEST: Final = 600.0
_PROGRAM: Final = Path(__file__).with_name("archive_program.py")
"""The program whose classes are archived."""
_MOST_LOADED: Final = (
    "spark-catalyst",
    "spark-core",
    "spark-sql",
    "scala-",
    "log4j-",
    "jackson-",
    "hadoop-",
    "parquet-",
)
"""The jars that most of those classes are in, by the beginnings of their names."""
_UNFINISHED: Final = "unfinished-"
_NOT_MADE: Final = "this Java makes no class archive, so Spark jobs start as slowly as without one: "


class NoArchiveFolder(Exception):
    """There is no place for archives; the sentence says why. Jobs run without one."""


def archive_folder(environment: Mapping[str, str]) -> Path | None:
    """The user's own folder, by the XDG Base Directory Specification; None if there is none that a JVM can be given."""
    cache = Path(environment.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        cache = Path(environment.get("HOME", "")) / ".cache"
    # A JVM takes a name with a colon in it for the names of two archives.
    return cache / "asset-watcher" / "class-archives" if cache.is_absolute() and ":" not in str(cache) else None


def find_archive(folder: Path | None, runtime: Runtime) -> command.ClassArchive | None:
    """The archive for this JVM and this Spark, if it has been made."""
    file = None if folder is None else folder / _name(_identity(runtime.java, runtime.spark_home))
    if file is None or not os.access(file, os.R_OK):
        return None
    return command.ClassArchive(file=file, class_path=_class_path(runtime.spark_home))


def make_archive(folder: Path | None, runtime: Runtime, daemon: Mapping[str, str]) -> bool:
    """Make the archive, unless it exists (False), and remove archives whose JVM or jars are gone. Blocking.

    One process makes it at a time, and it is there in whole or not at all. `daemon` is the daemon's environment; the JVM
    gets as much of it as a job would. Raises `NoArchiveFolder`, and `SubmitError` with a sentence if the JVM makes none.
    """
    if find_archive(folder, runtime) is not None:
        return False
    with _locked(folder) as place:
        _sweep(place)
        if find_archive(place, runtime) is not None:
            return False
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=place) as name:
            unfinished = Path(name) / "new.jsa"
            _run_program(Path(name), unfinished, runtime, daemon)
            # A JVM that cannot use the archive fails here.
            made = command.ClassArchive(file=unfinished, class_path=_class_path(runtime.spark_home))
            options = [*made.options, "-Xshare:on", "-cp", made.class_path]
            _run([str(runtime.java / "bin" / "java"), *command.SMALL, *options, "-version"], {})
            identity = _identity(runtime.java, runtime.spark_home)
            archive = place / _name(identity)
            archive.with_suffix(".json").write_text(json.dumps(identity), encoding="utf-8")
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())  # an archive cut off by a power failure would crash every JVM that maps it
            unfinished.rename(archive)
            sync_folder(place)
    return True


def _class_path(spark_home: Path) -> str:
    return os.pathsep.join(map(str, _jars(spark_home)))


def _name(identity: Mapping[str, Any]) -> str:
    """The archive's file name. It changes with the JVM, with each jar, and with the program that the archive is made with."""
    key = hashlib.sha256(_PROGRAM.read_bytes() + json.dumps(identity).encode())
    return f"{key.hexdigest()[:16]}.jsa"


def _identity(java: Path, spark_home: Path) -> Mapping[str, Any]:
    """What an archive depends on. The JVM itself compares the jars' sizes, and their times in seconds, too."""
    files = (java / "release", java / "lib" / "server" / "libjvm.so", *_jars(spark_home))
    stats = [(str(file), file.stat()) for file in files if file.exists()]
    return {
        "java": str(java),
        "spark_home": str(spark_home),
        "files": [[name, int(stat.st_mtime), stat.st_size] for name, stat in stats],
    }


def _jars(spark_home: Path) -> list[Path]:
    """Spark's jars, the most used ones first: a JVM that makes an archive searches jar after jar for each class's origin.

    Spark does not rely on their order.
    """
    jars = (spark_home / "jars").glob("*.jar")
    return sorted(jars, key=lambda jar: ([not jar.name.startswith(name) for name in _MOST_LOADED], jar.name))


@contextmanager
def _locked(folder: Path | None) -> Iterator[Path]:
    """Make the folder and hold its lock. Raises `NoArchiveFolder`."""
    if folder is None:
        raise NoArchiveFolder("no class archive: neither XDG_CACHE_HOME nor HOME names a folder that could hold it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise NoArchiveFolder(f"no class archive: {folder} cannot be made ({error.strerror})") from error
    try:
        if not os.access(folder, os.W_OK):
            raise NoArchiveFolder(f"no class archive: {folder} cannot be written to")
        _lock(descriptor, folder)
        yield folder
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    """Take the lock. Raises `NoArchiveFolder` when another process has held it for longer than it takes to make an archive."""
    give_up_at = time.monotonic() + LONGEST
    while time.monotonic() < give_up_at:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_EVERY)
    raise NoArchiveFolder(
        f"no class archive: another process has held {folder} for {LONGEST:g} s; find out what it does"
    )


def _sweep(folder: Path) -> None:
    """Remove stale archives. A JVM that has one open keeps it; a JVM that comes too late runs without."""
    for unfinished in folder.glob(f"{_UNFINISHED}*"):
        rmtree(unfinished, ignore_errors=True)
    for archive in folder.glob("*.jsa"):
        if not _is_current(archive):
            archive.unlink(missing_ok=True)
            archive.with_suffix(".json").unlink(missing_ok=True)


def _is_current(archive: Path) -> bool:
    """Whether JVM and jars are as they were when the archive was made."""
    try:
        identity = json.loads(archive.with_suffix(".json").read_bytes())
        return bool(identity == _identity(Path(identity["java"]), Path(identity["spark_home"])))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _run_program(folder: Path, archive: Path, runtime: Runtime, daemon: Mapping[str, str]) -> None:
    """Run a small PySpark job, with the class path and options of real ones, whose JVM archives the classes it loaded."""
    paths = command.Paths.of_own_program(folder, runtime)
    program = _program(folder, archive, _class_path(runtime.spark_home))
    paths.properties.write_text(write_properties(command.configuration(program, paths)), encoding="utf-8")
    paths.log4j2.write_text(command.LOG4J2, encoding="utf-8")
    _run(
        command.arguments(program, paths),
        {**command.environment(program, paths, daemon), "JAVA_HOME": str(runtime.java)},
    )
    if not archive.exists():
        raise SubmitError(f"{_NOT_MADE}it ended without one")


def _program(folder: Path, archive: Path, class_path: str) -> Submission:
    """Return the submission that makes the archive.

    Its class path has no Hadoop folder: archives are valid for jars only, and a job's own class path may follow them.
    """
    quiet = "-Xlog:disable -Xlog:all=error:stderr"
    data = folder / "data"
    data.mkdir()
    application = SparkApplication(
        application=str(_PROGRAM),
        args=(str(data),),
        master="local[1]",
        conf={command.CLASS_PATH: class_path, command.JAVA_OPTIONS: f"{quiet} -XX:ArchiveClassesAtExit={archive}"},
        env={},
    )
    return Submission.without_try("class-archive", application)


def _run(argv: list[str], environment: Mapping[str, str]) -> None:
    try:
        subprocess.run(  # noqa: S603 - Spark's own scripts, and Java
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=LONGEST
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or error.stdout.strip() or f"exit code {error.returncode}").splitlines()[-3:]
        raise SubmitError(_NOT_MADE + "; ".join(last)) from error
    except subprocess.TimeoutExpired as error:
        raise SubmitError(
            f"no class archive: it was not made within {error.timeout:g} s; run the command again when the machine is "
            "less busy"
        ) from error
    except OSError as error:
        raise SubmitError(f"{_NOT_MADE}{error}") from error
