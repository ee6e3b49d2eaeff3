"""sketches of events, by which a search for an item passes over events that do not name it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("asset_event", sa.Column("sketch_low", sa.BigInteger()))
    op.add_column("asset_event", sa.Column("sketch_high", sa.BigInteger()))
    op.add_column("asset_event", sa.Column("sketch_bits", sa.BigInteger()))
    op.create_index(
        "ix_asset_event_asset_id_sketch",
        "asset_event",
        ["asset_id", "sketch_high", "sketch_low", "sketch_bits", "id"],
    )


def downgrade() -> None:
    op.drop_index("ix_asset_event_asset_id_sketch", "asset_event")
    op.drop_column("asset_event", "sketch_bits")
    op.drop_column("asset_event", "sketch_high")
    op.drop_column("asset_event", "sketch_low")
