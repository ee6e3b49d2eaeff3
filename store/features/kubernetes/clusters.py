"""The cluster and namespace in which this database's drivers run as pods: another place knows nothing of open tries."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, Self

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.dialects import upsert
from store.database.schema import setting, task_try

_KEY: Final = "kubernetes"


@dataclass(frozen=True, kw_only=True)
class ClusterPlace:
    """A namespace of a cluster. `uid` is the cluster's, None if it could not be read."""

    server: str
    namespace: str
    uid: str | None = None

    @classmethod
    def from_json(cls, text: str) -> Self:
        content = json.loads(text)
        return cls(server=content["server"], namespace=content["namespace"], uid=content["uid"])

    def is_same(self, other: ClusterPlace) -> bool:
        """Whether both are one place: by the uid if both are known, else by the address."""
        is_known = self.uid is not None and other.uid is not None
        is_one = self.uid == other.uid if is_known else self.server == other.server
        return is_one and self.namespace == other.namespace


async def settle(connection: AsyncConnection, place: ClusterPlace, submitter: str) -> tuple[ClusterPlace, int] | None:
    """Record where drivers run from now on. Return the place before and the number of its open tries if they forbid that."""
    stored = (await connection.execute(select(setting.c.value).where(setting.c.key == _KEY))).scalar_one_or_none()
    before = None if stored is None else ClusterPlace.from_json(stored)
    if before is not None and not before.is_same(place):
        here = (task_try.c.submitter == submitter, task_try.c.ended_at.is_(None))
        count = (await connection.execute(select(func.count()).select_from(task_try).where(*here))).scalar_one()
        if count:
            return before, count
    new = upsert(setting, connection.dialect.name).values(key=_KEY, value=json.dumps(asdict(place)))
    await connection.execute(new.on_conflict_do_update(index_elements=["key"], set_={"value": new.excluded.value}))
    return None
