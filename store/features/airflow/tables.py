"""How far Airflow's events were read."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, String

from store.database.lifecycle import DeletedWith, Lifecycle, RemovedBy, RowOwner
from store.database.schema import UtcDateTime
from store.database.tables import table

listen_position = table(  # how far the events of one of Airflow's assets were read
    "listen_position",
    Lifecycle(owner=RowOwner.INSTALLATION, kept=(RemovedBy(function="store.features.airflow.neighbour.apply"),)),
    Column("source", String(1500), primary_key=True),  # name or uri of the asset, as configured
    Column("newest", UtcDateTime),  # by Airflow's clock; null: no event was seen
    feature="airflow",
)

listen_seen = table(  # Airflow's events that were read and may be read again
    "listen_seen",
    Lifecycle(
        owner=RowOwner.INSTALLATION,
        kept=(
            RemovedBy(function="store.features.airflow.listening.advance"),
            DeletedWith(table="listen_position", columns={"source": "source"}, by_database=True),
        ),
    ),
    Column("source", ForeignKey("listen_position.source", ondelete="CASCADE"), primary_key=True),
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("timestamp", UtcDateTime, primary_key=True),  # ids start again in a new database
    feature="airflow",
)

TABLES: Final = (listen_position, listen_seen)
