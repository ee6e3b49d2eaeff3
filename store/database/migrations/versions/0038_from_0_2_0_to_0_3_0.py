"""what 0.3.0 adds to the schema of 0.2.0, which was at 0017.

It stands for the revisions 0018 to 0038, which databases between the two releases went through one by one. It has the last one's
number, so that a database at 0038 has it already.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0017"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TIME = sa.DateTime(timezone=True)
_SKETCH = ["asset_id", "sketch_high", "sketch_low", "sketch_bits", "sketch_more_bits", "id"]
_UNRESOLVED = sa.text("bad_records > 0 AND bad_records_resolved_at IS NULL")
_OPEN = sa.text("ended_at IS NULL")
_LEFT = sa.text("forget_at IS NOT NULL")
_VACUUM = ("autovacuum_vacuum_scale_factor", "autovacuum_vacuum_insert_scale_factor")
"""PostgreSQL vacuums events after a fiftieth of them has changed or come, not a fifth.

A search for an item reads the index of the sketches alone, but for rows that VACUUM has not seen yet, which it looks up one
by one: it takes twenty times as long after the clean-up has made the sketches of a tenth of all events.
https://www.postgresql.org/docs/current/indexes-index-only-scans.html
"""


def upgrade() -> None:
    for table, column in _columns():
        op.add_column(table, column)
    _make_indexes()
    _make_position_chunks()
    _make_dropped_events()
    _make_replays()
    _make_partition_groups()
    _make_cleanings()
    _make_watcher_assets()
    _alter_events("SET", [f"{name} = 0.02" for name in _VACUUM])


def _columns() -> list[tuple[str, sa.Column[object]]]:
    """Return the new columns of tables that 0.2.0 has, each with its table."""
    return [
        ("task_try", _flag("is_final")),
        ("task_try", sa.Column("renewed_at", _TIME)),
        ("task_try", sa.Column("forget_at", _TIME)),
        ("task_try", sa.Column("lease_holder", sa.String(64))),
        ("run", sa.Column("bad_records", sa.BigInteger())),
        ("run", sa.Column("bad_records_resolved_at", _TIME)),
        ("run", sa.Column("partition_key", sa.String(250))),
        ("run", sa.Column("partition_complete", sa.Boolean())),
        ("run", _flag("late")),
        ("asset_event", sa.Column("sketch_low", sa.BigInteger())),
        ("asset_event", sa.Column("sketch_high", sa.BigInteger())),
        ("asset_event", sa.Column("sketch_bits", sa.BigInteger())),
        ("asset_event", sa.Column("partition_key", sa.String(250))),
        ("asset_event", sa.Column("sketch_more_bits", sa.BigInteger())),
        ("queued_event", sa.Column("partition_key", sa.String(250))),
        ("queued_event", sa.Column("satisfies", sa.String(2000), nullable=False, server_default=sa.text("''"))),
        ("leader", sa.Column("start_reasons", sa.Text())),
        ("watcher", sa.Column("failing_since", _TIME)),
        ("watcher", sa.Column("next_try_at", _TIME)),
        ("job", sa.Column("replay_id", sa.BigInteger())),
        ("job", _flag("joint")),
        ("job", _flag("partitioned")),
        ("job", sa.Column("catchup_at", sa.BigInteger())),
        ("job", sa.Column("catchup_to", sa.BigInteger())),
        ("job", sa.Column("catchup_assets", sa.Text())),
        ("job_schedule_asset", _flag("filtered")),
        ("job_schedule_alias", _flag("filtered")),
        ("asset", sa.Column("partition_parts", sa.Text())),
        ("asset", sa.Column("expect_by", sa.Text())),
        ("asset_forward", _flag("with_partition_key")),
    ]


def _flag(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.Boolean(), server_default=sa.false(), nullable=False)


def _make_indexes() -> None:
    """Make the indexes of tables that 0.2.0 has, and drop those that they replace."""
    op.create_index(
        "ix_run_bad_records", "run", ["bad_records"], postgresql_where=_UNRESOLVED, sqlite_where=_UNRESOLVED
    )
    op.create_index("ix_run_state_dag_id_id", "run", ["state", "dag_id", "id"])
    op.drop_index("ix_run_state_dag_id", "run")
    op.create_index("ix_run_end_date", "run", ["end_date"])
    op.create_index("ix_task_try_open", "task_try", ["task_instance_id"], postgresql_where=_OPEN, sqlite_where=_OPEN)
    op.create_index("ix_task_try_forget_at", "task_try", ["forget_at"], postgresql_where=_LEFT, sqlite_where=_LEFT)
    op.create_index("ix_asset_event_asset_id_sketches", "asset_event", _SKETCH)
    op.create_index("ix_queued_event_first", "queued_event", ["dag_id", "asset_id", "satisfies", "event_id"])
    op.drop_index("ix_queued_event_dag_id_asset_id_event_id", "queued_event")


def _make_position_chunks() -> None:
    op.create_table(
        "watcher_position_chunk",
        sa.Column("watcher", sa.String(250), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("watcher", "number", name=op.f("pk_watcher_position_chunk")),
    )


def _make_dropped_events() -> None:
    op.create_table(
        "dropped_event",
        sa.Column("dag_id", sa.String(250), nullable=False),
        sa.Column("event_id", _BIG_ID, nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("actor", sa.String(250)),
        sa.Column("dropped_at", _TIME, nullable=False),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_dropped_event_dag_id")),
        sa.ForeignKeyConstraint(
            ["event_id"], ["asset_event.id"], name=op.f("fk_dropped_event_event_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dag_id", "event_id", name=op.f("pk_dropped_event")),
    )
    op.create_index("ix_dropped_event_event_id", "dropped_event", ["event_id"])


def _make_replays() -> None:
    op.create_table(
        "replay",
        sa.Column("id", _BIG_ID, autoincrement=True, nullable=False),
        sa.Column("dag_id", sa.String(250), nullable=False),
        sa.Column("asset_id", _BIG_ID),
        sa.Column("partition_key", sa.String(250)),
        sa.Column("from_at", _TIME, nullable=False),
        sa.Column("to_at", _TIME, nullable=False),
        sa.Column("include_dropped", sa.Boolean(), nullable=False),
        sa.Column("expected_count", sa.BigInteger(), nullable=False),
        sa.Column("last_event", sa.BigInteger(), nullable=False),
        sa.Column("last_run", sa.BigInteger(), nullable=False),
        sa.Column("at_event", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("at_run", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("queued_events", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("cleared_runs", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("actor", sa.String(250), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("finished_at", _TIME),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_replay_dag_id")),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_replay_asset_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replay")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_replay_dag_id", "replay", ["dag_id"])


def _make_partition_groups() -> None:
    op.create_table(
        "partition_group",
        sa.Column("dag_id", sa.String(250), nullable=False),
        sa.Column("key", sa.String(250), nullable=False),
        sa.Column("rest_to", sa.BigInteger()),
        sa.Column("rest_completed_by", sa.BigInteger()),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_partition_group_dag_id")),
        sa.PrimaryKeyConstraint("dag_id", "key", name=op.f("pk_partition_group")),
    )


def _make_cleanings() -> None:
    op.create_table(
        "cleaning",
        sa.Column("event_id", _BIG_ID, autoincrement=False, nullable=False),
        sa.Column("watcher", sa.String(250), nullable=False),
        sa.Column("owed", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(16)),
        sa.Column("due_at", _TIME),
        sa.Column("passes", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("next_file", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("files", sa.Text()),
        sa.Column("staying", sa.Text(), nullable=False, server_default="{}"),
        sa.Column("working", sa.Text()),
        sa.Column("removed", sa.Integer(), nullable=False, server_default="0"),
        sa.ForeignKeyConstraint(
            ["event_id"], ["asset_event.id"], name=op.f("fk_cleaning_event_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_cleaning")),
    )
    op.create_index("ix_cleaning_watcher_due_at", "cleaning", ["watcher", "due_at"])


def _make_watcher_assets() -> None:
    op.create_table(
        "watcher_asset",
        sa.Column("watcher", sa.String(250), nullable=False),
        sa.Column("asset_id", _BIG_ID, nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False, server_default=sa.true()),
        sa.ForeignKeyConstraint(["watcher"], ["watcher.name"], name=op.f("fk_watcher_asset_watcher")),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_watcher_asset_asset_id")),
        sa.PrimaryKeyConstraint("watcher", "asset_id", name=op.f("pk_watcher_asset")),
    )
    op.create_index("ix_watcher_asset_asset_id", "watcher_asset", ["asset_id"])


def _alter_events(action: str, settings: list[str]) -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE asset_event {action} ({', '.join(settings)})")


def downgrade() -> None:
    _alter_events("RESET", [*_VACUUM])
    for table in ("watcher_asset", "cleaning", "partition_group", "replay", "dropped_event", "watcher_position_chunk"):
        op.drop_table(table)
    op.create_index("ix_queued_event_dag_id_asset_id_event_id", "queued_event", ["dag_id", "asset_id", "event_id"])
    op.drop_index("ix_queued_event_first", "queued_event")
    op.drop_index("ix_asset_event_asset_id_sketches", "asset_event")
    op.drop_index("ix_task_try_forget_at", "task_try")
    op.drop_index("ix_task_try_open", "task_try")
    op.drop_index("ix_run_end_date", "run")
    op.create_index("ix_run_state_dag_id", "run", ["state", "dag_id"])
    op.drop_index("ix_run_state_dag_id_id", "run")
    op.drop_index("ix_run_bad_records", "run")
    for table, column in reversed(_columns()):
        op.drop_column(table, column.name)
