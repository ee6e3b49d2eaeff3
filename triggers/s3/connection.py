"""The connection `type: s3`: AWS, or any server that speaks its protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, Self

import anyio
from anyio.to_thread import run_sync
from pydantic import SecretStr, field_validator, model_validator

from triggers.base import BaseConnection

if TYPE_CHECKING:
    from triggers.s3.listing import S3Client


class S3Connection(BaseConnection):
    """An S3 server and how to sign in.

    Without keys, the credentials are found as AWS's own tools find them: environment, `profile`, container or instance role.

    `role_arn` is assumed with those credentials; its STS is AWS's unless AWS_ENDPOINT_URL_STS names another. Proxies are
    taken from the environment, a private CA from SSL_CERT_FILE.
    """

    type: Literal["s3"] = "s3"
    endpoint_url: str | None = None
    region: str | None = None
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    profile: str | None = None
    role_arn: str | None = None
    anonymous: bool = False
    addressing_style: Literal["auto", "path", "virtual"] = "auto"
    requester_pays: bool = False

    @field_validator("endpoint_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("endpoint_url must start with http:// or https://")
        if value is not None and "@" in value:
            raise ValueError("endpoint_url must not hold credentials; use access_key_id and secret_access_key")
        return None if value is None else value.rstrip("/")

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        keys = (self.access_key_id, self.secret_access_key)
        if None in keys and keys != (None, None):
            raise ValueError("access_key_id and secret_access_key belong together; give both or neither")
        if self.anonymous and (self.access_key_id or self.profile or self.role_arn):
            raise ValueError("anonymous excludes access_key_id, profile and role_arn; remove one")
        if self.access_key_id and self.profile:
            raise ValueError("access_key_id and profile exclude each other; remove one")
        return self

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[S3Client, None]:
        await run_sync(_import_client)
        import aiohttp  # noqa: PLC0415  it is there by now

        from triggers.s3.listing import S3Client  # noqa: PLC0415

        headers = {"User-Agent": "asset-watcher", "Accept-Encoding": "identity"}
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=120, connect=10, sock_read=60),
                headers=headers,
                connector=aiohttp.TCPConnector(limit=0),  # `BucketRequests` has a limit for each bucket
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as http,
            anyio.create_task_group() as tasks,
        ):
            yield S3Client(self, http, tasks)
            tasks.cancel_scope.cancel()


def _import_client() -> None:
    """Import the client with AWS's library, which takes as long as all the rest: whoever only reads a configuration does not.

    Blocking.
    """
    import triggers.s3.listing  # noqa: F401, PLC0415
