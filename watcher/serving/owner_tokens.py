"""Tokens of a minute for the command line of the account that owns a home: whoever may read the home's secret may do everything.

They are JWTs, signed with the secret of the daemon that they are for, and made anew for each request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import jwt

LIFETIME: Final = timedelta(minutes=1)
_ALGORITHM: Final = "HS512"
_AUDIENCE: Final = "asset-watcher:command-line"
_DOTS: Final = 2
_CLOCKS_DIFFER_BY: Final = timedelta(seconds=10)


def issue(secret: bytes, account: str) -> str:
    """Return a token that is valid from now on. `account` is the actor for the audit."""
    now = datetime.now(UTC)
    claims = {"sub": account, "aud": _AUDIENCE, "iat": now, "exp": now + LIFETIME}
    return jwt.encode(claims, _key(secret), algorithm=_ALGORITHM)


def account_of(secrets: Sequence[bytes], token: str, *, may_be_over: bool = False) -> str | None:
    """Return the account that made this token; None if it is none of ours, or too old unless it `may_be_over`."""
    if token.count(".") != _DOTS:
        return None
    options: Any = {"require": ["sub", "aud", "exp"], "verify_exp": not may_be_over}
    for secret in secrets:
        try:
            claims = jwt.decode(
                token,
                _key(secret),
                algorithms=[_ALGORITHM],
                audience=_AUDIENCE,
                leeway=_CLOCKS_DIFFER_BY,
                options=options,
            )
        except (jwt.InvalidTokenError, UnicodeError, RecursionError):
            continue
        account: str = claims["sub"]
        return account
    return None


def _key(secret: bytes) -> bytes:
    """Return a key of 64 bytes, which HS512 requires (RFC 7518, section 3.2), whatever the length of the secret."""
    return hashlib.sha512(secret).digest()
