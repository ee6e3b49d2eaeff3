"""events whose files are moved or deleted once every job has loaded them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from store.database.schema import UtcDateTime

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "cleaning",
        sa.Column("event_id", _BIG_ID, autoincrement=False, nullable=False),
        sa.Column("watcher", sa.String(250), nullable=False),
        sa.Column("owed", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(16)),
        sa.Column("due_at", UtcDateTime()),
        sa.Column("passes", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("next_file", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("files", sa.Text()),
        sa.Column("staying", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("working", sa.Text()),
        sa.Column("removed", sa.Integer(), nullable=False, server_default="0"),
        sa.ForeignKeyConstraint(["event_id"], ["asset_event.id"], name="fk_cleaning_event_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("event_id", name="pk_cleaning"),
    )
    op.create_index("ix_cleaning_watcher_due_at", "cleaning", ["watcher", "due_at"])


def downgrade() -> None:
    op.drop_table("cleaning")
