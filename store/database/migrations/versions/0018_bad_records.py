"""final failures of tries, and the bad records of runs with whether a person has resolved them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_UNRESOLVED = sa.text("bad_records > 0 AND bad_records_resolved_at IS NULL")


def upgrade() -> None:
    op.add_column("task_try", sa.Column("is_final", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("run", sa.Column("bad_records", sa.BigInteger()))
    op.add_column("run", sa.Column("bad_records_resolved_at", sa.DateTime(timezone=True)))
    op.create_index(
        "ix_run_bad_records", "run", ["bad_records"], postgresql_where=_UNRESOLVED, sqlite_where=_UNRESOLVED
    )


def downgrade() -> None:
    op.drop_index("ix_run_bad_records", "run")
    op.drop_column("run", "bad_records_resolved_at")
    op.drop_column("run", "bad_records")
    op.drop_column("task_try", "is_final")
