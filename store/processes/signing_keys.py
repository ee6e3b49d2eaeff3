"""Which keys the processes of one database sign and verify jobs' tokens by: the newest process says, the others compare."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import setting
from store.processes.triggerers import ProcessInfo

_KEY: Final = "signing_keys"


@dataclass(frozen=True, kw_only=True)
class SigningKeys:
    """Digests of a process's keys, in the order in which it has them; they tell nothing of the keys."""

    digests: Sequence[str]
    host: str
    pid: int

    @classmethod
    def of(cls, secrets: Sequence[bytes], process: ProcessInfo) -> SigningKeys:
        digests = [hmac.new(secret, b"asset-watcher", hashlib.sha256).hexdigest() for secret in secrets]
        return cls(digests=digests, host=process.host, pid=process.pid)


async def publish(connection: AsyncConnection, keys: SigningKeys, dialect: str) -> None:
    """From now on the others compare theirs with these."""
    row = upsert(setting, dialect).values(key=_KEY, value=json.dumps(asdict(keys)))
    await connection.execute(row.on_conflict_do_update(index_elements=["key"], set_={"value": row.excluded.value}))


async def published(connection: AsyncConnection) -> SigningKeys | None:
    """Those of the process that started last."""
    stored = (await connection.execute(select(setting.c.value).where(setting.c.key == _KEY))).scalar_one_or_none()
    if stored is None:
        return None
    keys = json.loads(stored)
    return SigningKeys(digests=keys["digests"], host=keys["host"], pid=keys["pid"])
