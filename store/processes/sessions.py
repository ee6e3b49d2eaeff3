"""Sessions of browsers: each is begun with a token, and ends with it, by itself after eight hours, or when its user signs out.

A session's id is as good as its token while it lasts, so it is stored as a hash only.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Final

from sqlalchemy import bindparam, delete, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.schema import api_session, api_token, database_now, database_time_in
from store.processes.tokens import IDENTITY, Identity, as_identity, digest

LIFETIME: Final = timedelta(hours=8)
_s = api_session.c
_VALID: Final = IDENTITY.join(api_session, _s.token_id == api_token.c.id).where(
    _s.id_hash == bindparam("b_hash"), _s.expires_at > database_now()
)


async def begin(connection: AsyncConnection, token_id: str) -> str:
    """A session of the token's subject, in the token's role; returns its id, which is not stored. Removes those that have expired."""
    session_id = secrets.token_urlsafe(32)
    await connection.execute(delete(api_session).where(_s.expires_at <= database_now()))
    ends = database_time_in(LIFETIME.total_seconds())
    row = {"id_hash": digest(session_id), "token_id": token_id, "expires_at": ends}
    await connection.execute(insert(api_session).values(row))
    return session_id


async def identify(connection: AsyncConnection, session_id: str) -> Identity | None:
    """Who this session speaks for; None when it is unknown or over, or its token is."""
    row = (await connection.execute(_VALID, {"b_hash": digest(session_id)})).one_or_none()
    return None if row is None else as_identity(row)


async def end(connection: AsyncConnection, session_id: str) -> None:
    """From now on it opens nothing, in any process; one that is over already stays so."""
    await connection.execute(delete(api_session).where(_s.id_hash == digest(session_id)))
