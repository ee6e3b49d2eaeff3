"""the first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_token",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("subject", sa.String(length=250), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_api_token_token_hash")),
    )
    op.create_table(
        "asset",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=1500), nullable=False),
        sa.Column("uri", sa.String(length=1500), nullable=False),
        sa.Column("group", sa.String(length=1500), server_default=sa.text("('')"), nullable=False),
        sa.Column("extra", sa.Text(), server_default="{}", nullable=False),
        sa.Column("origin", sa.String(length=8), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("expect_every_seconds", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_asset")),
        sa.UniqueConstraint("name", name=op.f("uq_asset_name")),
        sa.UniqueConstraint("uri", name=op.f("uq_asset_uri")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "asset_alias",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=250), nullable=False),
        sa.Column("group", sa.String(length=1500), server_default=sa.text("('')"), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_asset_alias")),
        sa.UniqueConstraint("name", name=op.f("uq_asset_alias_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.String(length=250), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=2000), nullable=False),
        sa.Column("detail", sa.Text(), server_default="{}", nullable=False),
        sa.Column("write_id", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"], unique=False)
    op.create_index(op.f("ix_audit_write_id"), "audit", ["write_id"], unique=False)
    op.create_table(
        "dispatcher",
        sa.Column("home_id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("home_id", name=op.f("pk_dispatcher")),
    )
    op.create_table(
        "execution_answer",
        sa.Column("task_instance_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("task_instance_id", "key", name=op.f("pk_execution_answer")),
    )
    op.create_index(op.f("ix_execution_answer_created_at"), "execution_answer", ["created_at"], unique=False)
    op.create_table(
        "job",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("task_id", sa.String(length=250), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("cron", sa.String(length=1000), nullable=True),
        sa.Column("clock", sa.String(length=1000), nullable=True),
        sa.Column("next_tick", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("dag_id", name=op.f("pk_job")),
    )
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leader")),
    )
    op.create_table(
        "setting",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_setting")),
    )
    op.create_table(
        "task_instance",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("task_id", sa.String(length=250), nullable=False),
        sa.Column("map_index", sa.Integer(), server_default="-1", nullable=False),
        sa.Column("origin", sa.String(length=8), server_default="own", nullable=False),
        sa.Column("try_number", sa.Integer(), server_default="0", nullable=False),
        sa.Column("state", sa.String(length=24), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("start_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_date", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_instance")),
        sa.UniqueConstraint(
            "dag_id", "run_id", "task_id", "map_index", name=op.f("uq_task_instance_dag_id_run_id_task_id_map_index")
        ),
    )
    op.create_index("ix_task_instance_state", "task_instance", ["state"], unique=False)
    op.create_table(
        "task_store",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("task_id", sa.String(length=250), nullable=False),
        sa.Column("map_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=512), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("is_ref", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("never_expire", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id", "task_id", "map_index", "key", name=op.f("pk_task_store")),
    )
    op.create_index(op.f("ix_task_store_expires_at"), "task_store", ["expires_at"], unique=False)
    op.create_table(
        "triggerer",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_triggerer")),
    )
    op.create_table(
        "watcher_position",
        sa.Column("watcher", sa.String(length=250), nullable=False),
        sa.Column("source_identity", sa.Text(), nullable=True),
        sa.Column("owner", sa.String(length=36), nullable=True),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("version", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("watermark", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=True),
        sa.Column("previous", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("watcher", name=op.f("pk_watcher_position")),
    )
    op.create_table(
        "watcher_position_row",
        sa.Column("watcher", sa.String(length=250), nullable=False),
        sa.Column("member", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("watcher", "member", name=op.f("pk_watcher_position_row")),
    )
    op.create_index("ix_watcher_position_row_watcher_value", "watcher_position_row", ["watcher", "value"], unique=False)
    op.create_table(
        "asset_alias_asset",
        sa.Column("alias_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["alias_id"], ["asset_alias.id"], name=op.f("fk_asset_alias_asset_alias_id")),
        sa.ForeignKeyConstraint(
            ["asset_id"], ["asset.id"], name=op.f("fk_asset_alias_asset_asset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("alias_id", "asset_id", name=op.f("pk_asset_alias_asset")),
    )
    op.create_index(op.f("ix_asset_alias_asset_asset_id"), "asset_alias_asset", ["asset_id"], unique=False)
    op.create_table(
        "asset_event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("extra", sa.Text(), server_default="{}", nullable=False),
        sa.Column("timestamp", sa.DateTime(timezone=True), nullable=False),
        sa.Column("event_id", sa.String(length=64), nullable=True),
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("source_dag_id", sa.String(length=250), nullable=True),
        sa.Column("source_run_id", sa.String(length=250), nullable=True),
        sa.Column("source_task_id", sa.String(length=250), nullable=True),
        sa.Column("source_map_index", sa.Integer(), server_default="-1", nullable=False),
        sa.Column("source_watcher", sa.String(length=250), nullable=True),
        sa.Column("source_actor", sa.String(length=250), nullable=True),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_asset_event_asset_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_asset_event")),
        sa.UniqueConstraint("event_id", name=op.f("uq_asset_event_event_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_asset_event_asset_id_id", "asset_event", ["asset_id", "id"], unique=False)
    op.create_index(op.f("ix_asset_event_timestamp"), "asset_event", ["timestamp"], unique=False)
    op.create_table(
        "asset_store",
        sa.Column(
            "asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("key", sa.String(length=512), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("is_ref", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_updated_by_kind", sa.String(length=16), nullable=True),
        sa.Column("last_updated_by_dag_id", sa.String(length=250), nullable=True),
        sa.Column("last_updated_by_run_id", sa.String(length=250), nullable=True),
        sa.Column("last_updated_by_task_id", sa.String(length=250), nullable=True),
        sa.Column("last_updated_by_map_index", sa.Integer(), nullable=True),
        sa.Column("last_updated_by_watcher", sa.String(length=250), nullable=True),
        sa.Column("last_updated_by_actor", sa.String(length=250), nullable=True),
        sa.Column("last_updated_by_write_id", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_asset_store_asset_id")),
        sa.PrimaryKeyConstraint("asset_id", "key", name=op.f("pk_asset_store")),
    )
    op.create_table(
        "asset_store_history",
        sa.Column(
            "asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("key", sa.String(length=512), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("is_ref", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("deleted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=True),
        sa.Column("dag_id", sa.String(length=250), nullable=True),
        sa.Column("run_id", sa.String(length=250), nullable=True),
        sa.Column("task_id", sa.String(length=250), nullable=True),
        sa.Column("map_index", sa.Integer(), nullable=True),
        sa.Column("try_number", sa.Integer(), nullable=True),
        sa.Column("watcher", sa.String(length=250), nullable=True),
        sa.Column("actor", sa.String(length=250), nullable=True),
        sa.Column("write_id", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_asset_store_history_asset_id")),
        sa.PrimaryKeyConstraint("asset_id", "key", "version", name=op.f("pk_asset_store_history")),
    )
    op.create_index(op.f("ix_asset_store_history_write_id"), "asset_store_history", ["write_id"], unique=False)
    op.create_index("ix_asset_store_history_written_at", "asset_store_history", ["written_at"], unique=False)
    op.create_table(
        "asset_store_increment",
        sa.Column("task_instance_id", sa.String(length=36), nullable=False),
        sa.Column(
            "asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_asset_store_increment_asset_id")),
        sa.ForeignKeyConstraint(
            ["task_instance_id"],
            ["task_instance.id"],
            name=op.f("fk_asset_store_increment_task_instance_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("task_instance_id", "asset_id", "ordinal", name=op.f("pk_asset_store_increment")),
    )
    op.create_table(
        "job_inlet",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_job_inlet_asset_id")),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_job_inlet_dag_id")),
        sa.PrimaryKeyConstraint("dag_id", "asset_id", name=op.f("pk_job_inlet")),
    )
    op.create_index(op.f("ix_job_inlet_asset_id"), "job_inlet", ["asset_id"], unique=False)
    op.create_table(
        "job_inlet_alias",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("alias_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["alias_id"], ["asset_alias.id"], name=op.f("fk_job_inlet_alias_alias_id")),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_job_inlet_alias_dag_id")),
        sa.PrimaryKeyConstraint("dag_id", "alias_id", name=op.f("pk_job_inlet_alias")),
    )
    op.create_index(op.f("ix_job_inlet_alias_alias_id"), "job_inlet_alias", ["alias_id"], unique=False)
    op.create_table(
        "job_outlet",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_job_outlet_asset_id")),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_job_outlet_dag_id")),
        sa.PrimaryKeyConstraint("dag_id", "asset_id", name=op.f("pk_job_outlet")),
    )
    op.create_index(op.f("ix_job_outlet_asset_id"), "job_outlet", ["asset_id"], unique=False)
    op.create_table(
        "job_outlet_alias",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("alias_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["alias_id"], ["asset_alias.id"], name=op.f("fk_job_outlet_alias_alias_id")),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_job_outlet_alias_dag_id")),
        sa.PrimaryKeyConstraint("dag_id", "alias_id", name=op.f("pk_job_outlet_alias")),
    )
    op.create_index(op.f("ix_job_outlet_alias_alias_id"), "job_outlet_alias", ["alias_id"], unique=False)
    op.create_table(
        "job_schedule_alias",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("alias_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["alias_id"], ["asset_alias.id"], name=op.f("fk_job_schedule_alias_alias_id")),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_job_schedule_alias_dag_id")),
        sa.PrimaryKeyConstraint("dag_id", "alias_id", name=op.f("pk_job_schedule_alias")),
    )
    op.create_index(op.f("ix_job_schedule_alias_alias_id"), "job_schedule_alias", ["alias_id"], unique=False)
    op.create_table(
        "job_schedule_asset",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_job_schedule_asset_asset_id")),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_job_schedule_asset_dag_id")),
        sa.PrimaryKeyConstraint("dag_id", "asset_id", name=op.f("pk_job_schedule_asset")),
    )
    op.create_index(op.f("ix_job_schedule_asset_asset_id"), "job_schedule_asset", ["asset_id"], unique=False)
    op.create_table(
        "run",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("run_type", sa.String(length=32), nullable=False),
        sa.Column("triggered_by", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("warning", sa.Text(), nullable=True),
        sa.Column("conf", sa.Text(), server_default="{}", nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("trace_id", sa.String(length=32), nullable=False),
        sa.Column("logical_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("data_interval_start", sa.DateTime(timezone=True), nullable=True),
        sa.Column("data_interval_end", sa.DateTime(timezone=True), nullable=True),
        sa.Column("run_after", sa.DateTime(timezone=True), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("start_date", sa.DateTime(timezone=True), nullable=True),
        sa.Column("end_date", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_run_dag_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("dag_id", "run_id", name=op.f("uq_run_dag_id_run_id")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_run_state_dag_id", "run", ["state", "dag_id"], unique=False)
    op.create_table(
        "task_try",
        sa.Column("task_instance_id", sa.String(length=36), nullable=False),
        sa.Column("try_number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("home_id", sa.String(length=36), nullable=False),
        sa.Column("tag", sa.String(length=64), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("handle", sa.Text(), nullable=True),
        sa.Column("nonce", sa.String(length=64), nullable=True),
        sa.Column("finish_state", sa.String(length=16), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("progress", sa.Text(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("counted", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("intent_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancelled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["task_instance_id"], ["task_instance.id"], name=op.f("fk_task_try_task_instance_id")),
        sa.PrimaryKeyConstraint("task_instance_id", "try_number", name=op.f("pk_task_try")),
        sa.UniqueConstraint("tag", name=op.f("uq_task_try_tag")),
    )
    op.create_index("ix_task_try_home_id_ended_at", "task_try", ["home_id", "ended_at"], unique=False)
    op.create_table(
        "watcher",
        sa.Column("name", sa.String(length=250), nullable=False),
        sa.Column("asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("trigger", sa.String(length=1000), nullable=False),
        sa.Column("active", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("state", sa.String(length=16), server_default="stopped", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("error_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("last_poll_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_event_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lag_seconds", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_watcher_asset_id")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_watcher")),
    )
    op.create_index(op.f("ix_watcher_asset_id"), "watcher", ["asset_id"], unique=False)
    op.create_table(
        "asset_alias_event",
        sa.Column("alias_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["alias_id"], ["asset_alias.id"], name=op.f("fk_asset_alias_event_alias_id")),
        sa.ForeignKeyConstraint(
            ["event_id"], ["asset_event.id"], name=op.f("fk_asset_alias_event_event_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("alias_id", "event_id", name=op.f("pk_asset_alias_event")),
    )
    op.create_index(op.f("ix_asset_alias_event_event_id"), "asset_alias_event", ["event_id"], unique=False)
    op.create_table(
        "queued_event",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("asset_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["asset_id"], ["asset.id"], name=op.f("fk_queued_event_asset_id")),
        sa.ForeignKeyConstraint(["dag_id"], ["job.dag_id"], name=op.f("fk_queued_event_dag_id")),
        sa.ForeignKeyConstraint(["event_id"], ["asset_event.id"], name=op.f("fk_queued_event_event_id")),
        sa.PrimaryKeyConstraint("dag_id", "event_id", name=op.f("pk_queued_event")),
    )
    op.create_index(op.f("ix_queued_event_asset_id"), "queued_event", ["asset_id"], unique=False)
    op.create_index(op.f("ix_queued_event_event_id"), "queued_event", ["event_id"], unique=False)
    op.create_table(
        "run_asset_event",
        sa.Column("dag_id", sa.String(length=250), nullable=False),
        sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("completed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dag_id", "run_id"], ["run.dag_id", "run.run_id"], name=op.f("fk_run_asset_event_dag_id_run_id")
        ),
        sa.ForeignKeyConstraint(["event_id"], ["asset_event.id"], name=op.f("fk_run_asset_event_event_id")),
        sa.PrimaryKeyConstraint("dag_id", "event_id", name=op.f("pk_run_asset_event")),
    )
    op.create_index("ix_run_asset_event_dag_id_run_id", "run_asset_event", ["dag_id", "run_id"], unique=False)
    op.create_index(op.f("ix_run_asset_event_event_id"), "run_asset_event", ["event_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_run_asset_event_event_id"), table_name="run_asset_event")
    op.drop_index("ix_run_asset_event_dag_id_run_id", table_name="run_asset_event")
    op.drop_table("run_asset_event")
    op.drop_index(op.f("ix_queued_event_event_id"), table_name="queued_event")
    op.drop_index(op.f("ix_queued_event_asset_id"), table_name="queued_event")
    op.drop_table("queued_event")
    op.drop_index(op.f("ix_asset_alias_event_event_id"), table_name="asset_alias_event")
    op.drop_table("asset_alias_event")
    op.drop_index(op.f("ix_watcher_asset_id"), table_name="watcher")
    op.drop_table("watcher")
    op.drop_index("ix_task_try_home_id_ended_at", table_name="task_try")
    op.drop_table("task_try")
    op.drop_index("ix_run_state_dag_id", table_name="run")
    op.drop_table("run")
    op.drop_index(op.f("ix_job_schedule_asset_asset_id"), table_name="job_schedule_asset")
    op.drop_table("job_schedule_asset")
    op.drop_index(op.f("ix_job_schedule_alias_alias_id"), table_name="job_schedule_alias")
    op.drop_table("job_schedule_alias")
    op.drop_index(op.f("ix_job_outlet_alias_alias_id"), table_name="job_outlet_alias")
    op.drop_table("job_outlet_alias")
    op.drop_index(op.f("ix_job_outlet_asset_id"), table_name="job_outlet")
    op.drop_table("job_outlet")
    op.drop_index(op.f("ix_job_inlet_alias_alias_id"), table_name="job_inlet_alias")
    op.drop_table("job_inlet_alias")
    op.drop_index(op.f("ix_job_inlet_asset_id"), table_name="job_inlet")
    op.drop_table("job_inlet")
    op.drop_table("asset_store_increment")
    op.drop_index("ix_asset_store_history_written_at", table_name="asset_store_history")
    op.drop_index(op.f("ix_asset_store_history_write_id"), table_name="asset_store_history")
    op.drop_table("asset_store_history")
    op.drop_table("asset_store")
    op.drop_index(op.f("ix_asset_event_timestamp"), table_name="asset_event")
    op.drop_index("ix_asset_event_asset_id_id", table_name="asset_event")
    op.drop_table("asset_event")
    op.drop_index(op.f("ix_asset_alias_asset_asset_id"), table_name="asset_alias_asset")
    op.drop_table("asset_alias_asset")
    op.drop_index("ix_watcher_position_row_watcher_value", table_name="watcher_position_row")
    op.drop_table("watcher_position_row")
    op.drop_table("watcher_position")
    op.drop_table("triggerer")
    op.drop_index(op.f("ix_task_store_expires_at"), table_name="task_store")
    op.drop_table("task_store")
    op.drop_index("ix_task_instance_state", table_name="task_instance")
    op.drop_table("task_instance")
    op.drop_table("setting")
    op.drop_table("leader")
    op.drop_table("job")
    op.drop_index(op.f("ix_execution_answer_created_at"), table_name="execution_answer")
    op.drop_table("execution_answer")
    op.drop_table("dispatcher")
    op.drop_index(op.f("ix_audit_write_id"), table_name="audit")
    op.drop_index(op.f("ix_audit_at"), table_name="audit")
    op.drop_table("audit")
    op.drop_table("asset_alias")
    op.drop_table("asset")
    op.drop_table("api_token")
