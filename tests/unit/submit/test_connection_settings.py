from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.submit.plain import make_submission
from tests.unit.submit.test_command import PATHS
from watcher.submit.spark.command import arguments, configuration, environment, redaction
from watcher.submit.spark.connection_settings import connection_settings

KEYS = {"access_key_id": "AKIA-1", "secret_access_key": "s3cret"}
LAKE = {"type": "s3", "endpoint_url": "http://127.0.0.1:9000", "region": "eu-1", **KEYS}
SHOP = {"type": "postgres", "dsn": "postgresql://me%40x:p%40ss@db:5433/my%20shop?sslmode=require&application_name=x"}
SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
S3A = "spark.hadoop.fs.s3a."


def s3a(connection: dict[str, Any]) -> dict[str, str]:
    conf = connection_settings({"lake": {"type": "s3", **connection}}).conf
    return {key.removeprefix(S3A): value for key, value in conf.items()}


def test_keys_travel_in_the_environment_only() -> None:
    found = connection_settings({"lake": LAKE})
    assert found.conf == {
        f"{S3A}endpoint": "http://127.0.0.1:9000",
        f"{S3A}endpoint.region": "eu-1",
        f"{S3A}path.style.access": "true",
        f"{S3A}aws.credentials.provider": SIMPLE,
    }
    assert found.env == {"AWS_ACCESS_KEY_ID": "AKIA-1", "AWS_SECRET_ACCESS_KEY": "s3cret"}


@pytest.mark.parametrize(
    ("connection", "settings"),
    [
        ({}, {}),
        ({"region": "eu-1"}, {"endpoint.region": "eu-1"}),
        ({"addressing_style": "path"}, {"path.style.access": "true"}),
        (
            {"endpoint_url": "http://s3", "addressing_style": "virtual"},
            {"endpoint": "http://s3", "endpoint.region": "us-east-1"},
        ),
        ({"requester_pays": True}, {"requester.pays.enabled": "true"}),
        ({"anonymous": True}, {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}),
        (
            {"role_arn": "arn:x"},
            {
                "assumed.role.arn": "arn:x",
                "aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
            },
        ),
        (
            {"role_arn": "arn:x", **KEYS},
            {
                "assumed.role.arn": "arn:x",
                "aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
                "assumed.role.credentials.provider": SIMPLE,
            },
        ),
    ],
)
def test_an_s3_connection_becomes_hadoops_settings(connection: dict[str, Any], settings: dict[str, str]) -> None:
    assert s3a(connection) == settings


@pytest.mark.parametrize(
    ("connection", "url", "user"),
    [
        (SHOP, "jdbc:postgresql://db:5433/my%20shop?sslmode=require", "me@x"),
        ({"host": "::1", "user": "me", "password": "s3cret"}, "jdbc:postgresql://[::1]:5432/me", "me"),
        (
            {"host": "db", "database": "shop", "sslmode": "disable"},
            "jdbc:postgresql://db:5432/shop?sslmode=disable",
            None,
        ),
        ({"dsn": "postgres://db/shop"}, "jdbc:postgresql://db:5432/shop", None),
    ],
)
def test_a_postgres_connection_becomes_an_address_and_a_user(
    connection: dict[str, Any], url: str, user: str | None
) -> None:
    found = connection_settings({"shop": {"type": "postgres", **connection}}).conf
    wanted = {"spark.asset_job.jdbc.shop.url": url, "spark.asset_job.jdbc.shop.user": user}
    assert found == {key: value for key, value in wanted.items() if value is not None}
    assert "s3cret" not in repr(found)
    assert "p@ss" not in repr(found)


def test_only_jobs_with_connectors_get_settings_and_their_own_settings_win() -> None:
    submission = make_submission("1", Path("/job.py"), context={"token": "t", "connections": {"lake": LAKE}})
    assert f"{S3A}endpoint" not in configuration(submission, PATHS)
    assert "AWS_ACCESS_KEY_ID" not in environment(submission, PATHS, {})
    own = {f"{S3A}endpoint": "http://mine"}
    brings = replace(
        submission, application=submission.application.model_copy(update={"packages": ("g:a:1",), "conf": own})
    )
    assert configuration(brings, PATHS)[f"{S3A}endpoint"] == "http://mine"
    assert environment(brings, PATHS, {})["AWS_SECRET_ACCESS_KEY"] == "s3cret"
    assert "s3cret" not in repr((configuration(brings, PATHS), arguments(brings, PATHS)))


def test_a_job_can_redact_more_but_not_less() -> None:
    submission = make_submission("1", Path("/job.py"), conf={"spark.redaction.regex": "endpoint"})
    assert configuration(submission, PATHS)["spark.redaction.regex"] == f"{redaction(None)}|(?-i:endpoint)"
