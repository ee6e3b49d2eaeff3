"""What was seen by which rule of `settings.alerts`."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Boolean, Column, String, Text, false

from store.database.lifecycle import Lifecycle, RemovedBy, RowOwner
from store.database.schema import UtcDateTime
from store.database.tables import table

alert = table(  # what was seen by which rule of `settings.alerts`
    "alert",
    Lifecycle(owner=RowOwner.INSTALLATION, kept=(RemovedBy(function="store.features.alerts.alerts.remove"),)),
    Column("key", String(64), primary_key=True),  # a hash of rule, kind and subject
    Column("rule", String(64), nullable=False),
    Column("alert", String(32), nullable=False),
    Column("subject", Text, nullable=False),  # JSON
    Column("message", Text, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("is_fired", Boolean, nullable=False, server_default=false()),  # its message was handed over
    feature="alerts",
)

TABLES: Final = (alert,)
