"""the features that take part in the transactions of events, and the versions of the tables of features from elsewhere."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "asset_interest",
        sa.Column("asset_id", _BIG_ID, sa.ForeignKey("asset.id"), autoincrement=False, nullable=False),
        sa.Column("feature", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("asset_id", "feature"),
    )
    op.create_table(
        "cleaned_watcher",
        sa.Column("watcher", sa.String(250), nullable=False),
        sa.Column("after_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("watcher"),
    )
    op.create_table(
        "feature_schema",
        sa.Column("feature", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("feature"),
    )
    # A process whose configuration is not the one applied last hosts watchers before it may apply its own. Until then these
    # rows stand for what the older release knew. How long files stay is decided anew when their time comes.
    op.execute("INSERT INTO asset_interest (asset_id, feature) SELECT asset_id, 'airflow' FROM asset_forward")
    op.execute("INSERT INTO cleaned_watcher (watcher, after_seconds) SELECT DISTINCT watcher, 0 FROM cleaning")
    op.execute(
        "INSERT INTO asset_interest (asset_id, feature) SELECT asset_id, 'clean_source' FROM watcher"
        " WHERE name IN (SELECT watcher FROM cleaned_watcher)"
        " UNION SELECT asset_id, 'clean_source' FROM watcher_asset WHERE watcher IN (SELECT watcher FROM cleaned_watcher)"
    )


def downgrade() -> None:
    op.drop_table("feature_schema")
    op.drop_table("cleaned_watcher")
    op.drop_table("asset_interest")
