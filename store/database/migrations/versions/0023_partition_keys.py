"""the partition keys of events, of what is queued, and of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

TABLES = ("asset_event", "queued_event", "run")


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("partition_key", sa.String(250)))


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_column(table, "partition_key")
