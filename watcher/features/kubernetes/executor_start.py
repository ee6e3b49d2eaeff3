"""The first process of an executor's container. It becomes Spark's executor, as the entry point of Spark's own images does.

Standard library only: the text of this module travels in the command of the executors' pods, so any image with PySpark
serves. Spark tells by the environment what is to be started.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import count, takewhile
from pathlib import Path

_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"


def spark_home(environment: Mapping[str, str]) -> Path:
    """The folder of Spark, found as for the driver: by SPARK_HOME, by PATH, or with the Python package."""
    if home := environment.get("SPARK_HOME"):
        return Path(home)
    program = shutil.which("spark-submit", path=environment.get("PATH"))
    if program is not None and (home_of_program := Path(program).resolve().parents[1]).joinpath("jars").is_dir():
        return home_of_program
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise SystemExit("the image has no Spark: set SPARK_HOME in it, or install PySpark")
    return Path(package.origin).parent


def command(environment: Mapping[str, str], home: Path) -> list[str]:
    """What is started, by the variables that Spark sets for the container."""
    of_java = takewhile(environment.__contains__, (f"SPARK_JAVA_OPT_{number}" for number in count()))
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    class_path = (
        environment.get("SPARK_CONF_DIR"),
        str(home / "conf"),
        environment.get("HADOOP_CONF_DIR"),
        f"{home}/jars/*",
        environment.get("SPARK_EXTRA_CLASSPATH"),
        environment.get("SPARK_DIST_CLASSPATH"),
        os.getcwd(),  # noqa: PTH109  as a part of a path
    )
    options = {
        "--driver-url": "SPARK_DRIVER_URL",
        "--executor-id": "SPARK_EXECUTOR_ID",
        "--cores": "SPARK_EXECUTOR_CORES",
        "--app-id": "SPARK_APPLICATION_ID",
        "--hostname": "SPARK_EXECUTOR_POD_IP",
        "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
        "--podName": "SPARK_EXECUTOR_POD_NAME",
    }
    return [
        f"{environment['JAVA_HOME']}/bin/java" if environment.get("JAVA_HOME") else "java",
        *(environment[variable] for variable in of_java),
        *(f"-Xms{memory}", f"-Xmx{memory}", "-cp", ":".join(filter(None, class_path))),
        _BACKEND,
        *(word for option, variable in options.items() for word in (option, environment[variable])),
    ]


if __name__ == "__main__":
    spark = spark_home(os.environ)
    argv = command(os.environ, spark)
    os.execvpe(argv[0], argv, {**os.environ, "SPARK_HOME": str(spark)})  # noqa: S606
