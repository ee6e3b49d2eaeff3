"""The interpreter, Spark and Java that a job runs on, as Spark's own scripts will find them."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

from watcher.submit.base import SubmitError

OLDEST_JAVA = 17
JAVA_REMEDY = (
    f"install Java {OLDEST_JAVA} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
)
_LOCATE = "import importlib.util as u; s = u.find_spec('pyspark'); print(s.origin if s and s.origin else '')"


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The interpreter, the folder of Spark, and the folder of Java that a job runs on."""

    python: str
    spark_home: Path
    java: Path


def find_runtime(python: str, spark_home: str | None, environment: Mapping[str, str]) -> Runtime:
    """Find Spark, in the interpreter's own packages unless `spark_home` names one, and Java. Blocking. Raises `SubmitError`."""
    return Runtime(python=python, spark_home=Path(spark_home or spark_home_of(python)), java=java_home(environment))


def spark_home_of(python: str) -> Path:
    """The folder of Spark inside the interpreter's own pyspark package. Blocking. Raises `SubmitError`."""
    program = Path(python)
    spark_home = _located(python, program.stat().st_mtime_ns if program.exists() else 0)
    if spark_home is None or not (spark_home / "bin" / "spark-submit").exists():
        raise SubmitError(f"the Python {python} has no pyspark with Spark in it: {python} -m pip install 'pyspark>=4'")
    return spark_home


@lru_cache(maxsize=64)
def _located(python: str, _modified: int) -> Path | None:
    """Ask the interpreter where its pyspark is; once, because every run needs to know. Raises `SubmitError`."""
    try:
        located = subprocess.run(  # noqa: S603 - the interpreter that the configuration names
            [python, "-I", "-c", _LOCATE], capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise SubmitError(f"the Python {python} does not run: correct the job's spark.python") from error
    return Path(located).parent if located else None


def java_home(environment: Mapping[str, str]) -> Path:
    """The folder of the Java that a program with this environment gets. Raises `SubmitError` if Spark cannot use it."""
    home = environment.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH"))
    if program is None:
        where = f"in JAVA_HOME {home}" if home else "on the PATH"
        raise SubmitError(f"Spark needs Java, and none was found {where}: {JAVA_REMEDY}")
    folder = Path(program).resolve().parent.parent
    version = java_version(folder)
    if version is not None and version < OLDEST_JAVA:
        raise SubmitError(f"Spark needs Java {OLDEST_JAVA} or newer, but {folder} is Java {version}: {JAVA_REMEDY}")
    return folder


@lru_cache(maxsize=64)
def java_fault(folder: Path) -> str | None:
    """Run `java -version`, and return why Spark cannot use this Java; None if it can. Blocking."""
    program = str(folder / "bin" / "java")
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that Spark's scripts would run
            [program, "-version"], capture_output=True, text=True, errors="replace", check=False, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program} does not run ({error})"
    says = " ".join((answer.stderr + answer.stdout).split())[:300]
    if answer.returncode:
        return f"`{program} -version` ends with {answer.returncode}: {says}"
    version = re.search(r'version "(?:1\.)?(\d+)', says)
    if version is not None and int(version[1]) < OLDEST_JAVA:
        return f"Spark needs Java {OLDEST_JAVA} or newer, but {program} is Java {version[1]}"
    return None


def java_version(folder: Path) -> int | None:
    """The major version in the installation's `release` file; None if the file does not say it."""
    try:
        release = (folder / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(version[1]) if version else None


def linked_spark(home: Path, spark_home: Path) -> Path:
    """Return a SPARK_HOME whose Python is the installed package, for jobs on this machine.

    Spark puts the zips of its `python/lib` before everything else on the import path, of the driver and of each kind of
    Python worker, and what Python imports from a zip it compiles anew in each process: more than a second of CPU time
    each. So this is a folder of links in the daemon's home, made on first use, that has packages in place of the zips.

    Returns `spark_home` itself, unless it is a pyspark package with py4j beside it, as pip installs them. Raises `OSError`.
    """
    zips = sorted(file.name for file in (spark_home / "python" / "lib").glob("py*.zip"))
    packages = {name: spark_home.parent / name.removesuffix(".zip").partition("-")[0] for name in zips}
    if not packages or not all((package / "__init__.py").exists() for package in packages.values()):
        return spark_home
    digest = hashlib.sha256("\n".join([str(spark_home), *zips]).encode()).hexdigest()
    linked = home / "spark" / digest[:16]
    if not linked.exists():
        linked.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(mkdtemp(dir=linked.parent, prefix="."))
        _link(unfinished, spark_home, packages)
        try:
            unfinished.rename(linked)
        except OSError:  # another job has made it meanwhile
            shutil.rmtree(unfinished)
    return linked


def _link(folder: Path, spark_home: Path, packages: dict[str, Path]) -> None:
    """Link the entries of Spark. To Python a folder named like a zip is still a folder; `conf` may be made later."""
    for name in {"conf", *(entry.name for entry in spark_home.iterdir())} - {"python"}:
        (folder / name).symlink_to(spark_home / name)
    for name, package in packages.items():
        place = folder / "python" / "lib" / name
        place.mkdir(parents=True)
        (place / package.name).symlink_to(package)
