"""Opens sessions at a PostgreSQL, of the metadata database as well as of watched ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import asyncpg

from triggers.errors import SourceUnavailable
from triggers.postgres.passwords import PasswordSupply


@dataclass(kw_only=True)
class SessionOpener:
    """Opens sessions with the password of now. One that the server refuses is asked for once more."""

    passwords: PasswordSupply | None = None

    async def open(self, **address: Any) -> asyncpg.Connection:
        """Open a session, with the arguments of `asyncpg.connect`. Raises the driver's errors and `SourceUnavailable`."""
        if self.passwords is None:
            return await asyncpg.connect(**address)
        password = await self.passwords.current()
        try:
            return await asyncpg.connect(**{**address, "password": password})
        except asyncpg.InvalidAuthorizationSpecificationError:  # 28000, and 28P01 below it
            self.passwords.forget(password)
        try:
            return await asyncpg.connect(**{**address, "password": await self.passwords.current()})
        except asyncpg.InvalidAuthorizationSpecificationError as error:  # the next password may be right
            raise SourceUnavailable(
                f"the database refuses the sign-in ({error}); correct what gives the password, or the user's rights"
            ) from None
