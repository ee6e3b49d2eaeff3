"""What writes and deletes objects: a client of AWS's own library, opened with the keys of now."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from triggers.errors import ConfigurationError
from triggers.s3.aws import DEFAULT_REGION, CredentialSource, S3Settings, aws_errors

_REMEDY: Final = "let the connection's identity get and delete objects of the watched prefix, and put objects to the target if they are moved"


async def probe_writing(connection: S3Settings, bucket: str, key: str) -> None:
    """Write an empty object and remove it. Raises `S3Refused` or `SourceUnavailable`."""
    remedy = "let the connection's identity put and delete objects there, or correct the target"
    credentials = CredentialSource(connection)
    with aws_errors(remedy=remedy):
        async with credentials.client("s3", region=connection.region, endpoint_url=connection.endpoint_url) as client:
            await client.put_object(Bucket=bucket, Key=key, Body=b"")
            await client.delete_object(Bucket=bucket, Key=key)


@dataclass(frozen=True, kw_only=True)
class ObjectWriter:
    """Opens clients that write. `credentials` None: the connection is anonymous."""

    connection: S3Settings
    credentials: CredentialSource | None

    @property
    def extra(self) -> Mapping[str, str]:
        """What every request says beside what it asks for."""
        return {"RequestPayer": "requester"} if self.connection.requester_pays else {}

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any, None]:
        """Open a client for some requests. What it refuses is raised as `S3Refused` or `SourceUnavailable`."""
        if self.credentials is None:
            raise ConfigurationError(
                "an anonymous connection cannot clean its source; give it credentials, or remove clean_source"
            )
        style = self.connection.addressing_style
        with aws_errors(remedy=_REMEDY):
            async with self.credentials.client(
                "s3",
                region=self.connection.region or DEFAULT_REGION,
                endpoint_url=self.connection.endpoint_url,
                addressing_style=style,
            ) as client:
                yield client
