"""when tries were renewed, and when what is left of them is removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from store.database.schema import UtcDateTime

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("task_try", sa.Column("renewed_at", UtcDateTime))
    op.add_column("task_try", sa.Column("forget_at", UtcDateTime))
    is_left = sa.text("forget_at IS NOT NULL")
    op.create_index("ix_task_try_forget_at", "task_try", ["forget_at"], postgresql_where=is_left, sqlite_where=is_left)


def downgrade() -> None:
    op.drop_index("ix_task_try_forget_at", "task_try")
    op.drop_column("task_try", "forget_at")
    op.drop_column("task_try", "renewed_at")
