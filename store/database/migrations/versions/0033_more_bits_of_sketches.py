"""a second filter in the sketches of events, so that a search for an item reads a sixth of the events that it read before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_FIRST = ["asset_id", "sketch_high", "sketch_low", "sketch_bits"]


def upgrade() -> None:
    op.add_column("asset_event", sa.Column("sketch_more_bits", sa.BigInteger()))
    op.drop_index("ix_asset_event_asset_id_sketch", "asset_event")
    op.create_index("ix_asset_event_asset_id_sketches", "asset_event", [*_FIRST, "sketch_more_bits", "id"])


def downgrade() -> None:
    op.drop_index("ix_asset_event_asset_id_sketches", "asset_event")
    op.create_index("ix_asset_event_asset_id_sketch", "asset_event", [*_FIRST, "id"])
    op.drop_column("asset_event", "sketch_more_bits")
