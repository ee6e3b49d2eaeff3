"""an index of what is queued by partition key, and what has come of partitions that may be delivered again.

With the index, what becomes of one partition costs nothing for the others.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

_BIG_ID: Final = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_HAS_KEY: Final = sa.text("partition_key IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_queued_event_partition_key",
        "queued_event",
        ["dag_id", "partition_key", "event_id"],
        postgresql_where=_HAS_KEY,
        sqlite_where=_HAS_KEY,
    )
    op.create_table(
        "partition_event",
        sa.Column("dag_id", sa.String(250), sa.ForeignKey("job.dag_id"), nullable=False),
        sa.Column("key", sa.String(250), nullable=False),
        sa.Column("event_id", _BIG_ID, sa.ForeignKey("asset_event.id", ondelete="CASCADE"), nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "key", "event_id"),
    )
    op.create_index("ix_partition_event_event_id", "partition_event", ["event_id"])


def downgrade() -> None:
    op.drop_table("partition_event")
    op.drop_index("ix_queued_event_partition_key", "queued_event")
