"""where the clock has moved a watermark: shown of watchers that write nothing, because nothing comes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("watcher", sa.Column("up_to", sa.Text(), nullable=True))
    op.add_column("watcher", sa.Column("up_to_version", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("watcher", "up_to_version")
    op.drop_column("watcher", "up_to")
