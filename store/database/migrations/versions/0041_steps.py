"""steps that come before a job's queue, what catching up still has to give, and what a planner says of its runs.

The columns of `job` and `run` that had these become rows and one column. Only the runs that have something are written.
"""

from __future__ import annotations

import json
from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

_GOES_ON: Final = sa.text("finished_at IS NULL")
_SAID: Final = [
    (complete, late, json.dumps({**({} if complete is None else {"partition_complete": complete}), **late_member}))
    for complete in (None, True, False)
    for late, late_member in ((False, {}), (True, {"late": True}))
    if complete is not None or late
]
"""What a run's two columns were, and the JSON object that says the same."""


def upgrade() -> None:
    op.create_table(
        "open_step",
        sa.Column("dag_id", sa.String(250), sa.ForeignKey("job.dag_id"), nullable=False),
        sa.Column("feature", sa.String(64), nullable=False),
        sa.Column("while_paused", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "feature"),
    )
    op.create_table(
        "catchup",
        sa.Column("dag_id", sa.String(250), sa.ForeignKey("job.dag_id"), nullable=False),
        sa.Column("at_event", sa.BigInteger(), nullable=False),
        sa.Column("to_event", sa.BigInteger(), nullable=False),
        sa.Column("assets", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("dag_id"),
    )
    op.create_index("ix_replay_open", "replay", ["dag_id"], postgresql_where=_GOES_ON, sqlite_where=_GOES_ON)
    op.execute(
        "INSERT INTO catchup (dag_id, at_event, to_event, assets)"
        " SELECT dag_id, catchup_at, catchup_to, catchup_assets FROM job WHERE catchup_at IS NOT NULL"
    )
    op.execute(
        "INSERT INTO open_step (dag_id, feature, while_paused)"
        " SELECT dag_id, 'catchup', false FROM job WHERE catchup_at IS NOT NULL"
        " UNION ALL SELECT dag_id, 'replay', true FROM job WHERE replay_id IS NOT NULL"
    )
    for name in ("replay_id", "catchup_at", "catchup_to", "catchup_assets"):
        op.drop_column("job", name)
    op.add_column("run", sa.Column("of_feature", sa.Text()))
    run = sa.table(
        "run", sa.column("partition_complete", sa.Boolean()), sa.column("late", sa.Boolean()), sa.column("of_feature")
    )
    has = sa.or_(run.c.partition_complete.is_not(None), run.c.late)
    said = sa.case(
        *(
            (
                sa.and_(
                    run.c.partition_complete.is_not_distinct_from(complete),
                    run.c.late.is_(sa.true() if late else sa.false()),
                ),
                text,
            )
            for complete, late, text in _SAID
        )
    )
    op.execute(sa.update(run).where(has).values(of_feature=said))
    op.drop_column("run", "partition_complete")
    op.drop_column("run", "late")


def downgrade() -> None:
    op.add_column("run", sa.Column("partition_complete", sa.Boolean()))
    op.add_column("run", sa.Column("late", sa.Boolean(), nullable=False, server_default=sa.false()))
    run = sa.table(
        "run", sa.column("partition_complete", sa.Boolean()), sa.column("late", sa.Boolean()), sa.column("of_feature")
    )
    for complete, late, text in _SAID:
        op.execute(sa.update(run).where(run.c.of_feature == text).values(partition_complete=complete, late=late))
    op.drop_column("run", "of_feature")
    op.add_column("job", sa.Column("replay_id", sa.BigInteger()))
    op.add_column("job", sa.Column("catchup_at", sa.BigInteger()))
    op.add_column("job", sa.Column("catchup_to", sa.BigInteger()))
    op.add_column("job", sa.Column("catchup_assets", sa.Text()))
    op.execute(
        "UPDATE job SET replay_id = (SELECT max(id) FROM replay WHERE replay.dag_id = job.dag_id AND finished_at IS NULL)"
        " WHERE dag_id IN (SELECT dag_id FROM open_step WHERE feature = 'replay')"
    )
    op.execute(
        "UPDATE job SET catchup_at = at_event, catchup_to = to_event, catchup_assets = assets"
        " FROM catchup WHERE catchup.dag_id = job.dag_id"
    )
    op.drop_index("ix_replay_open", "replay")
    op.drop_table("catchup")
    op.drop_table("open_step")
