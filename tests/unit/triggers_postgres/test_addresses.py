"""The address of a watched PostgreSQL: what may be given together, and tokens of RDS."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import boto3
import pytest
from pydantic import ValidationError

from triggers.postgres.connection import PostgresConnection
from triggers.shared.postgres.passwords import rds_tokens

HOST = "shop.cabcdefghijk.eu-west-1.rds.amazonaws.com"


def connection(**given: Any) -> PostgresConnection:
    return PostgresConnection.model_validate(given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"host": "h", "password": {"file": "f", "command": ["c"]}}, "give either a file or a command"),
        ({"host": "h", "password": {}}, "give either a file or a command"),
        ({"host": "h", "password": {"command": []}}, "at least 1 item"),
        ({"host": "h", "password": {"command": ["c"], "ttl": "0s"}}, "ttl must be longer than 0s"),
        ({"dsn": "postgresql://u@h/d", "password": "p"}, "give either dsn or password, not both"),
        ({"host": "h", "user": "u", "password": {"file": "f"}, "iam": True}, "either password or iam"),
        ({"host": "h", "iam": True}, "iam needs one host and a user"),
        ({"dsn": "postgresql://u@a,b/d", "iam": True}, "iam needs one host and a user"),
        (
            {"host": "h", "user": "u", "iam": True, "sslmode": "prefer"},
            "iam needs sslmode require, verify-ca or verify-full",
        ),
        ({"dsn": "postgresql://u@h/d?sslmode=disable", "iam": True}, "iam needs sslmode require"),
        ({"host": "h", "sslcert": "c"}, "give sslcert and sslkey together"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        connection(**given)


@pytest.mark.parametrize(
    "password", ["p/ss", "12#4", "12?4", "7/@x", "p@ss", "p@ss/w#rd", "p?a=b", "@/", "p[ss", "p]ss"]
)
def test_a_password_that_ends_the_address_is_to_be_percent_encoded(password: str) -> None:
    with pytest.raises(ValidationError, match="password contains a character that ends the address; percent-encode"):
        connection(dsn=f"postgresql://reader:{password}@db.example.com/shop")
    assert connection(dsn=f"postgresql://reader:{quote(password, safe='')}@db.example.com/shop")


@pytest.mark.parametrize(
    "rest",
    [
        "db:5432/shop?user=me@example.com",
        "/shop?host=/run&user=a@b",
        "a:1,b:2/shop",
        "u:p@h/d?x=@",
        "u:p@h/my@db",
        "[::1]:5432/d?user=a@b",
    ],
)
def test_an_address_with_signs_elsewhere_is_accepted(rest: str) -> None:
    assert connection(dsn=f"postgresql://{rest}")


def test_equal_connections_stay_equal_after_use() -> None:
    """A reload compares them, and replaces the clients of those that changed."""
    given: dict[str, Any] = {"host": "h", "password": {"command": ["pass"]}}
    used = connection(**given)
    assert used.passwords is not None
    assert used._opener.passwords is used.passwords
    assert used == connection(**given)
    assert used != connection(**given, user="u")


def test_what_the_dsn_says_beside_tls_stays() -> None:
    dsn = "postgresql://u:p%40ss@h:5433/d?application_name=x&sslmode=prefer"
    made = connection(dsn=dsn, sslmode="verify-full", sslrootcert="/etc/all of them.crt")
    assert made.address == {
        "dsn": "postgresql://u:p%40ss@h:5433/d?application_name=x&sslmode=verify-full&sslrootcert=%2Fetc%2Fall%20of%20them.crt"
    }


async def test_a_token_is_the_one_that_aws_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signature holds the second in which it was made, so some pair of two is equal."""
    for name, value in {
        "ACCESS_KEY_ID": "AKIAEXAMPLE",
        "SECRET_ACCESS_KEY": "an example",
        "SESSION_TOKEN": "a/+b",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = boto3.client("rds", region_name="eu-west-1")
    for _ in range(20):
        expected = client.generate_db_auth_token(DBHostname=HOST, Port=5432, DBUsername="a user")
        if expected == await rds_tokens(HOST, None, "a user").current():
            break
    else:
        pytest.fail(f"no token is {expected}")


async def test_a_token_is_kept_until_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "an example")
    tokens = rds_tokens(HOST, None, "u")
    first = await tokens.current()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAANOTHER")
    assert await tokens.current() == first
    tokens.forget("another")
    assert await tokens.current() == first
    tokens.forget(first)
    assert "AKIAANOTHER" in await tokens.current()
