"""Messages to other systems, and the assets whose events are such messages."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Text, false

from store.database.lifecycle import Lifecycle, NameRule, RemovedBy, RowOwner
from store.database.schema import UtcDateTime
from store.database.tables import BIG_ID, NAME, table

outbox = table(  # messages to other systems, written in the transaction that gave the reason
    "outbox",
    Lifecycle(
        owner=RowOwner.INSTALLATION,
        kept=(
            RemovedBy(function="store.features.outbox.outbox.remove"),
            RemovedBy(function="store.features.airflow.neighbour.apply"),
        ),
    ),
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("destination", String(64), nullable=False),
    Column("lane", NAME, nullable=False),  # what is sent in order within the destination
    Column("message_id", NAME),  # the same for all retries; null: the event's
    Column("asset_event_id", ForeignKey("asset_event.id"), index=True),
    Column("body", Text),  # JSON; null: the event's
    Column("created_at", UtcDateTime, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("first_attempt_at", UtcDateTime),
    Column("attempt_at", UtcDateTime),  # the last attempt, while its outcome is unknown
    Column("not_before", UtcDateTime),  # the next attempt waits until then
    Column("refused", Boolean, nullable=False, server_default=false()),  # the last response said that it is wrong
    Column("error", Text),
    Index("ix_outbox_destination_lane_id", "destination", "lane", "id"),
    sqlite_autoincrement=True,
    feature="outbox",
)

asset_forward = table(  # the assets whose events go to Airflow, as configured
    "asset_forward",
    Lifecycle(
        owner=RowOwner.ASSET,
        kept=(RemovedBy(function="store.features.airflow.neighbour.apply"),),
        names={"asset_id": NameRule.BY_ID},
    ),
    Column("asset_id", ForeignKey("asset.id"), primary_key=True, autoincrement=False),
    Column("target", String(1500), nullable=False),  # name or uri of Airflow's asset
    Column("with_partition_key", Boolean, nullable=False, server_default=false()),
    feature="outbox",
)

TABLES: Final = (outbox, asset_forward)
