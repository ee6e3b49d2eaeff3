"""the files that a try found missing, so that the next one waits until their watchers have scanned again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("task_try", sa.Column("missing", sa.Text()))


def downgrade() -> None:
    op.drop_column("task_try", "missing")
