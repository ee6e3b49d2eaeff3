"""what a run wrote: the values and events of its tasks, by indexes that what watchers write does not touch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_INDEXES = {
    "ix_asset_store_history_dag_id_run_id": ("asset_store_history", ["dag_id", "run_id"], "dag_id IS NOT NULL"),
    "ix_asset_event_source_dag_id_source_run_id": (
        "asset_event",
        ["source_dag_id", "source_run_id"],
        "source_dag_id IS NOT NULL",
    ),
}


def upgrade() -> None:
    for name, (table, columns, where) in _INDEXES.items():
        op.create_index(name, table, columns, postgresql_where=sa.text(where), sqlite_where=sa.text(where))


def downgrade() -> None:
    for name, (table, _, _) in _INDEXES.items():
        op.drop_index(name, table)
