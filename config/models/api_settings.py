"""The `settings.api` section: where the API listens, who may use it, and how much a client may ask of it."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import ip_address, ip_network
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, WithJsonSchema, field_validator

from config.models.values import Address, Bytes, PositiveDuration
from config.section import LARGEST_INT, Section

_SHORTEST_SECRET: Final = 32


def _as_list(secrets: object) -> object:
    return secrets if isinstance(secrets, list | tuple) else (secrets,)


def _check_secrets(secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    if any(len(secret.get_secret_value().encode()) < _SHORTEST_SECRET for secret in secrets):
        each = "" if len(secrets) == 1 else "each "
        raise ValueError(f"{each}must have at least {_SHORTEST_SECRET} bytes: `openssl rand -hex 32` makes one")
    return secrets


Secrets: TypeAlias = Annotated[
    tuple[SecretStr, ...],
    BeforeValidator(_as_list),
    Field(min_length=1),
    AfterValidator(_check_secrets),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]


class LimitSettings(Section):
    header_bytes: Annotated[Bytes, Field(ge=1_000)] = 64_000
    """Maximum number of bytes in a request line and its headers together: `64kB`."""
    body_bytes: Annotated[Bytes, Field(ge=1)] = 1_000_000
    """Maximum number of bytes in a body from people and tools, in addition to `max_value_storage_bytes`."""
    execution_body_bytes: Annotated[Bytes, Field(ge=1)] = 16_000_000
    """Maximum number of bytes in a body from a job. A job's values have no other limit."""
    header_timeout: PositiveDuration = timedelta(seconds=10)
    """Maximum time for a request line with its headers."""
    body_timeout: PositiveDuration = timedelta(seconds=60)
    """Maximum time for a body."""
    idle_timeout: PositiveDuration = timedelta(seconds=75)
    """Maximum time between two requests of a connection, and for a client that does not read its response."""
    connections: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 500
    """Maximum number of connections. A new one beyond that closes the connection that has waited longest for its client."""
    per_address: Annotated[int, Field(ge=1, le=LARGEST_INT)] = 100
    """Maximum number of connections from one address (IPv6: from one /64), except from `trusted_proxies`."""


def _check_network(network: str) -> str:
    try:
        return str(ip_network(network))
    except ValueError:
        raise ValueError("must be an address or a network such as `10.1.0.0/16`, without host bits") from None


def _check_host(host: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", host):
        raise ValueError("must be a host name or an address as in a URL, without a port; `*` is not allowed")
    return host.lower()


class ApiSettings(Section):
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8795
    """Port to listen on; 0 takes any free port."""
    base_url: Address | None = None
    """Address under which people reach the API and its pages; links begin with it."""
    docs_url: Address | None = None
    """Address of the documentation, for the link in the header of the pages; null shows no link."""
    auth: Literal["tokens", "none"] = "tokens"
    """`none` lets everybody in. It is refused if other machines can reach `host`."""
    secret: Secrets | None = None
    """Signs the jobs' tokens; at least 32 bytes. Null creates one in `home`. Processes that share a database must share it. In a
    list the first one signs, and all of them verify: `[new, old]` while tokens of the old one are valid."""
    hosts: tuple[Annotated[str, AfterValidator(_check_host)], ...] | None = None
    """Names in the header `Host` under which a browser may use the API without a token; null is the loopback names, `host`, and
    the name in `base_url`."""
    trusted_proxies: tuple[Annotated[str, AfterValidator(_check_network)], ...] = ()
    """Addresses and networks whose headers `X-Forwarded-For` and `X-Forwarded-Proto` are trusted."""
    limits: LimitSettings = LimitSettings()
    """How much a client may send, how long it may take, and how many connections there may be."""

    @field_validator("auth")
    @classmethod
    def _check_auth(cls, auth: str, info: ValidationInfo) -> str:
        if auth == "none" and not _is_loopback(info.data.get("host", "localhost")):
            raise ValueError("`none` is for a loopback host only: set `auth: tokens`, or `host: 127.0.0.1`")
        return auth

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the API."""
        return _is_loopback(self.host)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
