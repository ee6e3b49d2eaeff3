"""several triggerers: how many watchers each may host, and who can read a position's state."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("triggerer", sa.Column("capacity", sa.Integer(), server_default="10000", nullable=False))
    op.add_column("watcher_position", sa.Column("format", sa.Integer(), server_default="1", nullable=False))


def downgrade() -> None:
    op.drop_column("watcher_position", "format")
    op.drop_column("triggerer", "capacity")
