"""The id of an installation, which is its database: other systems know by it what comes from there."""

from __future__ import annotations

import uuid
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import setting

_INSTANCE: Final = "instance"


async def instance(connection: AsyncConnection, dialect: str) -> str:
    """Return the id of this database, made on first use, by which other systems know what is ours."""
    new = upsert(setting, dialect).values(key=_INSTANCE, value=str(uuid.uuid4()))
    await connection.execute(new.on_conflict_do_nothing())
    value: str = (await connection.execute(select(setting.c.value).where(setting.c.key == _INSTANCE))).scalar_one()
    return value
