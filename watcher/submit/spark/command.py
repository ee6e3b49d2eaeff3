"""What is run for a try: argument vector, configuration and environment. Pure: nothing here reads the machine.

Spark's configuration travels in a 0600 file, not in the argument vector, which every user of the machine can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from watcher.submit.base import DynamicAllocation, SparkApplication, Submission
from watcher.submit.local.processes import TAG_VARIABLE
from watcher.submit.spark.connection_settings import ConnectionSettings, connection_settings
from watcher.submit.spark.runtime import Runtime

PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "JAVA_HOME"),
        *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KRB5_CONFIG", "KRB5CCNAME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    }
)
"""The only variables, besides LC_*, that a job gets from the daemon's environment, which holds secrets. Anything else
that a job needs belongs in `spark.env` or `spark.connections`."""

ADDRESS_FILE = "spark-ui.txt"
"""The file in the scratch folder that says on which port the application's UI is."""
REDACTION = "spark.redaction.regex"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
SMALL = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    # The quick compiler keeps Arrow's checks of each value, which Spark makes itself: a sixth of the time that reading columns takes.
    *("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false"),
)
_NO_CDS_WARNINGS = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Silences warnings about an archive that does not fit, as in a heap of more than 32 GB: they do not help the job's author."""

LOG4J2 = f"""\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSSXXX}} %p %c{{1}}: %m%n%ex
appender.console.filter.every_start.type = RegexFilter
appender.console.filter.every_start.regex = .*(Unable to load native-hadoop|Note that spark.local.dir will be).*
appender.console.filter.every_start.onMatch = DENY
appender.console.filter.every_start.onMismatch = NEUTRAL
appender.ui.type = File
appender.ui.name = ui
appender.ui.fileName = ${{sys:java.io.tmpdir}}/{ADDRESS_FILE}
appender.ui.createOnDemand = true
appender.ui.layout.type = PatternLayout
appender.ui.layout.pattern = %m%n
appender.ui.filter.port.type = RegexFilter
appender.ui.filter.port.regex = Successfully started service 'SparkUI'.*
logger.jetty.name = org.sparkproject.jetty
logger.jetty.level = error
logger.utils.name = org.apache.spark.util.Utils
logger.utils.level = info
logger.utils.additivity = false
logger.utils.appenderRef.ui.ref = ui
logger.utils.appenderRef.console.ref = console
logger.utils.appenderRef.console.level = warn
"""
"""Filters out warnings that every start would repeat, about how PySpark is packaged and what we set ourselves. Writes the
UI's port to a file (`ADDRESS_FILE`). Silences the UI's web server: failed requests are reported by those who send them."""
REDACTED: Final = "(?i)secret|password|token|access[.]?key"
"""Spark's own default (spark.redaction.regex). A job may add to it, and cannot remove any of it."""


@dataclass(frozen=True, kw_only=True)
class ClassArchive:
    """An AppCDS archive. `class_path` has to come before everything else on the JVM's class path."""

    file: Path
    class_path: str

    @property
    def options(self) -> tuple[str, ...]:
        """Options that map the archive at the address it was made for: elsewhere every JVM would copy its pages, 80 MB."""
        return (f"-XX:SharedArchiveFile={self.file}", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")


@dataclass(frozen=True, kw_only=True)
class Paths:
    """The files and folders of one start."""

    spark_home: Path
    python: str
    sdk: Path | None
    """The archive of the job SDK; None for a program of our own."""
    context: Path | None
    """The file of the try's private context; None for a driver that waits for its try."""
    properties: Path
    log4j2: Path
    scratch: Path
    class_archive: ClassArchive | None
    """The archive for this JVM and class path, if there is one."""
    event_logs: Path | None = None
    """The folder of Spark's event logs. None: Spark keeps one only if the job's own properties say so."""

    @classmethod
    def of_own_program(cls, folder: Path, runtime: Runtime) -> Self:
        """The paths of a program of our own, which needs no SDK, with all its files in this folder."""
        return cls(
            spark_home=runtime.spark_home,
            python=runtime.python,
            sdk=None,
            context=folder / "context.json",
            properties=folder / "spark.properties",
            log4j2=folder / "log4j2.properties",
            scratch=folder,
            class_archive=None,
        )


def arguments(submission: Submission, paths: Paths) -> list[str]:
    application = submission.application
    lists = {
        "--jars": application.jars,
        "--packages": application.packages,
        "--py-files": (*(() if paths.sdk is None else (str(paths.sdk),)), *application.py_files),
        "--files": application.files,
        "--archives": application.archives,
    }
    executors = {
        "--executor-memory": application.executor_memory,
        "--executor-cores": application.executor_cores,
        "--num-executors": application.num_executors,
    }
    return [
        str(paths.spark_home / "bin" / "spark-submit"),
        *("--master", application.master),
        *("--deploy-mode", "client"),
        *("--name", submission.key.instance.dag_id),
        *("--driver-memory", application.driver_memory),
        *("--properties-file", str(paths.properties)),
        "--load-spark-defaults",
        *(word for option, items in lists.items() if items for word in (option, ",".join(items))),
        *(word for option, value in executors.items() if value is not None for word in (option, str(value))),
        *(word for setting in _dynamic_allocation(application.dynamic_allocation) for word in ("--conf", setting)),
        application.application,
        *application.args,
    ]


def _dynamic_allocation(allocation: bool | DynamicAllocation) -> Iterator[str]:
    if allocation is False:
        return
    yield "spark.dynamicAllocation.enabled=true"
    if allocation is not True:
        yield f"spark.dynamicAllocation.minExecutors={allocation.min}"
        if allocation.max is not None:
            yield f"spark.dynamicAllocation.maxExecutors={allocation.max}"


def configuration(submission: Submission, paths: Paths) -> dict[str, str]:
    """Return Spark's properties: the job's own `conf`, above those of its connections and below what a try must have."""
    application = submission.application
    return {
        **_event_log(paths),
        **_connections(submission).conf,
        **application.conf,
        **_driver_python(application, paths),
        REDACTION: redaction(application.conf.get(REDACTION)),
        **_java(application, paths),
        "spark.local.dir": str(paths.scratch),
        "spark.ui.port": "0",
        **try_configuration(paths.context, submission.context),
        **_labels(application, submission.tag),
    }


def environment(submission: Submission, paths: Paths, daemon: Mapping[str, str]) -> dict[str, str]:
    application = submission.application
    return {
        **{name: value for name, value in daemon.items() if name in PASSED_ON},
        **_locale(daemon),
        "TMPDIR": str(paths.scratch),
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if application.master.startswith("local") else {}),
        **({"SPARK_LAUNCHER_OPTS": " ".join(SMALL)} if application.profile == "small" else {}),
        **_connections(submission).env,
        **application.env,
        "SPARK_HOME": str(paths.spark_home),
        "PYSPARK_PYTHON": paths.python,
        "PYSPARK_DRIVER_PYTHON": paths.python,
        **({} if paths.context is None else {"ASSET_JOB_CONTEXT": str(paths.context)}),
        TAG_VARIABLE: submission.tag,
    }


def _locale(daemon: Mapping[str, str]) -> dict[str, str]:
    """Return the daemon's locale, in UTF-8: in any other the JVM changes arguments and names of files that are not ASCII."""
    if everything := daemon.get("LC_ALL"):
        return {"LANG": everything, "LC_CTYPE": "C.UTF-8"}
    parts = {name: value for name, value in daemon.items() if name.startswith("LC_") and value}
    return {"LANG": daemon.get("LANG", "C.UTF-8"), **parts, "LC_CTYPE": "C.UTF-8"}


def _connections(submission: Submission) -> ConnectionSettings:
    """The settings for connectors that the job brings. The SDK's own readers take connections from the job's context."""
    application = submission.application
    if not application.packages and not application.jars:
        return ConnectionSettings()
    return connection_settings(submission.context.get("connections", {}))


def _java(application: SparkApplication, paths: Paths) -> dict[str, str]:
    """Return the JVM's options and class path. The job's own options come last: the JVM takes the last of equal ones."""
    ours = [f"-Dlog4j2.configurationFile={paths.log4j2}", f"-Djava.io.tmpdir={paths.scratch}"]
    class_path = {}
    if application.profile == "small":
        ours += SMALL
        # A class path of the job's own has to come first, and no archive fits then.
        if paths.class_archive is not None and CLASS_PATH not in application.conf:
            ours += [*paths.class_archive.options, "-Xshare:auto", *_NO_CDS_WARNINGS]
            class_path[CLASS_PATH] = paths.class_archive.class_path
    own = application.conf.get(JAVA_OPTIONS, "")
    return {JAVA_OPTIONS: " ".join([*map(_quote_option, ours), own]).strip(), **class_path}


def _event_log(paths: Paths) -> dict[str, str]:
    """Keep one file for each application. Two that start in one millisecond share a name: then overwriting is better than failing."""
    if paths.event_logs is None:
        return {}
    how = {"enabled": "true", "overwrite": "true", "rolling.enabled": "false", "dir": paths.event_logs.as_uri()}
    return {f"spark.eventLog.{key}": value for key, value in how.items()}


def _driver_python(application: SparkApplication, paths: Paths) -> dict[str, str]:
    """Name the driver's Python, where the job names only a Python that executors take from an archive."""
    own = {"spark.pyspark.python", "spark.pyspark.driver.python"} & application.conf.keys()
    return {"spark.pyspark.driver.python": paths.python} if own == {"spark.pyspark.python"} else {}


def try_configuration(context: Path | None, content: Mapping[str, Any]) -> dict[str, str]:
    """The try's own properties: its context file, and the trace id, which Spark's UI shows and the program can read."""
    trace_id = content.get("trace_id")
    return {
        **({} if context is None else {"spark.asset_job.context": str(context)}),
        **({} if trace_id is None else {"spark.asset_job.trace_id": trace_id}),
    }


def _labels(application: SparkApplication, tag: str) -> dict[str, str]:
    """The properties by which the cluster's own tools show the try's tag."""
    if application.master.startswith("k8s"):
        return {f"spark.kubernetes.{role}.label.asset-watcher-try": tag for role in ("driver", "executor")}
    if application.master.startswith("yarn"):
        own = application.conf.get("spark.yarn.tags", "")
        return {"spark.yarn.tags": ",".join(filter(None, (own, tag)))}
    return {}


def _quote_option(option: str) -> str:
    """Quote the option for Spark's launcher, which knows double quotes and backslash escapes."""
    if not re.search(r"[\s\"'\\]", option):
        return option
    return '"' + re.sub(r"([\"\\])", r"\\\1", option) + '"'


def redaction(own: str | None) -> str:
    return f"{REDACTED}|(?-i:{own})" if own else REDACTED
