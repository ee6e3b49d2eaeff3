"""the versions of the tables of features from elsewhere."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "feature_schema",
        sa.Column("feature", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("feature"),
    )


def downgrade() -> None:
    op.drop_table("feature_schema")
