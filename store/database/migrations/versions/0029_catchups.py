"""how far a new job has caught up with the events that were stored before it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("catchup_at", sa.BigInteger()))
    op.add_column("job", sa.Column("catchup_to", sa.BigInteger()))
    op.add_column("job", sa.Column("catchup_assets", sa.Text()))


def downgrade() -> None:
    for name in ("catchup_assets", "catchup_to", "catchup_at"):
        op.drop_column("job", name)
