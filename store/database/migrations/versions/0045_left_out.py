"""what a run left out of its events' items, kept when the clean-up removes the run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dropped_event", sa.Column("left_out", sa.Text()))


def downgrade() -> None:
    op.drop_column("dropped_event", "left_out")
