"""an index of what is queued by partition key, so that what becomes of one partition costs nothing for the others."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0041"
branch_labels = None
depends_on = None

_HAS_KEY: Final = sa.text("partition_key IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_queued_event_partition_key",
        "queued_event",
        ["dag_id", "partition_key", "event_id"],
        postgresql_where=_HAS_KEY,
        sqlite_where=_HAS_KEY,
    )


def downgrade() -> None:
    op.drop_index("ix_queued_event_partition_key", "queued_event")
