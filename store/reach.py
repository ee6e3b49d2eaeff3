"""What a try may do to an asset's store: the fence and the asset's reach, asked together inside the writing transaction."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from store import tries
from store.answers import Asked
from store.errors import NotFound
from store.holding import Wanted, hold
from store.tries import FencedTry


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The fenced try and the asset it named."""

    held: FencedTry
    asset_id: int
    name: str
    uri: str
    declared: bool
    """Whether the asset is active and an inlet or outlet of the try's job, by itself or through an alias."""


async def reach(
    session: AsyncSession,
    task_instance_id: str,
    try_number: int,
    wanted: Wanted,
    *,
    locking: str | None = None,
    asked: Asked | None = None,
) -> Reach:
    """Lock the try's task instance, and the entry to write if there is one, and look at the asset.

    Raises `TryFenced`, `NotFound`, `Answered`.
    """
    row = await hold(session, task_instance_id, try_number, wanted=wanted, locking=locking, asked=asked)
    held = tries.unfinished(row, try_number)  # a fenced try learns of nothing else
    if row["asset_id"] is None:
        raise NotFound(f"no asset {wanted.text!r}; `watcher assets list` shows the ones there are")
    return Reach(
        held=held,
        asset_id=row["asset_id"],
        name=row["asset_name"],
        uri=row["asset_uri"],
        declared=bool(row["asset_declared"]) and bool(row["asset_active"]),
    )
