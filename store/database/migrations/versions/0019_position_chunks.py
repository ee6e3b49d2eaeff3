"""chunks beside positions, by which watchers of rows notice that a source went back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "watcher_position_chunk",
        sa.Column("watcher", sa.String(250), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("watcher", "number", name=op.f("pk_watcher_position_chunk")),
    )


def downgrade() -> None:
    op.drop_table("watcher_position_chunk")
