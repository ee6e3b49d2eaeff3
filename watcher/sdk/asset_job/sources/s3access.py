"""An S3 connection as executors use it: it travels pickled, and shows nothing of its credentials."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import SourceFailed
from .failures import require

if TYPE_CHECKING:
    from obstore.store import S3Store

_LONGEST_READ = timedelta(hours=12)
"""Of one file: Spark may be slow to take it."""
_LONGEST_SILENCE = timedelta(minutes=1)
_MOST_RETRIES = 10


@dataclass(frozen=True, kw_only=True)
class S3Access:
    """Settings of obstore by name, for any bucket."""

    endpoint: str | None
    region: str | None
    config: tuple[tuple[str, str], ...] = field(repr=False)

    def store(self, bucket: str) -> S3Store:
        """One client for each bucket and process."""
        require("obstore")
        return _store(self, bucket)


def s3_access(connection: Mapping[str, Any]) -> S3Access:
    """Of a job's connection (`type: s3`). Raises `SourceFailed`.

    `profile` and `role_arn` are resolved here, on the driver, to credentials that last for an hour as a rule. Without
    any, each executor finds its own as obstore does: environment, web identity, container or instance role.
    """
    given = {
        "region": connection.get("region"),
        "endpoint": connection.get("endpoint_url"),
        **_identity(connection),
        "virtual_hosted_style_request": _virtual_hosted(connection),
        "request_payer": "true" if connection.get("requester_pays") else None,
    }
    return S3Access(
        endpoint=connection.get("endpoint_url"),
        region=connection.get("region"),
        config=tuple((name, value) for name, value in given.items() if value is not None),
    )


def _virtual_hosted(connection: Mapping[str, Any]) -> str | None:
    """`auto`: by host name at AWS, by path at any other server."""
    style = connection.get("addressing_style", "auto")
    if style == "auto":
        return None if connection.get("endpoint_url") else "true"
    return str(style == "virtual").lower()


def _identity(connection: Mapping[str, Any]) -> dict[str, str | None]:
    if connection.get("anonymous"):
        return {"skip_signature": "true"}
    if connection.get("profile") or connection.get("role_arn"):
        return _resolved(connection)
    return {name: connection.get(name) for name in ("access_key_id", "secret_access_key")}


def _resolved(connection: Mapping[str, Any]) -> dict[str, str | None]:
    try:
        botocore = importlib.import_module("botocore.session")
        errors = importlib.import_module("botocore.exceptions")
    except ImportError:
        raise SourceFailed(
            "profile and role_arn of a connection need botocore in the driver's Python: install it, or give access keys"
        ) from None
    try:
        session = botocore.Session(profile=connection.get("profile"))
        if connection.get("access_key_id"):
            session.set_credentials(connection["access_key_id"], connection["secret_access_key"])
        if connection.get("role_arn"):
            return _assumed(session, connection)
        keys = session.get_credentials().get_frozen_credentials()
    except (errors.BotoCoreError, errors.ClientError, AttributeError) as error:
        raise SourceFailed(f"the connection's profile or role gives no credentials: {error}") from None
    return {"access_key_id": keys.access_key, "secret_access_key": keys.secret_key, "session_token": keys.token}


def _assumed(session: Any, connection: Mapping[str, Any]) -> dict[str, str | None]:
    sts = session.create_client("sts", region_name=connection.get("region"))
    answer = sts.assume_role(RoleArn=connection["role_arn"], RoleSessionName="asset-watcher")["Credentials"]
    return {
        "access_key_id": answer["AccessKeyId"],
        "secret_access_key": answer["SecretAccessKey"],
        "session_token": answer["SessionToken"],
    }


@cache
def _store(access: S3Access, bucket: str) -> S3Store:
    from obstore.store import S3Store  # noqa: PLC0415 - only where S3 is read

    config: Any = dict(access.config)
    return S3Store(
        bucket,
        config=config,
        client_options={
            "allow_http": (access.endpoint or "").startswith("http:"),
            "timeout": _LONGEST_READ,
            "read_timeout": _LONGEST_SILENCE,
        },
        retry_config={"max_retries": _MOST_RETRIES, "retry_timeout": _LONGEST_READ},
    )
