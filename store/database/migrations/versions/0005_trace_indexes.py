"""traces are looked up, and a try's first Spark job is noted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from store.database.schema import UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_asset_event_trace_id", "asset_event", ["trace_id"])
    op.create_index("ix_run_trace_id", "run", ["trace_id"])
    op.add_column("task_try", sa.Column("first_action_at", UtcDateTime(), nullable=True))


def downgrade() -> None:
    op.drop_column("task_try", "first_action_at")
    op.drop_index("ix_run_trace_id", "run")
    op.drop_index("ix_asset_event_trace_id", "asset_event")
