"""replays, and the events that a job shall not get by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from store.database.schema import UtcDateTime

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("job", sa.Column("replay_id", sa.BigInteger()))
    op.create_table(
        "dropped_event",
        sa.Column("dag_id", sa.String(250), nullable=False),
        sa.Column("event_id", _BIG_ID, nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("actor", sa.String(250)),
        sa.Column("dropped_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name="fk_dropped_event_dag_id"),
        sa.ForeignKeyConstraint(["event_id"], ["asset_event.id"], name="fk_dropped_event_event_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dag_id", "event_id", name="pk_dropped_event"),
    )
    op.create_index("ix_dropped_event_event_id", "dropped_event", ["event_id"])
    op.create_table(
        "replay",
        sa.Column("id", _BIG_ID, autoincrement=True, nullable=False),
        sa.Column("dag_id", sa.String(250), nullable=False),
        sa.Column("asset_id", _BIG_ID),
        sa.Column("partition_key", sa.String(250)),
        sa.Column("from_at", UtcDateTime, nullable=False),
        sa.Column("to_at", UtcDateTime, nullable=False),
        sa.Column("include_dropped", sa.Boolean(), nullable=False),
        sa.Column("expected_count", sa.BigInteger(), nullable=False),
        sa.Column("last_event", sa.BigInteger(), nullable=False),
        sa.Column("last_run", sa.BigInteger(), nullable=False),
        sa.Column("at_event", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("at_run", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("queued_events", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("cleared_runs", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("actor", sa.String(250), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("finished_at", UtcDateTime),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name="fk_replay_dag_id"),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name="fk_replay_asset_id"),
        sa.PrimaryKeyConstraint("id", name="pk_replay"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_replay_dag_id", "replay", ["dag_id"])


def downgrade() -> None:
    op.drop_table("replay")
    op.drop_table("dropped_event")
    op.drop_column("job", "replay_id")
