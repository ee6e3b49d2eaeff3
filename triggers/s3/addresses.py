"""Where a bucket is reached."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
from anyio.to_thread import run_sync
from botocore import UNSIGNED
from botocore.client import BaseClient
from botocore.config import Config
from botocore.session import Session

from triggers.s3.credentials import aws_errors

DEFAULT_REGION: Final = "us-east-1"
_A_DNS_LABEL: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


@dataclass(frozen=True, kw_only=True)
class Address:
    """`url` has no query; `region` is the one to sign for; `proxy` is what the environment says."""

    url: str
    region: str
    proxy: str | None


@dataclass(eq=False, kw_only=True)
class Addresses:
    """A region's endpoint (partitions, dual-stack, FIPS) is botocore's to know; nothing is sent to find out.

    Its clients are made in a thread: the first one reads megabytes of JSON.
    """

    endpoint_url: str | None
    region: str | None
    profile: str | None
    addressing_style: Literal["auto", "path", "virtual"]
    _clients: dict[str | None, BaseClient] = field(default_factory=dict, init=False)
    _known: dict[tuple[str, str | None], Address] = field(default_factory=dict, init=False)
    _lock: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    async def of(self, bucket: str, region: str | None) -> Address:
        """`region` None: the configured one. Raises `Refused`."""
        if (bucket, region) not in self._known:
            self._known[bucket, region] = self._address(bucket, await self._client(region))
        return self._known[bucket, region]

    async def _client(self, region: str | None) -> BaseClient:
        async with self._lock:
            if region not in self._clients:
                with aws_errors(remedy="check the connection's profile and region"):
                    self._clients[region] = await run_sync(self._new_client, region)
            return self._clients[region]

    def _address(self, bucket: str, client: BaseClient) -> Address:
        endpoint = urlsplit(client.meta.endpoint_url)
        if self._in_host(bucket):
            endpoint = endpoint._replace(netloc=f"{bucket}.{endpoint.netloc}", path=endpoint.path or "/")
        else:
            endpoint = endpoint._replace(path=f"{endpoint.path}/{bucket}")
        proxy = None if proxy_bypass(endpoint.hostname or "") else getproxies().get(endpoint.scheme)
        return Address(url=endpoint.geturl(), region=client.meta.region_name, proxy=proxy)

    def _in_host(self, bucket: str) -> bool:
        """`auto` is what every S3 server understands: the host only at AWS, and where a TLS certificate covers it."""
        if self.addressing_style == "auto":
            return self.endpoint_url is None and _A_DNS_LABEL.fullmatch(bucket) is not None
        return self.addressing_style == "virtual"

    def _new_client(self, region: str | None) -> BaseClient:
        session = Session(profile=self.profile)
        return session.create_client(
            "s3",
            region_name=region or self.region or session.get_config_variable("region") or DEFAULT_REGION,
            endpoint_url=self.endpoint_url,
            config=Config(signature_version=UNSIGNED),
        )
