"""The interpreter, Spark and Java that a job runs on, as Spark's own scripts will find them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from watcher.submit.base import SubmitError

OLDEST_JAVA = 17
_REMEDY = (
    f"install Java {OLDEST_JAVA} or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
)
_LOCATE = "import importlib.util as u; s = u.find_spec('pyspark'); print(s.origin if s and s.origin else '')"


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """What a job runs on."""

    python: str
    spark_home: Path
    java: Path


def find_runtime(python: str, spark_home: str | None, environment: Mapping[str, str]) -> Runtime:
    """The Spark is the interpreter's own unless `spark_home` names one; blocking. Raises `SubmitError`."""
    return Runtime(python=python, spark_home=Path(spark_home or spark_home_of(python)), java=java_home(environment))


def spark_home_of(python: str) -> Path:
    """The Spark inside the interpreter's own pyspark package; blocking. Raises `SubmitError`."""
    program = Path(python)
    spark_home = _located(python, program.stat().st_mtime_ns if program.exists() else 0)
    if spark_home is None or not (spark_home / "bin" / "spark-submit").exists():
        raise SubmitError(f"the Python {python} has no pyspark with Spark in it: {python} -m pip install 'pyspark>=4'")
    return spark_home


@lru_cache(maxsize=64)
def _located(python: str, _modified: int) -> Path | None:
    """Asked once of each interpreter: it is on the way of every run. Raises `SubmitError`."""
    try:
        located = subprocess.run(  # noqa: S603 - the interpreter that the configuration names
            [python, "-I", "-c", _LOCATE], capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise SubmitError(f"the Python {python} does not run: correct the job's spark.python") from error
    return Path(located).parent if located else None


def java_home(environment: Mapping[str, str]) -> Path:
    """The folder of the Java that a program with this environment gets. Raises `SubmitError` when Spark cannot use it."""
    home = environment.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin" if home else environment.get("PATH"))
    if program is None:
        where = f"in JAVA_HOME {home}" if home else "on the PATH"
        raise SubmitError(f"Spark needs Java, and none was found {where}: {_REMEDY}")
    folder = Path(program).resolve().parent.parent
    version = java_version(folder)
    if version is not None and version < OLDEST_JAVA:
        raise SubmitError(f"Spark needs Java {OLDEST_JAVA} or newer, but {folder} is Java {version}: {_REMEDY}")
    return folder


def java_version(folder: Path) -> int | None:
    """The major version as the installation's `release` file has it; None when it does not say."""
    try:
        release = (folder / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(version[1]) if version else None
