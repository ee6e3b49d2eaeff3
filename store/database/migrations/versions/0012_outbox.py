"""what is owed to other systems and what was read of them: an outbox, and both ways to a neighbouring Airflow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "asset_forward",
        sa.Column("asset_id", _BIG_ID, autoincrement=False, nullable=False),
        sa.Column("target", sa.String(1500), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_asset_forward_asset_id")),
        sa.PrimaryKeyConstraint("asset_id", name=op.f("pk_asset_forward")),
    )
    op.create_table(
        "outbox",
        sa.Column("id", _BIG_ID, autoincrement=True, nullable=False),
        sa.Column("destination", sa.String(64), nullable=False),
        sa.Column("lane", sa.String(250), nullable=False),
        sa.Column("message_id", sa.String(250), nullable=True),
        sa.Column("asset_event_id", _BIG_ID, nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("first_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("refused", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["asset_event_id"], ["asset_event.id"], name=op.f("fk_outbox_asset_event_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_outbox_asset_event_id", "outbox", ["asset_event_id"])
    op.create_index("ix_outbox_destination_lane_id", "outbox", ["destination", "lane", "id"])
    op.create_table(
        "listen_position",
        sa.Column("source", sa.String(1500), nullable=False),
        sa.Column("newest", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("source", name=op.f("pk_listen_position")),
    )
    op.create_table(
        "listen_seen",
        sa.Column("source", sa.String(1500), nullable=False),
        sa.Column("event_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("timestamp", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["source"], ["listen_position.source"], name=op.f("fk_listen_seen_source"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("source", "event_id", "timestamp", name=op.f("pk_listen_seen")),
    )


def downgrade() -> None:
    for table in ("listen_seen", "listen_position", "outbox", "asset_forward"):
        op.drop_table(table)
