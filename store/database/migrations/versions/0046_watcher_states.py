"""the changes of the watchers' states of the last days, for what happened while nobody looked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from store.database.schema import UtcDateTime

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "watcher_state",
        sa.Column("id", _BIG_ID, autoincrement=True, nullable=False),
        sa.Column("watcher", sa.String(250), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("sentence", sa.Text()),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_watcher_state_watcher_id", "watcher_state", ["watcher", "id"])
    op.create_index("ix_watcher_state_at", "watcher_state", ["at"])


def downgrade() -> None:
    op.drop_table("watcher_state")
