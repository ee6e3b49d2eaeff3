"""sessions of browsers, each begun with a token."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_session",
        sa.Column("id_hash", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(36), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["api_token.id"], name=op.f("fk_api_session_token_id")),
        sa.PrimaryKeyConstraint("id_hash", name=op.f("pk_api_session")),
    )


def downgrade() -> None:
    op.drop_table("api_session")
