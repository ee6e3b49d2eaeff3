"""The part of a connection that AWS's own library knows: the address of a bucket, the credentials, and the errors."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, Literal, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
from aiobotocore.config import AioConfig
from aiobotocore.credentials import AioRefreshableCredentials
from aiobotocore.session import AioSession
from anyio.to_thread import run_sync
from botocore import UNSIGNED
from botocore.client import BaseClient
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
)
from botocore.loaders import Loader, create_loader
from botocore.session import Session
from pydantic import SecretStr

from triggers.s3.failures import S3Failure

DEFAULT_REGION: Final = "us-east-1"
CLIENT_LIFETIME: Final = 540.0
"""Seconds. Temporary credentials are renewed when they have ten minutes left, so the current ones last as long as this."""

_A_DNS_LABEL: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_SERVER_ERROR: Final = 500
_OFF_THE_LOOP: Final = AioConfig(warm_up_loader_caches=True)
"""A service's first client reads megabytes of JSON, which must happen in a thread."""


class S3Settings(Protocol):
    """What a connection says about the server and about who signs in; see `S3Connection`."""

    @property
    def endpoint_url(self) -> str | None: ...
    @property
    def region(self) -> str | None: ...
    @property
    def access_key_id(self) -> SecretStr | None: ...
    @property
    def secret_access_key(self) -> SecretStr | None: ...
    @property
    def profile(self) -> str | None: ...
    @property
    def role_arn(self) -> str | None: ...
    @property
    def anonymous(self) -> bool: ...
    @property
    def addressing_style(self) -> Literal["auto", "path", "virtual"]: ...
    @property
    def requester_pays(self) -> bool: ...


_Session = TypeVar("_Session", bound=Session)


def _session(kind: type[_Session], connection: S3Settings) -> _Session:
    """Make a session of the connection's profile. Botocore's description of a service is read once, not once a session."""
    session: _Session = kind(profile=connection.profile)
    session.lazy_register_component("data_loader", lambda: _loader(session.get_config_variable("data_path")))
    return session


@cache
def _loader(data_path: str | None) -> Loader:
    return create_loader(data_path)


@dataclass(frozen=True, kw_only=True)
class BucketAddress:
    """How a bucket is reached. `url` has no query, `region` is signed for, `proxy` comes from the environment."""

    url: str
    region: str
    proxy: str | None


@dataclass(eq=False)
class BucketAddresses:
    """The addresses of buckets. Botocore knows a region's endpoint (partitions, dual-stack, FIPS) without a request.

    Its clients are made in a thread, since the first one reads megabytes of JSON.
    """

    connection: S3Settings
    _clients: dict[str | None, BaseClient] = field(default_factory=dict, init=False)
    _known: dict[tuple[str, str | None], BucketAddress] = field(default_factory=dict, init=False)
    _lock: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    async def address_of(self, bucket: str, region: str | None) -> BucketAddress:
        """Return the address of a bucket in a region; None is the configured one. Raises `S3Refused`."""
        if (bucket, region) not in self._known:
            self._known[bucket, region] = self._new_address(bucket, await self._client(region))
        return self._known[bucket, region]

    async def _client(self, region: str | None) -> BaseClient:
        async with self._lock:
            if region not in self._clients:
                with aws_errors(remedy="check the connection's profile and region"):
                    self._clients[region] = await run_sync(self._new_client, region)
        return self._clients[region]

    def _new_address(self, bucket: str, client: BaseClient) -> BucketAddress:
        meta = client.meta
        endpoint = urlsplit(meta.endpoint_url)
        if self._in_host(bucket):
            endpoint = endpoint._replace(netloc=f"{bucket}.{endpoint.netloc}", path=endpoint.path or "/")
        else:
            endpoint = endpoint._replace(path=f"{endpoint.path}/{bucket}")
        proxy = None if proxy_bypass(endpoint.hostname or "") else getproxies().get(endpoint.scheme)
        return BucketAddress(url=endpoint.geturl(), region=meta.region_name, proxy=proxy)

    def _in_host(self, bucket: str) -> bool:
        """Whether the bucket's name is part of the host. `auto`: only at AWS, and only if a TLS certificate covers it.

        Every S3 server understands the name in the path.
        """
        if self.connection.addressing_style == "auto":
            return self.connection.endpoint_url is None and _A_DNS_LABEL.fullmatch(bucket) is not None
        return self.connection.addressing_style == "virtual"

    def _new_client(self, region: str | None) -> BaseClient:
        session = _session(Session, self.connection)
        return session.create_client(
            "s3",
            region_name=region or self.connection.region or session.get_config_variable("region") or DEFAULT_REGION,
            endpoint_url=self.connection.endpoint_url,
            config=Config(signature_version=UNSIGNED),
        )


@dataclass(eq=False, repr=False)
class CredentialSource:
    """The connection's keys, or AWS's chain of providers, with or without a role to assume.

    Resolved at the first request, refreshed by aiobotocore before they expire.
    """

    connection: S3Settings
    _session: AioSession = field(init=False)
    _resolved: Any = field(default=None, init=False)
    _lock: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    async def current(self) -> ReadOnlyCredentials:
        """A consistent set of keys and token. Raises `S3Refused` or `SourceUnavailable`."""
        with aws_errors(
            remedy="check the connection's profile and role_arn, and that its identity may assume the role"
        ):
            async with self._lock:
                if self._resolved is None:
                    self._resolved = await self._resolve()
            return await self._resolved.get_frozen_credentials()

    def forget(self) -> None:
        """Ask the chain again at the next request: the server calls the credentials expired, and a file may have been renewed."""
        self._resolved = None

    @asynccontextmanager
    async def client(
        self, service: str, *, region: str | None, endpoint_url: str | None, addressing_style: str = "auto"
    ) -> AsyncGenerator[Any, None]:
        """Open a client of another service with the current keys; close it within `CLIENT_LIFETIME`."""
        keys = await self.current()
        config = AioConfig(warm_up_loader_caches=True, s3={"addressing_style": addressing_style})
        async with self._session.create_client(
            service,
            region_name=region,
            endpoint_url=endpoint_url,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            aws_session_token=keys.token,
            config=config,
        ) as client:
            yield client

    async def _resolve(self) -> Any:
        self._session = session = await run_sync(self._new_session)
        credentials = await session.get_credentials()
        if credentials is None:
            raise NoCredentialsError
        if self.connection.role_arn is None:
            return credentials
        assume = partial(self._assume_role, session, self.connection.role_arn)
        return AioRefreshableCredentials.create_from_metadata(await assume(), assume, "sts-assume-role")

    def _new_session(self) -> AioSession:
        """Make a session, in a thread, since that reads files."""
        session = _session(AioSession, self.connection)
        key_id, key = self.connection.access_key_id, self.connection.secret_access_key
        if key_id is not None and key is not None:
            session.set_credentials(key_id.get_secret_value(), key.get_secret_value())
        session.full_config  # noqa: B018 - reads the files
        return session

    async def _assume_role(self, session: AioSession, role_arn: str) -> dict[str, str]:
        async with session.create_client("sts", region_name=self.connection.region, config=_OFF_THE_LOOP) as sts:
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
    """Turn what botocore raises into `S3Refused` or `SourceUnavailable`."""
    try:
        yield
    except NoCredentialsError as error:
        remedy = "give the connection access_key_id and secret_access_key, a profile, or anonymous: true"
        raise S3Failure(code="NoCredentials", message=str(error), remedy=remedy).error() from error
    except ClientError as error:
        reason = error.response["Error"]
        passing = error.response["ResponseMetadata"]["HTTPStatusCode"] >= _SERVER_ERROR
        raise S3Failure(
            code=reason["Code"], message=reason["Message"], remedy=remedy, passing=passing
        ).error() from error
    except BotoCoreError as error:
        passing = isinstance(error, (HTTPClientError, CredentialRetrievalError))
        raise S3Failure(
            code=type(error).__name__, message=str(error), remedy=remedy, passing=passing
        ).error() from error
