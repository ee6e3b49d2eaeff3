"""The obligations of every connection, whoever wrote it (docs/writing-a-trigger.md)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import anyio
import pytest
from pydantic import SecretBytes, SecretStr, ValidationError

from tests.contract.sources import PLUGINS
from triggers.base import BaseConnection
from watcher.configuration.vocabulary import connection_class, vocabulary

pytestmark = pytest.mark.feature("rows", "s3", "tables")

NOBODY: Final = "127.0.0.1:9"
"""An address that nobody answers."""
OF_AN_AUTHOR = os.environ.get("WATCHER_TEST_CONNECTION")
CONNECTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "s3": {"endpoint_url": f"http://{NOBODY}", "access_key_id": "an-access-key", "secret_access_key": "a-secret-key"},
    "s3 without keys": {"type": "s3", "profile": "nobodys"},
    "postgres": {"dsn": f"postgresql://me:pass-word@{NOBODY}/shop"},
    "postgres in parts": {"type": "postgres", "host": "127.0.0.1", "port": 9, "user": "me", "password": "pass-word"},
    "iceberg": {"catalog": "sql", "uri": f"postgresql://me:pass-word@{NOBODY}/ice", "warehouse": "file:///warehouse"},
    "notice_board.BoardConnection": {"url": f"http://{NOBODY}", "token": "a-third-partys-token"},
    **({"an author's": json.loads(OF_AN_AUTHOR)} if OF_AN_AUTHOR else {}),
}
_CREDENTIAL: Final = re.compile("secret|password|token|dsn|access_key|private|credential")


@pytest.fixture(params=CONNECTIONS)
def written(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """A connection as it stands in the YAML; no server answers at its address."""
    vocabulary().add_plugins(PLUGINS, frozenset())
    return {"type": request.param, **CONNECTIONS[request.param]}


@pytest.fixture
def connection(written: Mapping[str, Any]) -> BaseConnection:
    return connection_class(written["type"]).model_validate(written)


def secrets_of(connection: BaseConnection) -> Iterator[str]:
    for _, value in connection:
        if isinstance(value, SecretStr):
            yield value.get_secret_value()
        elif isinstance(value, SecretBytes):
            yield value.get_secret_value().decode()


def test_the_type_is_as_the_yaml_has_it(connection: BaseConnection, written: Mapping[str, Any]) -> None:
    assert connection.type == written["type"]


def test_fields_that_hold_credentials_are_secret(connection: BaseConnection) -> None:
    for name, value in connection:
        if value is not None and _CREDENTIAL.search(name):
            assert isinstance(value, SecretStr | SecretBytes), name


def test_no_secret_is_printed_or_put_into_plain_json(connection: BaseConnection) -> None:
    shown = f"{connection!r} {connection} {connection.model_dump_json()}"
    assert [secret for secret in secrets_of(connection) if secret in shown] == []


def test_a_key_it_does_not_know_is_refused_without_repeating_secrets(
    connection: BaseConnection, written: Mapping[str, Any]
) -> None:
    with pytest.raises(ValidationError, match="no_such_key") as refused:
        type(connection).model_validate({**written, "no_such_key": "x"})
    assert [secret for secret in secrets_of(connection) if secret in str(refused.value)] == []


async def test_its_client_opens_without_reaching_the_source_and_closes(connection: BaseConnection) -> None:
    with anyio.fail_after(60):
        async with connection.open() as first, connection.open() as second:
            assert first is not None
            assert first is not second


def test_what_it_hands_to_jobs_is_json_with_the_secrets_in_clear(connection: BaseConnection) -> None:
    revealed = connection.reveal_to_jobs()
    text = json.dumps(revealed, allow_nan=False)
    assert isinstance(revealed, dict)
    assert [secret for secret in secrets_of(connection) if json.dumps(secret)[1:-1] not in text] == []
