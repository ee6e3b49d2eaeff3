"""Replays, and how far each has come."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, text

from store.database.lifecycle import KeptForEver, Lifecycle, NameRule, RowOwner
from store.database.schema import UtcDateTime
from store.database.tables import BIG_ID, NAME, PARTITION_KEY, table

GOES_ON: Final = text("finished_at IS NULL")

# Stored events that a job gets again, or for the first time: what was asked for, and how far it has come.
replay = table(
    "replay",
    Lifecycle(
        owner=RowOwner.JOB,
        kept=(KeptForEver(reason="It says who had which events of a job replayed, and what came of it."),),
        names={"dag_id": NameRule.ANOTHER_JOB, "asset_id": NameRule.BY_ID},
    ),
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("dag_id", ForeignKey("job.dag_id"), nullable=False, index=True),
    Column("asset_id", ForeignKey("asset.id")),  # null: all assets of the job's schedule
    Column("partition_key", PARTITION_KEY),  # null: any key, and none
    Column("from_at", UtcDateTime, nullable=False),
    Column("to_at", UtcDateTime, nullable=False),  # exclusive
    Column("include_dropped", Boolean, nullable=False),
    Column("expected_count", BigInteger, nullable=False),
    Column("last_event", BigInteger, nullable=False),  # the boundary: later events and runs have no part in it
    Column("last_run", BigInteger, nullable=False),
    Column("at_event", BigInteger, nullable=False, server_default="0"),  # how far it has come
    Column("at_run", BigInteger, nullable=False, server_default="0"),
    Column("queued_events", BigInteger, nullable=False, server_default="0"),
    Column("cleared_runs", BigInteger, nullable=False, server_default="0"),
    Column("actor", NAME, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Index("ix_replay_open", "dag_id", postgresql_where=GOES_ON, sqlite_where=GOES_ON),
    sqlite_autoincrement=True,
    feature="replay",
)

TABLES: Final = (replay,)
