"""why a rewind cannot be undone any more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("watcher_position", sa.Column("undo_ended", sa.Text()))


def downgrade() -> None:
    op.drop_column("watcher_position", "undo_ended")
