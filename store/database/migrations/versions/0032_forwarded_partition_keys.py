"""whether a forwarded asset's events take their partition keys to Airflow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "asset_forward", sa.Column("with_partition_key", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    op.drop_column("asset_forward", "with_partition_key")
