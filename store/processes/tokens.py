"""Bearer tokens of people and tools, and the sessions of browsers that begin with one.

Tokens are stored as hashes, shown once, and valid until they expire or are revoked. A session ends with its token, by
itself after eight hours, or when its user signs out. A session's id is as good as its token while it lasts, so it is
stored as a hash only. A sign-in link has a token that no request is accepted with, and that is exchanged for another once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, and_, bindparam, case, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.access import api_session, api_token
from store.database.column_types import database_now, database_time_in
from store.database.paging import PageRequest, ResultPage, all_of, equal, one_of, page
from store.errors import Conflict, InvalidValue, NotFound

ROLES: Final = ("viewer", "operator", "admin")
LONGEST_LIFE: Final = 68 * 365 * 86_400
"""The longest lifetime in seconds."""
_USE_IS_NEWS_AFTER: Final = 60.0
"""Seconds for which one use of a token stands for all."""
_t = api_token.c


def is_valid() -> ColumnElement[bool]:
    """Return the condition that a token is neither revoked nor expired."""
    return and_(_t.revoked_at.is_(None), or_(_t.expires_at.is_(None), _t.expires_at > database_now()))


_used_long_ago: Final = or_(_t.last_used_at.is_(None), _t.last_used_at < database_time_in(-_USE_IS_NEWS_AFTER))
_use_is_news: Final = case((_used_long_ago, True), else_=False).label("use_is_news")
IDENTITY: Final[Select[Any]] = select(_t.id.label("token_id"), _t.subject, _t.role, _use_is_news).where(is_valid())
"""The columns of an `Identity`, for all valid tokens."""
_VALID: Final = IDENTITY.add_columns(_t.token_hash).where(_t.token_hash == bindparam("b_hash"))
_USED: Final = update(api_token).where(_t.id == bindparam("b_id"), _used_long_ago).values(last_used_at=database_now())


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The user that a token speaks for; `use_is_news`: its last use was a while ago."""

    token_id: str
    subject: str
    role: str
    use_is_news: bool = False


@dataclass(frozen=True, kw_only=True)
class Token:
    """Everything that is known of a token."""

    id: str
    subject: str
    role: str
    name: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class CreatedToken(Token):
    """A new token with its secret, which is never shown again."""

    token: str


def digest(token: str) -> str:
    """Return the SHA-256 in hex. The tokens are 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(token.encode()).hexdigest()


async def create(
    connection: AsyncConnection, subject: str, role: str, *, name: str | None = None, expires_in: int | None = None
) -> CreatedToken:
    """Make a token; without `expires_in` (seconds) it lives until it is revoked. Raises `InvalidValue`."""
    if role not in ROLES:
        raise InvalidValue(f"unknown role {role!r}; use one of {', '.join(ROLES)}")
    if expires_in is not None and not 0 < expires_in <= LONGEST_LIFE:
        raise InvalidValue(f"a token lives for 1 to {LONGEST_LIFE} seconds; choose another time")
    token = f"aw_{secrets.token_urlsafe(32)}"
    token_id = await _insert(connection, digest(token), subject, role, name=name, expires_in=expires_in)
    stored = await get(connection, token_id)
    return CreatedToken(
        token=token,
        id=stored.id,
        subject=stored.subject,
        role=stored.role,
        name=stored.name,
        created_at=stored.created_at,
        expires_at=stored.expires_at,
        last_used_at=stored.last_used_at,
    )


async def _insert(
    connection: AsyncConnection, token_hash: str, subject: str, role: str, *, name: str | None, expires_in: int | None
) -> str:
    token_id = str(uuid.uuid4())
    row = {"id": token_id, "subject": subject, "role": role, "name": name, "lifetime_seconds": expires_in}
    times: dict[str, Any] = {"created_at": database_now()}
    if expires_in is not None:
        times["expires_at"] = database_time_in(float(expires_in))
    await connection.execute(insert(api_token).values(token_hash=token_hash, **row, **times))
    return token_id


async def get(connection: AsyncConnection, token_id: str) -> Token:
    """Return one token that is not revoked. Raises `NotFound`."""
    return await one_of(connection, _tokens().where(_t.id == token_id), Token, _no_token(token_id))


@cache
def _tokens() -> Select[Any]:
    names = (_t.id, _t.subject, _t.role, _t.name, _t.created_at, _t.expires_at, _t.last_used_at)
    return select(*names).where(_t.revoked_at.is_(None))


def _no_token(token_id: str) -> NotFound:
    return NotFound(f"no token {token_id!r}; `watcher token list` shows the ones there are")


async def listed(connection: AsyncConnection, window: PageRequest, *, subject: str | None = None) -> ResultPage[Token]:
    """Return a part of the tokens that are not revoked, newest first."""
    newest_first = PageRequest(limit=window.limit, offset=window.offset, order_by=("-created_at",))
    columns = {"id": _t.id, "created_at": _t.created_at}
    return await page(connection, _tokens().where(equal(_t.subject, subject)), newest_first, columns, Token)


async def of_subject(connection: AsyncConnection, subject: str) -> Sequence[Token]:
    """Return the valid tokens of a subject, oldest first."""
    return await all_of(connection, _tokens().where(_t.subject == subject, is_valid()).order_by(_t.created_at), Token)


async def identify(connection: AsyncConnection, token: str) -> Identity | None:
    """Return the user that this token speaks for; None if it is unknown, revoked or expired."""
    hashed = digest(token)
    row = (await connection.execute(_VALID, {"b_hash": hashed})).one_or_none()
    return None if row is None or not hmac.compare_digest(row.token_hash, hashed) else as_identity(row)


def as_identity(row: Row[Any]) -> Identity:
    """Return the identity of a row of `IDENTITY`."""
    return Identity(token_id=row.token_id, subject=row.subject, role=row.role, use_is_news=bool(row.use_is_news))


async def remember_use(connection: AsyncConnection, token_id: str) -> None:
    """Record that the token was used now; of several processes at once, one writes."""
    await connection.execute(_USED, {"b_id": token_id})


async def revoke(connection: AsyncConnection, token_id: str) -> Token:
    """End a token at once; return what it was. Raises `NotFound`."""
    token = await get(connection, token_id)
    await connection.execute(update(api_token).where(_t.id == token_id).values(revoked_at=database_now()))
    return token


async def rotate(connection: AsyncConnection, token_id: str, overlap: int = 0) -> CreatedToken:
    """Return a new token with the same subject, role, name and lifetime; the old one ends after `overlap` seconds.

    Raises `NotFound`, and `Conflict` for one that has expired.
    """
    here = select(_t.subject, _t.role, _t.name, _t.lifetime_seconds, is_valid().label("valid"))
    locked = here.where(_t.id == token_id, _t.revoked_at.is_(None)).with_for_update()
    row = (await connection.execute(locked)).one_or_none()
    if row is None:
        raise _no_token(token_id)
    if not row.valid:
        raise Conflict("the token has expired, so it cannot be rotated; create a new one")
    this = update(api_token).where(_t.id == token_id)
    if overlap:
        ends = database_time_in(float(overlap))
        later = or_(_t.expires_at.is_(None), _t.expires_at > ends)
        await connection.execute(this.where(later).values(expires_at=ends))
    else:
        await connection.execute(this.values(revoked_at=database_now()))
    return await create(connection, row.subject, row.role, name=row.name, expires_in=row.lifetime_seconds)


SESSION_LIFETIME: Final = timedelta(hours=8)
_s = api_session.c
_VALID_SESSION: Final = IDENTITY.join(api_session, _s.token_id == api_token.c.id).where(
    _s.id_hash == bindparam("b_hash"), _s.expires_at > database_now()
)


async def begin_session(connection: AsyncConnection, token_id: str) -> str:
    """Begin a session of the token's subject and role; return its id, which is not stored.

    Sessions that have expired are removed.
    """
    session_id = secrets.token_urlsafe(32)
    await connection.execute(delete(api_session).where(_s.expires_at <= database_now()))
    ends = database_time_in(SESSION_LIFETIME.total_seconds())
    row = {"id_hash": digest(session_id), "token_id": token_id, "expires_at": ends}
    await connection.execute(insert(api_session).values(row))
    return session_id


async def identify_session(connection: AsyncConnection, session_id: str) -> Identity | None:
    """Return the user that this session speaks for; None if it is unknown or over, or its token is."""
    row = (await connection.execute(_VALID_SESSION, {"b_hash": digest(session_id)})).one_or_none()
    return None if row is None else as_identity(row)


async def end_session(connection: AsyncConnection, session_id: str) -> None:
    """End a session in every process; one that is already over stays so."""
    await connection.execute(delete(api_session).where(_s.id_hash == digest(session_id)))


LINK_LIFETIME: Final = timedelta(minutes=5)
_LINK: Final = "sign-in link"
"""The name of a link's token, and of the token that it is exchanged for."""
_REDEEMED: Final = (
    update(api_token)
    .where(_t.token_hash == bindparam("b_hash"), is_valid())
    .values(revoked_at=database_now())
    .returning(_t.subject, _t.role)
)


async def create_link(connection: AsyncConnection, subject: str, role: str) -> str:
    """Make the secret of a link with which a browser can sign in once, within five minutes."""
    secret = secrets.token_urlsafe(32)
    lifetime = int(LINK_LIFETIME.total_seconds())
    await _insert(connection, _link_digest(secret), subject, role, name=_LINK, expires_in=lifetime)
    return secret


async def redeem_link(connection: AsyncConnection, secret: str) -> Identity | None:
    """Use up a link and make the token for its session; None if it is unknown, used or expired."""
    row = (await connection.execute(_REDEEMED, {"b_hash": _link_digest(secret)})).one_or_none()
    if row is None:
        return None
    lifetime = int(SESSION_LIFETIME.total_seconds())
    made = await create(connection, row.subject, row.role, name=_LINK, expires_in=lifetime)
    return Identity(token_id=made.id, subject=made.subject, role=made.role)


def _link_digest(secret: str) -> str:
    """Return another digest than a token's, so that a link's secret is none."""
    return digest(f"{_LINK} {secret}")
