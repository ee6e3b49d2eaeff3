"""an index of the times at which runs ended, by which a span of time and the clean-up find theirs."""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_run_end_date", "run", ["end_date"])


def downgrade() -> None:
    op.drop_index("ix_run_end_date", "run")
