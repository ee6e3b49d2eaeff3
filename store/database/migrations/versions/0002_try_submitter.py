"""the submitter of a try: whoever finds it again has to ask the one that started it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "task_try", sa.Column("submitter", sa.String(length=250), server_default="spark-submit", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("task_try", "submitter")
