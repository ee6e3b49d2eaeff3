"""The events that a job's outlets get without a word of the job: those of a program that does not use the SDK."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.database import configuration_lock
from store.detection import events
from store.detection.events import Appended, NewEvent
from store.keys import TaskInstanceKey


async def tell_outlets(connection: AsyncConnection, instance: TaskInstanceKey, trace_id: str) -> Appended:
    """Append one event without extra for each asset among the job's outlets as they are configured now; aliases get none.

    In the transaction that records the task instance's success, whose row it has locked.
    """
    await configuration_lock.share(connection)
    around = await assets.around_job(connection, instance.dag_id)
    source: dict[str, Any] = {f"source_{name}": value for name, value in instance.columns.items()}
    # By id: two tasks that end at once take the assets' locks in one order.
    outlets = sorted(asset.id for asset in around if asset.role == "outlet")
    return await events.append(
        connection, [NewEvent(asset_id=asset_id, extra="{}", trace_id=trace_id, **source) for asset_id in outlets]
    )
