"""indexes of what may start, and why no further run does."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_IS_OPEN = sa.text("ended_at IS NULL")


def upgrade() -> None:
    op.add_column("leader", sa.Column("start_reasons", sa.Text()))
    op.create_index("ix_run_state_dag_id_id", "run", ["state", "dag_id", "id"])
    op.drop_index("ix_run_state_dag_id", "run")
    op.create_index(
        "ix_task_try_open", "task_try", ["task_instance_id"], postgresql_where=_IS_OPEN, sqlite_where=_IS_OPEN
    )


def downgrade() -> None:
    op.drop_index("ix_task_try_open", "task_try")
    op.create_index("ix_run_state_dag_id", "run", ["state", "dag_id"])
    op.drop_index("ix_run_state_dag_id_id", "run")
    op.drop_column("leader", "start_reasons")
