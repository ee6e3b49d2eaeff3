"""An asset event as it is stored: the columns of its table, those that a new one is written with, those that all may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Text

from store.database.column_types import UtcDateTime
from store.database.lifecycle import Horizon, Lifecycle, NameRule, RowOwner, Swept
from store.database.tables import BIG_ID, NAME, PARTITION_KEY, only_of_tasks, table
from store.keys import AssetId, EventId

asset_event = table(
    "asset_event",
    Lifecycle(
        owner=RowOwner.ASSET,
        kept=(Swept(sweep="events", horizon=Horizon.EVENT),),
        names={"asset_id": NameRule.BY_ID, "source_dag_id": NameRule.AS_WRITTEN, "source_watcher": NameRule.AS_WRITTEN},
    ),
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("asset_id", ForeignKey("asset.id"), nullable=False),
    Column("extra", Text, nullable=False, server_default="{}"),
    Column("timestamp", UtcDateTime, nullable=False, index=True),
    Column("event_id", String(64), unique=True),  # watchers' events: SHA-256 of (watcher, position version, index)
    Column("trace_id", String(32), nullable=False),
    Column("source_dag_id", NAME),
    Column("source_run_id", NAME),
    Column("source_task_id", NAME),
    Column("source_map_index", Integer, nullable=False, server_default="-1"),
    Column("source_watcher", NAME),
    Column("source_actor", NAME),
    Column("sketch_low", BigInteger),  # limits of its items, or bits of their names: see `store.detection.sketches`
    Column("sketch_high", BigInteger),
    Column("sketch_bits", BigInteger),
    Column("sketch_more_bits", BigInteger),
    Column("partition_key", PARTITION_KEY),  # null: none
    Index("ix_asset_event_asset_id_id", "asset_id", "id"),
    Index(  # searches read nothing else of the rows that VACUUM has seen: migration 0037 lets it come often
        "ix_asset_event_asset_id_sketches",
        "asset_id",
        "sketch_high",
        "sketch_low",
        "sketch_bits",
        "sketch_more_bits",
        "id",
    ),
    Index("ix_asset_event_trace_id", "trace_id"),  # looked up by equality, and in no order
    only_of_tasks("source_dag_id", "source_run_id", table="asset_event"),
    sqlite_autoincrement=True,
)


@dataclass(frozen=True, kw_only=True)
class NewEvent:
    """A new event. `extra` is a JSON object's text; the source is a watcher, a task, or an actor of the API.

    `trace_id` follows everything that comes of it: 32 hexadecimal digits, as in a W3C `traceparent`.
    """

    asset_id: int
    extra: str
    trace_id: str
    event_id: str | None = None
    source_watcher: str | None = None
    source_dag_id: str | None = None
    source_run_id: str | None = None
    source_task_id: str | None = None
    source_map_index: int = -1
    source_actor: str | None = None
    partition_key: str | None = None
    sketch_low: int | None = None
    sketch_high: int | None = None
    sketch_bits: int | None = 0
    sketch_more_bits: int | None = None
    """The numbers of its sketch, as far as it has them: see `store.detection.sketches`. Without, it names no item of a watcher."""


@dataclass(frozen=True, kw_only=True)
class EventFields:
    """What everybody may see of an event: the columns of its table that have these names; `extra` is a JSON object."""

    id: EventId
    asset_id: AssetId
    timestamp: datetime
    extra: Mapping[str, Any]
    source_dag_id: str | None
    source_run_id: str | None
    source_task_id: str | None
    source_map_index: int
    source_watcher: str | None
    trace_id: str
    partition_key: str | None
