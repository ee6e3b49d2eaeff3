"""The tokens of tries, and the secrets that sign them: short-lived JWTs that name a task instance and one of its tries.

The claims are those of Airflow's execution API (`sub` is the task instance's UUID), with `try`, `trace` and `first` added. A token proves
who sends a request. It does not prove that the try may still write: the transaction that writes checks this on the locked row.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import jwt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from config.models.api_settings import ApiSettings
from store.database import Database
from store.keys import TaskInstanceId, TryKey, TryRef
from store.processes import triggerers
from store.processes.tokens import digest
from store.processes.triggerers import ProcessInfo, SigningKeys
from store.runs.tries.foreign_tasks import NO_TRY
from watcher.errors import StartRefused
from watcher.host.home import Home
from watcher.host.metadata import patiently

LIFETIME: Final = timedelta(hours=1)
"""How long a try's token is valid. A job that uses it gets a renewed one before it expires."""
_ALGORITHM: Final = "HS512"
_AUDIENCE: Final = "urn:airflow.apache.org:task"
_SCOPE: Final = "execution"
_CLAIMS: Final = ("sub", "aud", "scope", "exp", "iat", "nbf", "jti", "try")
_CLOCKS_DIFFER_BY: Final = timedelta(seconds=10)
_RENEWAL_SHARE: Final = 0.2
"""The last part of a token's life, in which it is renewed."""


_YEAR_3000: Final = 32_503_680_000
"""The end of time for tokens, in seconds since 1970: no `datetime` holds arbitrarily late moments."""
_Seconds = Annotated[float, Field(strict=True, ge=0, lt=_YEAR_3000)]
_Id = Annotated[int, Field(strict=True, ge=1, lt=2**63)]


class InvalidTryToken(Exception):
    """The token is not valid, or not any more. The text gives the reason and never contains the token."""


class ImpossibleClaims(InvalidTryToken):
    """One of our secrets has signed the token, and its claims name no try that could exist."""


class _Claims(BaseModel):
    """The claims that become parts of statements, within the limits of the columns that they are compared with."""

    model_config = ConfigDict(hide_input_in_errors=True)

    sub: UUID
    scope: Literal["execution"]
    number: Annotated[int, Field(strict=True, alias="try", ge=NO_TRY, lt=2**31)]
    trace: Annotated[str | None, Field(pattern="^[0-9a-f]{32}$")] = None
    first: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")] = None
    assets: frozenset[_Id] | None = None
    iat: _Seconds
    exp: _Seconds


@dataclass(frozen=True, kw_only=True)
class TryIdentity(TryRef):
    """The try that a valid token identifies.

    A task of another scheduler has no try here. Its token lists the ids of the `assets` whose stores it may read and write.
    """

    assets: frozenset[int] | None = None
    issued_at: datetime
    expires_at: datetime
    trace_id: str | None = None
    """The trace of the try's run. None in a token of an older release."""
    first: str
    """The digest of the token with which the try was submitted. Renewed tokens carry it."""

    @property
    def lifetime(self) -> timedelta:
        """How long the token was made for. A renewed token lives as long."""
        return self.expires_at - self.issued_at

    def is_due_for_renewal(self, now: datetime) -> bool:
        """Whether the last fifth of the token's life has begun. Tokens of other schedulers' tasks are never renewed."""
        return self.assets is None and self.expires_at - now < self.lifetime * _RENEWAL_SHARE


def signing_secrets(api: ApiSettings, home: Home, *, alone: bool) -> tuple[bytes, ...]:
    """Return the secrets: the first one signs, all of them verify.

    Raises `StartRefused` when no secret is configured and other processes exist, which could not verify a secret made here.
    """
    if api.secret is not None:
        return tuple(secret.get_secret_value().encode() for secret in api.secret)
    if not alone:
        raise StartRefused(
            "processes with different roles must sign tokens alike; set settings.api.secret to the same text in each of them"
        )
    return (home.secret(),)


async def publish_keys(database: Database, secrets: Sequence[bytes], process: ProcessInfo) -> SigningKeys:
    """Publish digests of the secrets, with which the other processes of the database compare their own."""
    keys = SigningKeys.of(secrets, process)

    async def write() -> None:
        async with database.transaction() as connection:
            await triggerers.publish_keys(connection, keys, database.dialect)

    await patiently(write)
    return keys


def issuer(secret: bytes) -> Callable[[TryKey, str], str]:
    """Return a function that makes a token for a try, given the trace of its run."""

    def issue_for(key: TryKey, trace_id: str) -> str:
        return issue(secret, key, lifetime=LIFETIME, trace_id=trace_id)

    return issue_for


def issue(
    secret: bytes,
    ref: TryRef,
    *,
    lifetime: timedelta,
    trace_id: str | None = None,
    assets: Collection[int] | None = None,
    first: str | None = None,
) -> str:
    """Return a token that is valid from now on; with `assets`, one for a task of another scheduler.

    `first` is the digest of the try's first token; without it, the new token is the first.
    """
    now = datetime.now(UTC)
    claims = {
        "sub": ref.task_instance_id,
        "aud": _AUDIENCE,
        "scope": _SCOPE,
        "iat": now,
        "nbf": now,
        "exp": now + lifetime,
        "jti": uuid.uuid4().hex,
        "try": ref.try_number,
        **({} if assets is None else {"assets": sorted(assets)}),
        **({} if first is None else {"first": first}),
        "trace": trace_id,
    }
    return jwt.encode(claims, _key(secret), algorithm=_ALGORITHM)


def verify(secrets: Sequence[bytes], token: str) -> TryIdentity:
    """Return the try that the token identifies, if one of the secrets has signed it. Raises `InvalidTryToken`."""
    identity = _decoded(tuple(secrets), token)
    if datetime.now(UTC) >= identity.expires_at + _CLOCKS_DIFFER_BY:
        raise InvalidTryToken("Signature has expired")
    return identity


@lru_cache(maxsize=4096)
def _decoded(secrets: tuple[bytes, ...], token: str) -> TryIdentity:
    """Return the token's content, cached: jobs send the same token many times, and only its expiry has to be checked again."""
    try:
        claims = _Claims.model_validate(_claims(secrets, token))
    except ValidationError as error:
        raise ImpossibleClaims("; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in error.errors())) from None
    if (claims.assets is None) is (claims.number == NO_TRY):
        raise ImpossibleClaims(f"try: it is {NO_TRY} in a token with assets, and at least {NO_TRY + 1} in any other")
    return TryIdentity(
        task_instance_id=TaskInstanceId(str(claims.sub)),
        try_number=claims.number,
        trace_id=claims.trace,
        first=claims.first or digest(token),
        assets=claims.assets,
        issued_at=datetime.fromtimestamp(claims.iat, UTC),
        expires_at=datetime.fromtimestamp(claims.exp, UTC),
    )


def _claims(secrets: Sequence[bytes], token: str) -> Mapping[str, Any]:
    """Return the claims, verified with the first secret that fits. Raises `InvalidTryToken`."""
    options: Any = {"require": list(_CLAIMS)}
    refusal = "there is no secret to verify it with"
    for secret in secrets:
        try:
            return jwt.decode(
                token,
                _key(secret),
                algorithms=[_ALGORITHM],
                audience=_AUDIENCE,
                leeway=_CLOCKS_DIFFER_BY,
                options=options,
            )
        except jwt.InvalidSignatureError as error:
            refusal = str(error)
        except (jwt.InvalidTokenError, UnicodeError, RecursionError) as error:
            raise InvalidTryToken(str(error)) from None
    raise InvalidTryToken(refusal)


def _key(secret: bytes) -> bytes:
    """Return a key of 64 bytes, which HS512 requires (RFC 7518, section 3.2), whatever the length of the secret."""
    return hashlib.sha512(secret).digest()
