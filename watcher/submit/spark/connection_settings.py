"""What a job's connections mean to Spark's own readers: settings of `s3a://`, addresses of JDBC. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

_S3A: Final = "spark.hadoop.fs.s3a"
_JDBC: Final = "spark.asset_job.jdbc"
_SDK_PROVIDERS: Final = "software.amazon.awssdk.auth.credentials"
_HADOOP_PROVIDERS: Final = "org.apache.hadoop.fs.s3a"
_JDBC_OPTIONS: Final = ("sslmode", "sslrootcert")


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """Spark properties and environment that make a job's connections known to Spark's own readers.

    They are for jobs that bring connectors as `packages` or `jars`. An S3 connection becomes the settings of `s3a://`, a
    PostgreSQL connection a JDBC address and user. Passwords of databases stay in the job's private context. S3 keys
    travel in the driver's environment, which only its own user can read: from there Spark itself takes them into Hadoop's
    settings (SparkHadoopUtil), for executors anywhere, and never into its own properties.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


def connection_settings(connections: Mapping[str, Mapping[str, Any]]) -> ConnectionSettings:
    """Translate the connections. Only the first S3 connection counts, because `s3a://` has one set of settings."""
    buckets = [connection for connection in connections.values() if connection["type"] == "s3"]
    conf = {f"{_S3A}.{key}": value for bucket in buckets[:1] for key, value in _s3a(bucket)}
    for name, connection in connections.items():
        if connection["type"] == "postgres":
            conf |= {f"{_JDBC}.{name}.{key}": value for key, value in _jdbc(connection).items()}
    env = {key: value for bucket in buckets[:1] for key, value in _environment(bucket)}
    return ConnectionSettings(conf=conf, env=env)


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
    """Return the class that gives `s3a://` its credentials; None where AWS's SDK finds them by itself."""
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
    """Return `url` and `user`, with libpq's defaults where the connection says nothing."""
    parts = urlsplit(connection.get("dsn") or "postgresql://")
    address = {
        "host": parts.hostname,
        "port": parts.port,
        "user": unquote(parts.username or ""),
        "database": unquote(parts.path.removeprefix("/")),
    }
    given: dict[str, Any] = {name: connection.get(name) or value for name, value in address.items()}
    host, user = given["host"] or "localhost", given["user"]
    host = f"[{host}]" if ":" in host else host
    database = quote(given["database"] or user, safe="")
    url = f"jdbc:postgresql://{host}:{given['port'] or 5432}/{database}{_query(parts.query, connection)}"
    return {"url": url, **({"user": user} if user else {})}


def _query(query: str, connection: Mapping[str, Any]) -> str:
    """Return the options of the connection string that PostgreSQL's JDBC driver knows, replaced by the connection's own."""
    options = {**dict(parse_qsl(query)), **connection}
    known = urlencode({name: options[name] for name in _JDBC_OPTIONS if options.get(name)})
    return f"?{known}" if known else ""
