"""What a job's connections mean to Spark's own readers, for jobs that bring connectors as `packages` or `jars`. Pure.

An S3 connection becomes the settings of `s3a://`, a PostgreSQL connection a JDBC address and user. Passwords of databases
stay in the job's private context. S3 keys travel in the driver's environment, which only its own user can read: from there
Spark itself takes them into Hadoop's settings (SparkHadoopUtil), for executors anywhere, and never into its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

REDACTED: Final = "(?i)secret|password|token|access[.]?key"
"""Spark's own default (spark.redaction.regex); a job may add to it and take nothing away."""
_S3A: Final = "spark.hadoop.fs.s3a"
_JDBC: Final = "spark.asset_job.jdbc"
_SDK_PROVIDERS: Final = "software.amazon.awssdk.auth.credentials"
_HADOOP_PROVIDERS: Final = "org.apache.hadoop.fs.s3a"
_JDBC_OPTIONS: Final = ("sslmode", "sslrootcert")


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
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
