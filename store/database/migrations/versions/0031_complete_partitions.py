"""whether the partition of a run was complete, and whether its events came late."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run", sa.Column("partition_complete", sa.Boolean()))
    op.add_column("run", sa.Column("late", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("run", "late")
    op.drop_column("run", "partition_complete")
