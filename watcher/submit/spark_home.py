"""Where an interpreter's pyspark package has its Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

from watcher.submit.base import SubmitError

_LOCATE = "import importlib.util as u; s = u.find_spec('pyspark'); print(s.origin if s and s.origin else '')"


def spark_home_of(python: str) -> Path:
    """The Spark inside the interpreter's own pyspark package; blocking. Raises `SubmitError`."""
    try:
        found = subprocess.run(  # noqa: S603 - the interpreter that the configuration names
            [python, "-I", "-c", _LOCATE], capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise SubmitError(f"the Python {python} does not run: correct the job's spark.python") from error
    spark_home = Path(found).parent
    if not found or not (spark_home / "bin" / "spark-submit").exists():
        raise SubmitError(f"the Python {python} has no pyspark with Spark in it: {python} -m pip install 'pyspark>=4'")
    return spark_home
