"""Who signs: given keys, or AWS's chain of credential providers, with or without a role to assume."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
from aiobotocore.config import AioConfig
from aiobotocore.credentials import AioRefreshableCredentials
from aiobotocore.session import AioSession
from anyio.to_thread import run_sync
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
)

from triggers.s3.failures import Failure

CLIENT_LIFETIME: Final = 540.0
"""Seconds. Temporary credentials are renewed when they have ten minutes left, so those of now are good for as long."""

_SERVER_ERROR: Final = 500
_OFF_THE_LOOP: Final = AioConfig(warm_up_loader_caches=True)
"""A service's first client reads megabytes of JSON: in a thread, please."""


@dataclass(eq=False, repr=False, kw_only=True)
class CredentialSource:
    """Resolved at the first request, refreshed by aiobotocore before they expire. `keys`: access key id, secret access key."""

    keys: tuple[str, str] | None
    profile: str | None
    role_arn: str | None
    region: str | None
    _session: AioSession = field(init=False)
    _resolved: Any = field(default=None, init=False)
    _lock: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    async def current(self) -> ReadOnlyCredentials:
        """A consistent set of keys and token. Raises `Refused` or `SourceUnavailable`."""
        with aws_errors(
            remedy="check the connection's profile and role_arn, and that its identity may assume the role"
        ):
            async with self._lock:
                if self._resolved is None:
                    self._resolved = await self._resolve()
            return await self._resolved.get_frozen_credentials()

    def forget(self) -> None:
        """The server calls them expired: ask the chain again at the next request; somebody may have renewed a file."""
        self._resolved = None

    @asynccontextmanager
    async def client(self, service: str, *, region: str | None, endpoint_url: str) -> AsyncGenerator[Any, None]:
        """A client of another service, with the keys of now: give it up within `CLIENT_LIFETIME`."""
        keys = await self.current()
        async with self._session.create_client(
            service,
            region_name=region,
            endpoint_url=endpoint_url,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            aws_session_token=keys.token,
            config=_OFF_THE_LOOP,
        ) as client:
            yield client

    async def _resolve(self) -> Any:
        self._session = session = await run_sync(self._new_session)
        credentials = await session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        if self.role_arn is None:
            return credentials
        assume = partial(self._assume_role, session, self.role_arn)
        return AioRefreshableCredentials.create_from_metadata(await assume(), assume, "sts-assume-role")

    def _new_session(self) -> AioSession:
        """In a thread, since it reads files."""
        session = AioSession(profile=self.profile)
        if self.keys is not None:
            session.set_credentials(*self.keys)
        session.full_config  # noqa: B018 - reads the files
        return session

    async def _assume_role(self, session: AioSession, role_arn: str) -> dict[str, str]:
        async with session.create_client("sts", region_name=self.region, config=_OFF_THE_LOOP) as sts:
            answer = await sts.assume_role(RoleArn=role_arn, RoleSessionName="asset-watcher")
        credentials = answer["Credentials"]
        return {
            "access_key": credentials["AccessKeyId"],
            "secret_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expiry_time": credentials["Expiration"].isoformat(),
        }


@contextmanager
def aws_errors(*, remedy: str) -> Iterator[None]:
    """Turns what botocore raises into `Refused` or `SourceUnavailable`."""
    try:
        yield
    except NoCredentialsError as error:
        remedy = "give the connection access_key_id and secret_access_key, a profile, or anonymous: true"
        raise Failure(code="NoCredentials", message=str(error), remedy=remedy, passing=False).error() from error
    except ClientError as error:
        reason, status = error.response["Error"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        raise Failure(
            code=reason["Code"], message=reason["Message"], remedy=remedy, passing=status >= _SERVER_ERROR
        ).error() from error
    except BotoCoreError as error:
        passing = isinstance(error, (HTTPClientError, CredentialRetrievalError))
        raise Failure(code=type(error).__name__, message=str(error), remedy=remedy, passing=passing).error() from error
