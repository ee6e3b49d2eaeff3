"""tokens that end: their names, how long they live, when they were last used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("api_token", sa.Column("name", sa.String(250)))
    op.add_column("api_token", sa.Column("lifetime_seconds", sa.Integer()))
    op.add_column("api_token", sa.Column("expires_at", sa.DateTime(timezone=True)))
    op.add_column("api_token", sa.Column("last_used_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    for name in ("last_used_at", "expires_at", "lifetime_seconds", "name"):
        op.drop_column("api_token", name)
