"""since when each watcher has not worked, and when it retries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("watcher", sa.Column("failing_since", sa.DateTime(timezone=True)))
    op.add_column("watcher", sa.Column("next_try_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    op.drop_column("watcher", "next_try_at")
    op.drop_column("watcher", "failing_since")
