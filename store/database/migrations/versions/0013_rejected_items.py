"""what cannot be told and is kept aside."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rejected_item",
        sa.Column("watcher", sa.String(250), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("column_name", sa.Text()),
        sa.Column("code", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rejected_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retry_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("watcher", "digest", name=op.f("pk_rejected_item")),
    )


def downgrade() -> None:
    op.drop_table("rejected_item")
