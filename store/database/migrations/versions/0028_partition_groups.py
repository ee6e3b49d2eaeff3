"""the parts of assets' partition keys, and the groups by which jobs take partitions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("asset", sa.Column("partition_parts", sa.Text()))
    op.add_column("job", sa.Column("partitioned", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "partition_group",
        sa.Column("dag_id", sa.String(250), nullable=False),
        sa.Column("key", sa.String(250), nullable=False),
        sa.Column("rest_to", sa.BigInteger()),
        sa.Column("rest_completed_by", sa.BigInteger()),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name="fk_partition_group_dag_id"),
        sa.PrimaryKeyConstraint("dag_id", "key", name="pk_partition_group"),
    )


def downgrade() -> None:
    op.drop_table("partition_group")
    op.drop_column("job", "partitioned")
    op.drop_column("asset", "partition_parts")
