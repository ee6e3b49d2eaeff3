"""what a try cost: CPU time, memory, rows and bytes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("task_try", sa.Column("cost", sa.Text()))


def downgrade() -> None:
    op.drop_column("task_try", "cost")
