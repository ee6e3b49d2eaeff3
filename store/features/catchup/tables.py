"""What new jobs still have to get of the events that were stored before them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Text

from store.database.lifecycle import Lifecycle, NameRule, RemovedBy, RowOwner
from store.database.tables import table

catchup = table(  # the stored events that a new job still has to get, while its step is open
    "catchup",
    Lifecycle(
        owner=RowOwner.JOB,
        kept=(RemovedBy(function="store.catalog.catchups.end"),),
        names={"dag_id": NameRule.ANOTHER_JOB},
    ),
    Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
    Column("at_event", BigInteger, nullable=False),  # the last one that it has got
    Column("to_event", BigInteger, nullable=False),  # the last one that it is to get
    Column("assets", Text, nullable=False),  # JSON: the ids of the assets of its schedule when it was first seen
    feature="catchup",
)

TABLES: Final = (catchup,)
