"""what the host of a watcher found that a person should look at."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("watcher", sa.Column("findings", sa.Text()))


def downgrade() -> None:
    op.drop_column("watcher", "findings")
