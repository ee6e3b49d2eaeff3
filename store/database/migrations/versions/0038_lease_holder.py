"""the container that was granted the right to start a try's driver."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("task_try", sa.Column("lease_holder", sa.String(64)))


def downgrade() -> None:
    op.drop_column("task_try", "lease_holder")
