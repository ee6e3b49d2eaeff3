"""What is run for a try: argument vector, configuration and environment. Pure; nothing here looks at the machine.

Spark's configuration travels in a 0600 file, not in the argument vector, which every user of the machine can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from watcher.submit.base import DynamicAllocation, SparkApplication, Submission
from watcher.submit.local.processes import TAG_VARIABLE

PASSED_ON = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "JAVA_HOME"),
        *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KRB5_CONFIG", "KRB5CCNAME"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    }
)
"""The only variables (and LC_*) a job gets from the daemon's environment, which holds secrets: what else a job needs
belongs into `spark.env` or `spark.connections`."""

ADDRESS_FILE = "spark-ui.txt"
"""In the scratch folder: on which port the application's UI is."""
REDACTION = "spark.redaction.regex"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
CLASS_PATH = "spark.driver.extraClassPath"
SMALL = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    # The quick compiler keeps Arrow's checks of each value, which Spark makes itself: a sixth of what reading columns takes.
    *("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false"),
)
_QUIETLY = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""An archive that does not fit, say in a heap of more than 32 GB, is no news to the job's author."""

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
"""Warnings that every start would repeat, about how PySpark is packaged and what we set ourselves, are left out. Where the UI is goes to a file (`ADDRESS_FILE`);
what befalls those who ask it is theirs to say."""
REDACTED: Final = "(?i)secret|password|token|access[.]?key"
"""Spark's own default (spark.redaction.regex); a job may add to it and take nothing away."""
_S3A: Final = "spark.hadoop.fs.s3a"
_JDBC: Final = "spark.asset_job.jdbc"
_SDK_PROVIDERS: Final = "software.amazon.awssdk.auth.credentials"
_HADOOP_PROVIDERS: Final = "org.apache.hadoop.fs.s3a"
_JDBC_OPTIONS: Final = ("sslmode", "sslrootcert")


@dataclass(frozen=True, kw_only=True)
class ClassArchive:
    """`class_path` has to come before everything else on the JVM's."""

    file: Path
    class_path: str

    @property
    def options(self) -> tuple[str, ...]:
        """Mapped where it was made for: moved elsewhere each of its pages would be a copy, 80 MB of every JVM's own."""
        return (f"-XX:SharedArchiveFile={self.file}", "-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Where the files of one start are."""

    spark_home: Path
    python: str
    sdk: Path | None
    """The archive that travels with every job; None for a program of our own."""
    context: Path | None
    """The file of the try's private context; None of a driver that waits for its try."""
    properties: Path
    log4j2: Path
    scratch: Path
    class_archive: ClassArchive | None
    """Of this JVM and class path, when there is one."""
    event_logs: Path | None = None
    """The folder of Spark's event logs; None keeps one only where the job's own settings say so."""


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


def _dynamic_allocation(asked: bool | DynamicAllocation) -> Iterator[str]:
    if asked is False:
        return
    yield "spark.dynamicAllocation.enabled=true"
    if asked is not True:
        yield f"spark.dynamicAllocation.minExecutors={asked.min}"
        if asked.max is not None:
            yield f"spark.dynamicAllocation.maxExecutors={asked.max}"


def configuration(submission: Submission, paths: Paths) -> dict[str, str]:
    """The job's own `conf`, under it what its connections mean to Spark, and over it what a try must have."""
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
        **of_try(paths.context, submission.context),
        **_marks(application, submission.tag),
    }


def environment(submission: Submission, paths: Paths, daemon: Mapping[str, str]) -> dict[str, str]:
    application = submission.application
    return {
        "LANG": "C.UTF-8",  # without one the JVM cannot even name a file with an umlaut
        **{name: value for name, value in daemon.items() if name in PASSED_ON or name.startswith("LC_")},
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


def _connections(submission: Submission) -> ConnectionSettings:
    """Only for connectors that the job brings; the SDK's own readers take them from its context."""
    application = submission.application
    if not application.packages and not application.jars:
        return ConnectionSettings()
    return connection_settings(submission.context.get("connections", {}))


def _java(application: SparkApplication, paths: Paths) -> dict[str, str]:
    """The job's own options come last: of an option given twice the JVM takes the second."""
    ours = [f"-Dlog4j2.configurationFile={paths.log4j2}", f"-Djava.io.tmpdir={paths.scratch}"]
    class_path = {}
    if application.profile == "small":
        ours += SMALL
        # A class path of the job's own has to come first, and then no archive fits.
        if paths.class_archive is not None and CLASS_PATH not in application.conf:
            ours += [*paths.class_archive.options, "-Xshare:auto", *_QUIETLY]
            class_path[CLASS_PATH] = paths.class_archive.class_path
    own = application.conf.get(JAVA_OPTIONS, "")
    return {JAVA_OPTIONS: " ".join([*map(_quote_option, ours), own]).strip(), **class_path}


def _event_log(paths: Paths) -> dict[str, str]:
    """One file for each application. Names are of the millisecond: a failed job is worse than a log that was overwritten."""
    if paths.event_logs is None:
        return {}
    how = {"enabled": "true", "overwrite": "true", "rolling.enabled": "false", "dir": paths.event_logs.as_uri()}
    return {f"spark.eventLog.{key}": value for key, value in how.items()}


def _driver_python(application: SparkApplication, paths: Paths) -> dict[str, str]:
    """A Python that executors take from an archive is not there where the driver is."""
    own = {"spark.pyspark.python", "spark.pyspark.driver.python"} & application.conf.keys()
    return {"spark.pyspark.driver.python": paths.python} if own == {"spark.pyspark.python"} else {}


def of_try(context: Path | None, content: Mapping[str, Any]) -> dict[str, str]:
    """The try's own part of the configuration: its context, and the trace where Spark's UI and the program can read it."""
    trace_id = content.get("trace_id")
    return {
        **({} if context is None else {"spark.asset_job.context": str(context)}),
        **({} if trace_id is None else {"spark.asset_job.trace_id": trace_id}),
    }


def _marks(application: SparkApplication, tag: str) -> dict[str, str]:
    """The try's tag where the cluster's own tools show it."""
    if application.master.startswith("k8s"):
        return {f"spark.kubernetes.{role}.label.asset-watcher-try": tag for role in ("driver", "executor")}
    if application.master.startswith("yarn"):
        own = application.conf.get("spark.yarn.tags", "")
        return {"spark.yarn.tags": ",".join(filter(None, (own, tag)))}
    return {}


def _quote_option(option: str) -> str:
    """As Spark's launcher takes a line of options apart: double quotes, backslash escapes."""
    if not re.search(r"[\s\"'\\]", option):
        return option
    return '"' + re.sub(r"([\"\\])", r"\\\1", option) + '"'


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """What a job's connections mean to Spark's own readers, for jobs that bring connectors as `packages` or `jars`.

    An S3 connection becomes the settings of `s3a://`, a PostgreSQL connection a JDBC address and user. Passwords of
    databases stay in the job's private context. S3 keys travel in the driver's environment, which only its own user can
    read: from there Spark itself takes them into Hadoop's settings (SparkHadoopUtil), for executors anywhere, and never
    into its own.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


def connection_settings(connections: Mapping[str, Mapping[str, Any]]) -> ConnectionSettings:
    """Of S3 connections the first one counts: `s3a://` has one set of settings."""
    buckets = [connection for connection in connections.values() if connection["type"] == "s3"]
    conf = {f"{_S3A}.{key}": value for bucket in buckets[:1] for key, value in _s3a(bucket)}
    for name, connection in connections.items():
        if connection["type"] == "postgres":
            conf |= {f"{_JDBC}.{name}.{key}": value for key, value in _jdbc(connection).items()}
    env = {key: value for bucket in buckets[:1] for key, value in _environment(bucket)}
    return ConnectionSettings(conf=conf, env=env)


def redaction(own: str | None) -> str:
    return f"{REDACTED}|(?-i:{own})" if own else REDACTED


def _s3a(connection: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    endpoint, style = connection.get("endpoint_url"), connection.get("addressing_style", "auto")
    if endpoint:
        yield "endpoint", endpoint
    if region := connection.get("region"):
        yield "endpoint.region", region
    elif endpoint:
        yield "endpoint.region", "us-east-1"  # without one the AWS SDK would ask the instance's metadata
    if style == "path" or (style == "auto" and endpoint):
        yield "path.style.access", "true"
    if connection.get("requester_pays"):
        yield "requester.pays.enabled", "true"
    if provider := _provider(connection):
        yield "aws.credentials.provider", provider
    if role := connection.get("role_arn"):
        yield "assumed.role.arn", role
        yield "aws.credentials.provider", f"{_HADOOP_PROVIDERS}.auth.AssumedRoleCredentialProvider"
        if provider:
            yield "assumed.role.credentials.provider", provider


def _provider(connection: Mapping[str, Any]) -> str | None:
    """None where AWS's own tools look for credentials themselves."""
    if connection.get("anonymous"):
        return f"{_HADOOP_PROVIDERS}.AnonymousAWSCredentialsProvider"
    if connection.get("access_key_id"):
        return f"{_HADOOP_PROVIDERS}.SimpleAWSCredentialsProvider"
    if connection.get("profile"):
        return f"{_SDK_PROVIDERS}.ProfileCredentialsProvider"
    return None


def _environment(connection: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if connection.get("access_key_id"):
        yield "AWS_ACCESS_KEY_ID", connection["access_key_id"]
        yield "AWS_SECRET_ACCESS_KEY", connection["secret_access_key"]
    if connection.get("profile"):
        yield "AWS_PROFILE", connection["profile"]


def _jdbc(connection: Mapping[str, Any]) -> dict[str, str]:
    """`url` and `user`; libpq's defaults where the connection says nothing."""
    parts = urlsplit(connection.get("dsn") or "postgresql://")
    options = {**dict(parse_qsl(parts.query)), **connection}
    host = connection.get("host") or parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    port = connection.get("port") or parts.port or 5432
    user = connection.get("user") or unquote(parts.username or "")
    database = connection.get("database") or unquote(parts.path.removeprefix("/")) or user
    query = urlencode({name: options[name] for name in _JDBC_OPTIONS if options.get(name)})
    url = f"jdbc:postgresql://{host}:{port}/{quote(database, safe='')}{'?' + query if query else ''}"
    return {"url": url, **({"user": user} if user else {})}
