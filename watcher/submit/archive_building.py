"""Makes the class archive of a JVM and a Spark: `python -m watcher.submit.archive_building [--while-stdin] [FOLDER]`.

It runs a small PySpark job with the class path and the options of real ones, and has the JVM write down the classes it
loaded. FOLDER is by default the one an image ships its archive in. With `--while-stdin` everything ends when standard
input does: with the daemon that holds the other end, however that ends. 0 means that the archive is there; else the last
line of standard output says in a sentence why it is not.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from watcher.submit.base import SparkApplication, SubmitError, TaskTry
from watcher.submit.class_archive import SHIPPED, TRAINING, archive_name, class_path
from watcher.submit.command import (
    CLASS_PATH,
    JAVA_OPTIONS,
    LOG4J2,
    SMALL,
    Paths,
    arguments,
    configuration,
    environment,
    properties,
)
from watcher.submit.java import java_home
from watcher.submit.shim import sync_folder
from watcher.submit.spark_home import spark_home_of

LONGEST: Final = 600.0
UNFINISHED: Final = "unfinished-"
_LOWEST_PRIORITY: Final = 19
_NOT_MADE: Final = "this Java makes no class archive, so that Spark jobs start as slowly as without: "


def build(folder: Path, java: Path, spark_home: Path, python: str, daemon: Mapping[str, str]) -> None:
    """Make the archive, unless it is there, and try it; blocking. Raises `SubmitError` with a sentence."""
    archive = folder / archive_name(java, spark_home)
    if archive.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as workplace:
        unfinished = Path(workplace) / "new.jsa"
        _run_training(Path(workplace), unfinished, spark_home, python, daemon)
        _try_out(unfinished, java, spark_home)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # cut off by a power failure it would crash every JVM that maps it
        unfinished.rename(archive)
    sync_folder(folder)


def _run_training(workplace: Path, archive: Path, spark_home: Path, python: str, daemon: Mapping[str, str]) -> None:
    paths = Paths(
        spark_home=spark_home,
        python=python,
        sdk=None,
        context=workplace / "context.json",
        properties=workplace / "spark.properties",
        log4j2=workplace / "log4j2.properties",
        scratch=workplace,
        class_archive=None,
    )
    training = _training(workplace, archive, class_path(spark_home))
    paths.properties.write_text(properties(configuration(training, paths)), encoding="utf-8")
    paths.log4j2.write_text(LOG4J2, encoding="utf-8")
    _run(arguments(training, paths), environment(training, paths, daemon))
    if not archive.exists():
        raise SubmitError(f"{_NOT_MADE}it ended without one")


def _training(workplace: Path, archive: Path, class_path: str) -> TaskTry:
    """No Hadoop folder on the class path: archives hold for jars only, and a job's own may follow them."""
    quiet = "-Xlog:disable -Xlog:all=error:stderr"
    data = workplace / "data"
    data.mkdir()
    application = SparkApplication(
        application=str(TRAINING),
        args=(str(data),),
        master="local[1]",
        conf={CLASS_PATH: class_path, JAVA_OPTIONS: f"{quiet} -XX:ArchiveClassesAtExit={archive}"},
        env={},
    )
    return TaskTry(
        task_instance_id="",
        dag_id="class-archive",
        run_id="",
        task_id="",
        map_index=-1,
        try_number=0,
        tag="class-archive",
        folder=workplace,
        log=workplace / "log",
        application=application,
        context={},
    )


def _try_out(archive: Path, java: Path, spark_home: Path) -> None:
    options = [*SMALL, f"-XX:SharedArchiveFile={archive}", "-Xshare:on", "-cp", class_path(spark_home)]
    _run([str(java / "bin" / "java"), *options, "-version"], {})


def _run(argv: list[str], environment: Mapping[str, str]) -> None:
    try:
        subprocess.run(  # noqa: S603 - Spark's own scripts, and Java
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=LONGEST
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or error.stdout.strip() or f"exit code {error.returncode}").splitlines()[-3:]
        raise SubmitError(_NOT_MADE + "; ".join(last)) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SubmitError(f"{_NOT_MADE}{error}") from error


def _end_with_stdin() -> None:
    def wait() -> None:
        # Not by sys.stdin: its lock, held by this thread, would abort the interpreter's own end.
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the class archive that lets Spark jobs start quicker.")
    parser.add_argument("folder", type=Path, nargs="?", default=SHIPPED)
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose pyspark is meant")
    parser.add_argument(
        "--spark-home", type=Path, help="the Spark that is meant, when it is another than pyspark's own"
    )
    parser.add_argument("--while-stdin", action="store_true", help="end together with standard input")
    wanted = parser.parse_args()
    if wanted.while_stdin:
        os.nice(_LOWEST_PRIORITY)
        _end_with_stdin()
    try:
        spark_home = wanted.spark_home or spark_home_of(wanted.python)
        build(wanted.folder, java_home(os.environ), spark_home, wanted.python, os.environ)
    except (SubmitError, OSError) as error:
        print(error, flush=True)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
