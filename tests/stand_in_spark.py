"""A `spark-submit` that runs the job's Python at once, for tests whose subject is not Spark.

A job selects it with `env: {SPARK_HOME: ...}`. The job has the SDK, its context and its arguments, and no `spark`. With
`SPARK_SUBMIT_ARGV` in `env` the program writes its own arguments into that file, as a JSON list.
"""

from __future__ import annotations

import sys
from pathlib import Path

PROGRAM = f"""\
#!{sys.executable}
import json, os, sys
if "SPARK_SUBMIT_ARGV" in os.environ:
    with open(os.environ["SPARK_SUBMIT_ARGV"], "w") as file:
        json.dump(sys.argv[1:], file)
words = iter(sys.argv[1:])
options = {{}}
for word in words:
    if word == "--load-spark-defaults":
        continue
    if not word.startswith("--"):
        break
    options[word] = next(words)
modules = [path if path.endswith(".zip") else os.path.dirname(path) for path in options["--py-files"].split(",")]
os.environ["PYTHONPATH"] = os.pathsep.join(modules)
python = os.environ["PYSPARK_PYTHON"]
os.execv(python, [python, word, *words])
"""


def stand_in_spark(folder: Path) -> Path:
    """Make the SPARK_HOME in a folder of the test and return it."""
    program = folder / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return folder / "spark"
