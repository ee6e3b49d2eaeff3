"""Opens sessions at a PostgreSQL, of the metadata database as well as of watched ones.

Settings go as startup parameters. A pooler refuses those that it does not know, or drops them. Behind one they are set after
connecting, once two sessions that are open at the same time have shown two processes of the server: what is set on a session
that clients share is set for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from io import BytesIO
from random import Random
from typing import Any, Final

import anyio
import asyncpg

from triggers.errors import ConfigurationError, SourceUnavailable
from triggers.shared.delays import sleep_for
from triggers.shared.postgres.failures import SHARED_SESSIONS, close_connection
from triggers.shared.postgres.passwords import PasswordSupply

_NEVER_AFTERWARDS: Final = "default_transaction_read_only"
"""Left behind on a session that another client gets next, it would refuse that client's writes."""
BETWEEN_PASSWORDS: Final = 0.5
"""Seconds between two attempts to sign in: a password is changed at the server and at its place one after the other."""
_KNOWN_TO_POOLERS: Final = "application_name"
_QUESTIONS: Final = 40
"""How often two sessions are asked for their process, in no order: a pooler that deals out servers in turn may give each its own."""
_PAUSE: Final = 0.005
"""The longest pause between two questions, in seconds, for other clients to come between."""
_ANSWERS: Final = "SELECT pg_backend_pid()"
_SET: Final = "SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) s(name, value)"


@dataclass(kw_only=True)
class SessionOpener:
    """Opens sessions at one address, with the password of now. One that the server refuses is asked for once more."""

    passwords: PasswordSupply | None = None
    _refuses_settings: bool = False
    """Whether a pooler refused settings as startup parameters."""
    _is_proven: bool = False
    """Whether two sessions at a time were two sessions of the server."""

    async def open(self, *, server_settings: Mapping[str, str], **address: Any) -> asyncpg.Connection:
        """Open a session, with the arguments of `asyncpg.connect`. Raises the driver's errors and `TriggerError`."""
        async with AsyncExitStack() as stack:
            connection = await self._with_settings(server_settings, address)
            stack.push_async_callback(close_connection, connection)
            _refuse_other_products(connection)
            if self._refuses_settings or await _process(connection) != connection.get_server_pid():
                if not self._is_proven:
                    await self._refuse_shared(connection, server_settings, address)
                given = {name: value for name, value in server_settings.items() if name != _NEVER_AFTERWARDS}
                await connection.execute(_SET, [*given], [*given.values()])
            stack.pop_all()
            return connection

    async def _with_settings(self, settings: Mapping[str, str], address: Mapping[str, Any]) -> asyncpg.Connection:
        few = {name: value for name, value in settings.items() if name == _KNOWN_TO_POOLERS}
        if self._refuses_settings:
            return await self._signed_in(server_settings=few, **address)
        try:
            return await self._signed_in(server_settings=settings, **address)
        except asyncpg.ProtocolViolationError:
            connection = await self._signed_in(server_settings=few, **address)
            self._refuses_settings = True
            return connection

    async def _signed_in(self, **address: Any) -> asyncpg.Connection:
        if self.passwords is None:
            return await asyncpg.connect(**address)
        password = await self.passwords.current()
        try:
            return await asyncpg.connect(**{**address, "password": password})
        except asyncpg.InvalidAuthorizationSpecificationError:  # 28000, and 28P01 below it
            self.passwords.forget(password)
        await anyio.sleep(BETWEEN_PASSWORDS)
        try:
            return await asyncpg.connect(**{**address, "password": await self.passwords.current()})
        except asyncpg.InvalidAuthorizationSpecificationError as error:  # the next password may be right
            raise SourceUnavailable(
                f"the database refuses the sign-in ({error}); correct what gives the password, or the user's rights"
            ) from None

    async def _refuse_shared(
        self, first: asyncpg.Connection, settings: Mapping[str, str], address: Mapping[str, Any]
    ) -> None:
        """Compare the processes behind two sessions that are open at the same time. Nothing is set to find out."""
        second = await self._with_settings(settings, address)
        try:
            dice = Random()  # noqa: S311  no secret
            processes = {session: await _process(session) for session in (first, second)}
            for _ in range(_QUESTIONS):
                await sleep_for(dice.uniform(0, _PAUSE))
                session = dice.choice((first, second))
                if processes[first] == processes[second] or await _process(session) != processes[session]:
                    raise ConfigurationError(SHARED_SESSIONS)
        finally:
            await close_connection(second)
        self._is_proven = True


def _refuse_other_products(connection: asyncpg.Connection) -> None:
    """Raise ConfigurationError for a server that speaks PostgreSQL's protocol but has other transactions."""
    if hasattr(connection.get_settings(), "crdb_version"):
        raise ConfigurationError(
            "the server is CockroachDB, which has no transaction ids and locks as PostgreSQL has; name a PostgreSQL"
        )


async def _process(connection: asyncpg.Connection) -> int:
    """Return the server's process that answers now. It is the one that the session began with, unless a pooler stands between.

    COPY is sent as a simple query, in one round trip. It leaves no prepared statement behind on a session that is shared.
    """
    answer = BytesIO()
    await connection.copy_from_query(_ANSWERS, output=answer)
    return int(answer.getvalue())
