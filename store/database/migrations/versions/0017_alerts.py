"""alerts: what was seen by which rule, since when, and whether somebody was told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alert",
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("alert", sa.String(32), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("is_fired", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alert")),
    )


def downgrade() -> None:
    op.drop_table("alert")
