"""what a look reads: the lowest queued event of each asset by an index, and how far a long queue is decided on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INDEX = "ix_queued_event_dag_id_asset_id_event_id"


def upgrade() -> None:
    op.add_column("job", sa.Column("rest_to", sa.BigInteger(), nullable=True))
    op.add_column("job", sa.Column("rest_completed_by", sa.BigInteger(), nullable=True))
    op.create_index(_INDEX, "queued_event", ["dag_id", "asset_id", "event_id"])


def downgrade() -> None:
    op.drop_index(_INDEX, "queued_event")
    op.drop_column("job", "rest_completed_by")
    op.drop_column("job", "rest_to")
