"""the last polls of a watcher that found something, or failed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("watcher", sa.Column("polls", sa.Text()))


def downgrade() -> None:
    op.drop_column("watcher", "polls")
