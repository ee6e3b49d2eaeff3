"""filters of schedules, and which references of its schedule a queued event satisfies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

EDGES = ("job_schedule_asset", "job_schedule_alias")


def upgrade() -> None:
    for table in EDGES:
        op.add_column(table, sa.Column("filtered", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("queued_event", sa.Column("satisfies", sa.String(2000), nullable=False, server_default=sa.text("''")))
    op.drop_index("ix_queued_event_dag_id_asset_id_event_id", "queued_event")
    op.create_index("ix_queued_event_first", "queued_event", ["dag_id", "asset_id", "satisfies", "event_id"])


def downgrade() -> None:
    op.drop_index("ix_queued_event_first", "queued_event")
    op.create_index("ix_queued_event_dag_id_asset_id_event_id", "queued_event", ["dag_id", "asset_id", "event_id"])
    op.drop_column("queued_event", "satisfies")
    for table in EDGES:
        op.drop_column(table, "filtered")
