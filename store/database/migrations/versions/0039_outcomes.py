"""what a run made of its events, kept when the clean-up removes the run; up to which event a job's record has holes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

# What was recorded until now is a run that is gone, without its outcome, or an event that was taken off a queue.
_TAKEN_OFF = "UPDATE dropped_event SET outcome = 'dropped' WHERE reason <> 'run past its retention'"
_HOLES = "UPDATE job SET unrecorded_to = (SELECT coalesce(max(id), 0) FROM asset_event)"
_WORDS = {"active": "running", "dequeued": "dropped", "deleted": "dropped", "forgotten": "unknown"}
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("dropped_event", sa.Column("outcome", sa.String(16)))
    op.add_column("dropped_event", sa.Column("run_id", sa.String(250)))
    op.add_column("dropped_event", sa.Column("ended_at", _TIME))
    op.add_column("job", sa.Column("unrecorded_to", sa.BigInteger(), nullable=False, server_default="0"))
    op.execute(_TAKEN_OFF)
    op.execute(_HOLES)
    for before, after in _WORDS.items():
        op.execute(f"UPDATE cleaning SET reason = '{after}' WHERE reason = '{before}'")  # noqa: S608  our own words


def downgrade() -> None:
    op.execute("UPDATE cleaning SET reason = 'active' WHERE reason = 'running'")
    op.execute("UPDATE cleaning SET reason = 'dequeued' WHERE reason = 'dropped'")
    op.execute("UPDATE cleaning SET reason = 'forgotten' WHERE reason = 'unknown'")
    op.drop_column("job", "unrecorded_to")
    for name in ("ended_at", "run_id", "outcome"):
        op.drop_column("dropped_event", name)
