"""by what time of the day an asset expects an event."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("asset", sa.Column("expect_by", sa.Text()))


def downgrade() -> None:
    op.drop_column("asset", "expect_by")
