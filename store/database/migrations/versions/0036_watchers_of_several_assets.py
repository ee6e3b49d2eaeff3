"""the assets besides its own that a watcher has events of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "watcher_asset",
        sa.Column("watcher", sa.String(250), sa.ForeignKey("watcher.name"), nullable=False),
        sa.Column(
            "asset_id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.ForeignKey("asset.id"), nullable=False
        ),
        sa.Column("active", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.PrimaryKeyConstraint("watcher", "asset_id"),
    )
    op.create_index("ix_watcher_asset_asset_id", "watcher_asset", ["asset_id"])


def downgrade() -> None:
    op.drop_table("watcher_asset")
