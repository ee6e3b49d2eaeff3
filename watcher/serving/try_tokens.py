"""The tokens of tries: short-lived JWTs that say which task instance and which try speaks.

The claims are those of Airflow's execution API (`sub` is the task instance's UUID), with `try` and `trace` added. A token proves who
speaks, not that the try may still write: that is decided on the locked row, in the transaction that writes.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import jwt

from store.keys import TryKey, TryRef

LIFETIME: Final = timedelta(hours=1)
"""Of a try's token; who uses it gets another one in time."""
_ALGORITHM: Final = "HS512"
_AUDIENCE: Final = "urn:airflow.apache.org:task"
_SCOPE: Final = "execution"
_CLAIMS: Final = ("sub", "aud", "scope", "exp", "iat", "nbf", "jti", "try")
_CLOCKS_DIFFER_BY: Final = timedelta(seconds=10)
_RENEWED_IN_THE_LAST: Final = 0.2


class InvalidTryToken(Exception):
    """Not a token of ours, or not any more; the text says why, never what the token was."""


@dataclass(frozen=True, kw_only=True)
class TryIdentity(TryRef):
    """The try that a valid token speaks for.

    Another scheduler's task has no try of ours, but the ids of the `assets` whose stores it may read and write.
    """

    assets: frozenset[int] | None = None
    issued_at: datetime
    expires_at: datetime
    trace_id: str | None = None
    """Its run's; None in a token of an older release."""

    @property
    def lifetime(self) -> timedelta:
        """How long the token was made for, and so how long a renewed one lives."""
        return self.expires_at - self.issued_at

    def is_due_for_renewal(self, now: datetime) -> bool:
        """Whether the last fifth of its life has begun."""
        return self.assets is None and self.expires_at - now < self.lifetime * _RENEWED_IN_THE_LAST


def issuer(secret: bytes) -> Callable[[TryKey, str], str]:
    """What makes tokens of tries, each in the trace of its run."""

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
) -> str:
    """A token that lives from now on; with `assets` for another scheduler's task."""
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
        "trace": trace_id,
    }
    return jwt.encode(claims, _key(secret), algorithm=_ALGORITHM)


def verify(secrets: Sequence[bytes], token: str) -> TryIdentity:
    """Who a token speaks for that one of the secrets has signed. Raises `InvalidTryToken`."""
    identity = _decoded(tuple(secrets), token)
    if datetime.now(UTC) >= identity.expires_at + _CLOCKS_DIFFER_BY:
        raise InvalidTryToken("Signature has expired")
    return identity


@lru_cache(maxsize=4096)
def _decoded(secrets: tuple[bytes, ...], token: str) -> TryIdentity:
    """Jobs come with the same token again and again; of what was decoded once only the time is looked at anew."""
    claims = _claims(secrets, token)
    if claims["scope"] != _SCOPE or type(claims["try"]) is not int:
        raise InvalidTryToken("the token is for something else")
    return TryIdentity(
        task_instance_id=claims["sub"],
        try_number=claims["try"],
        trace_id=claims.get("trace"),
        assets=frozenset(claims["assets"]) if "assets" in claims else None,
        issued_at=datetime.fromtimestamp(claims["iat"], UTC),
        expires_at=datetime.fromtimestamp(claims["exp"], UTC),
    )


def _claims(secrets: Sequence[bytes], token: str) -> Mapping[str, Any]:
    """By the first of the secrets that has signed it."""
    options: Any = {"require": list(_CLAIMS)}
    refusal = "no secret to verify it by"
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
        except (jwt.InvalidTokenError, UnicodeError) as error:
            raise InvalidTryToken(str(error)) from None
    raise InvalidTryToken(refusal)


def _key(secret: bytes) -> bytes:
    """HS512 wants 64 bytes (RFC 7518, section 3.2), whatever length of secret people choose."""
    return hashlib.sha512(secret).digest()
