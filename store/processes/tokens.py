"""Bearer tokens of people and tools: stored as hashes, shown once, revocable."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import api_token, database_now
from store.errors import InvalidValue

ROLES: Final = ("viewer", "operator", "admin")
_t = api_token.c
_VALID: Final = select(_t.subject, _t.role, _t.token_hash).where(
    _t.token_hash == bindparam("b_hash"), _t.revoked_at.is_(None)
)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who a token speaks for."""

    subject: str
    role: str


def digest(token: str) -> str:
    """SHA-256 in hex; the tokens are 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(token.encode()).hexdigest()


async def create(connection: AsyncConnection, subject: str, role: str) -> str:
    """Make a token and return it; it is never shown again."""
    if role not in ROLES:
        raise InvalidValue(f"unknown role {role!r}; use one of {', '.join(ROLES)}")
    token = f"aw_{secrets.token_urlsafe(32)}"
    row = {"id": str(uuid.uuid4()), "subject": subject, "role": role, "token_hash": digest(token)}
    await connection.execute(insert(api_token).values(created_at=database_now(), **row))
    return token


async def identify(connection: AsyncConnection, token: str) -> Identity | None:
    """Who this token speaks for; None when it is unknown or revoked."""
    hashed = digest(token)
    row = (await connection.execute(_VALID, {"b_hash": hashed})).one_or_none()
    if row is None or not hmac.compare_digest(row.token_hash, hashed):
        return None
    return Identity(subject=row.subject, role=row.role)


async def revoke(connection: AsyncConnection, subject: str) -> int:
    """End every token of a subject at once; returns how many there were."""
    t = api_token.c
    ended = update(api_token).where(t.subject == subject, t.revoked_at.is_(None)).values(revoked_at=database_now())
    return len((await connection.execute(ended.returning(t.id))).all())
