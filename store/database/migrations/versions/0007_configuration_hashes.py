"""who runs which configuration: the definition of each watcher by a hash, and what each process knows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("watcher", sa.Column("definition", sa.String(64), nullable=True))
    op.add_column("triggerer", sa.Column("configuration", sa.String(64), nullable=True))
    op.add_column("triggerer", sa.Column("definitions", sa.Text(), nullable=True))
    op.add_column("dispatcher", sa.Column("configuration", sa.String(64), nullable=True))


def downgrade() -> None:
    op.drop_column("dispatcher", "configuration")
    op.drop_column("triggerer", "definitions")
    op.drop_column("triggerer", "configuration")
    op.drop_column("watcher", "definition")
