"""The groups of events of which a job has had a run."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey

from store.database.lifecycle import DeletedWith, KeptForEver, Lifecycle, NameRule, RemovedBy, RowOwner
from store.database.tables import PARTITION_KEY, table

partition_group = table(  # a group of events, by their partition keys, of which a job has had a run
    "partition_group",
    Lifecycle(
        owner=RowOwner.JOB,
        kept=(
            RemovedBy(function="store.features.partitions.applying.forget_groups"),
            KeptForEver(reason="What a job has had a run of stays complete."),
        ),
        names={"dag_id": NameRule.ANOTHER_JOB},
    ),
    Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
    Column("key", PARTITION_KEY, primary_key=True),  # the key of its runs; '': they have none
    Column("rest_to", BigInteger),  # queued events of the group up to this one are decided: their runs follow at once
    Column("rest_completed_by", BigInteger),
    feature="partitions",
)

partition_event = (
    table(  # an event of a group that a run consumed, where the next manifest of the group may name its files
        "partition_event",
        Lifecycle(
            owner=RowOwner.JOB,
            kept=(
                DeletedWith(table="asset_event", columns={"event_id": "id"}, by_database=True),
                RemovedBy(function="store.features.partitions.applying.forget_groups"),
            ),
            names={"dag_id": NameRule.ANOTHER_JOB},
        ),
        Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
        Column("key", PARTITION_KEY, primary_key=True),  # the group's
        Column("event_id", ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True, index=True),
        feature="partitions",
    )
)

TABLES: Final = (partition_group, partition_event)
