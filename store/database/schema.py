"""The metadata database's tables, declared once for SQLite and PostgreSQL.

A test compares this declaration with what the migrations build. Times are UTC; JSON is kept as text so that key order,
big integers and decimals come back as they were given.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

from store.keys import ROLES, JobDefinition, Role

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def in_utc(moment: datetime) -> datetime:
    """The moment, which has a zone, in UTC. Raises `ValueError` where UTC's year is none of 1 to 9999."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the calendar; give a time of the years 1 to 9999 in UTC") from None


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime in and out; SQLite keeps it as naive text that sorts."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError("a time without a time zone names no moment")
        utc = in_utc(value)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Definition(TypeDecorator[JobDefinition]):
    """A `JobDefinition` in and out."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: JobDefinition | None, _dialect: Dialect) -> str | None:
        return None if value is None else value.to_json()

    def process_result_value(self, value: str | None, _dialect: Dialect) -> JobDefinition | None:
        return None if value is None else JobDefinition.from_json(value)


class database_now(FunctionElement[datetime]):  # noqa: N801  reads like the SQL function it is
    """The database's clock at this statement; leases and ages never use a process's clock."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(database_now, "postgresql")
def _postgresql_now(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "clock_timestamp()"


@compiles(database_now, "sqlite")
def _sqlite_now(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"


class database_time_in(FunctionElement[datetime]):  # noqa: N801  likewise
    """So many seconds (a float) after `database_now`."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(database_time_in, "postgresql")
def _postgresql_time_in(element: Any, compiler: Any, **options: Any) -> str:
    return f"(clock_timestamp() + make_interval(secs => {compiler.process(element.clauses, **options)}))"


@compiles(database_time_in, "sqlite")
def _sqlite_time_in(element: Any, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', {seconds} || ' seconds') || '000')"


class seconds_between(FunctionElement[float]):  # noqa: N801  likewise
    """From one time to a later one; null while either is null."""

    type = Float()
    inherit_cache = True


@compiles(seconds_between, "postgresql")
def _postgresql_seconds(element: Any, compiler: Any, **options: Any) -> str:
    start, end = (compiler.process(time, **options) for time in element.clauses)
    return f"EXTRACT(EPOCH FROM {end} - {start})::double precision"


@compiles(seconds_between, "sqlite")
def _sqlite_seconds(element: Any, compiler: Any, **options: Any) -> str:
    start, end = (compiler.process(time, **options) for time in element.clauses)
    return f"round((julianday({end}) - julianday({start})) * 86400.0, 3)"  # it counts milliseconds


_big_id = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only INTEGER primary keys by itself
NAME = String(250)
UUID = String(36)


def _table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *parts, **options)


def _only_of_tasks(*columns: str, table: str) -> Index:
    """An index over what tasks wrote; rows of watchers and people are not in it, and cost nothing."""
    where = text(f"{columns[0]} IS NOT NULL")
    return Index(f"ix_{table}_{'_'.join(columns)}", *columns, postgresql_where=where, sqlite_where=where)


asset = _table(
    "asset",
    Column("id", _big_id, primary_key=True, autoincrement=True),
    Column("name", String(1500), nullable=False, unique=True),
    Column("uri", String(1500), nullable=False, unique=True),
    Column("group", String(1500), nullable=False, server_default=text("''")),
    Column("extra", Text, nullable=False, server_default="{}"),
    Column("origin", String(8), nullable=False),  # yaml | alias | api
    Column("active", Boolean, nullable=False, server_default=true()),
    Column("expect_every_seconds", Integer),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    sqlite_autoincrement=True,
)

asset_alias = _table(
    "asset_alias",
    Column("id", _big_id, primary_key=True, autoincrement=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("group", String(1500), nullable=False, server_default=text("''")),
    Column("active", Boolean, nullable=False, server_default=true()),  # false: no longer configured
    sqlite_autoincrement=True,
)

asset_alias_asset = _table(  # the assets that got an event through the alias
    "asset_alias_asset",
    Column("alias_id", ForeignKey("asset_alias.id"), primary_key=True),
    Column("asset_id", ForeignKey("asset.id", ondelete="CASCADE"), primary_key=True, index=True),
)

watcher = _table(
    "watcher",
    Column("name", NAME, primary_key=True),
    Column("asset_id", ForeignKey("asset.id"), nullable=False, index=True),
    Column("trigger", String(1000), nullable=False),
    Column("active", Boolean, nullable=False, server_default=true()),  # false: no longer configured
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("state", String(16), nullable=False, server_default="stopped"),
    Column("error", Text),
    Column("error_count", Integer, nullable=False, server_default="0"),
    Column("last_poll_at", UtcDateTime),
    Column("last_event_at", UtcDateTime),
    Column("lag_seconds", Integer),
    Column("up_to", Text),  # JSON: where the clock has moved that of the watermark, which is version `up_to_version`
    Column("up_to_version", BigInteger),
    Column("definition", String(64)),  # a hash by which its host must know it; null: applied by an older program
    Column("findings", Text),  # JSON: what its host found that a person should look at; null: nothing
    Column("polls", Text),  # JSON: its last polls that found something, or failed
)

watcher_position = _table(
    "watcher_position",
    Column("watcher", NAME, primary_key=True),
    Column("source_identity", Text),  # JSON; null until the first commit
    Column("owner", UUID),  # triggerer.id
    Column("epoch", BigInteger, nullable=False, server_default="0"),  # +1 at every take-over
    Column("version", BigInteger, nullable=False, server_default="0"),  # +1 at every commit and rewind; never back
    Column("watermark", Text),
    Column("format", Integer, nullable=False, server_default="1"),  # of `state`, by the count of its trigger's class
    Column("state", Text),  # JSON object; null until the first commit
    Column("previous", Text),  # JSON: the position before a rewind, as long as that can be undone
    Column("undo_ended", Text),  # why it cannot be undone any more
    Column("updated_at", UtcDateTime),
)

watcher_position_row = _table(
    "watcher_position_row",
    Column("watcher", NAME, primary_key=True),
    Column("member", BigInteger, primary_key=True),
    Column("value", BigInteger, nullable=False),
    Index("ix_watcher_position_row_watcher_value", "watcher", "value"),
)

rejected_item = _table(  # what cannot be told, kept aside in the transaction of the position that passes it
    "rejected_item",
    Column("watcher", NAME, primary_key=True),
    Column("digest", String(64), primary_key=True),  # SHA-256 hex of key and version
    Column("key", Text, nullable=False),  # JSON, as the event's `rejected` names it
    Column("version", Text, nullable=False),  # tells contents of one key apart; empty where there is one
    Column("column_name", Text),  # the column that fails; null where it is not one alone
    Column("code", String(16), nullable=False),  # SQLSTATE; empty where PostgreSQL did not refuse it
    Column("reason", Text, nullable=False),
    Column("rejected_at", UtcDateTime, nullable=False),
    Column("retry_at", UtcDateTime),  # somebody asked for it to be told
)

triggerer = _table(
    "triggerer",
    Column("id", UUID, primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("capacity", Integer, nullable=False, server_default="10000"),  # most watchers that it hosts
    Column("configuration", String(64)),  # the hash of the one that it runs
    Column("definitions", Text),  # by watcher the hash by which it knows it, as JSON
    Column("started_at", UtcDateTime, nullable=False),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)

dispatcher = _table(
    "dispatcher",
    Column("home_id", UUID, primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("configuration", String(64)),  # the hash of the one that it runs
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)

leader = _table(  # one row: who schedules and starts runs
    "leader",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("owner", UUID, nullable=False),
    Column("epoch", BigInteger, nullable=False),  # +1 at every take-over
    Column("expires_at", UtcDateTime, nullable=False),
)

asset_store = _table(
    "asset_store",
    Column("asset_id", ForeignKey("asset.id"), primary_key=True, autoincrement=False),
    Column("key", String(512), primary_key=True),
    Column("value", Text, nullable=False),
    Column("is_ref", Boolean, nullable=False, server_default=false()),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("last_updated_by_kind", String(16)),
    Column("last_updated_by_dag_id", NAME),
    Column("last_updated_by_run_id", NAME),
    Column("last_updated_by_task_id", NAME),
    Column("last_updated_by_map_index", Integer),
    Column("last_updated_by_watcher", NAME),
    Column("last_updated_by_actor", NAME),
    Column("last_updated_by_write_id", String(64)),
)

asset_store_history = _table(
    "asset_store_history",
    Column("asset_id", ForeignKey("asset.id"), primary_key=True, autoincrement=False),
    Column("key", String(512), primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Text),  # null: this version is a delete
    Column("is_ref", Boolean, nullable=False, server_default=false()),
    Column("deleted", Boolean, nullable=False, server_default=false()),
    Column("written_at", UtcDateTime, nullable=False),
    Column("kind", String(16)),
    Column("dag_id", NAME),
    Column("run_id", NAME),
    Column("task_id", NAME),
    Column("map_index", Integer),
    Column("try_number", Integer),
    Column("watcher", NAME),
    Column("actor", NAME),
    Column("write_id", String(64), index=True),
    Index("ix_asset_store_history_written_at", "written_at"),
    _only_of_tasks("dag_id", "run_id", table="asset_store_history"),
)

task_store = _table(
    "task_store",
    Column("dag_id", NAME, primary_key=True),
    Column("run_id", NAME, primary_key=True),
    Column("task_id", NAME, primary_key=True),
    Column("map_index", Integer, primary_key=True, autoincrement=False),
    Column("key", String(512), primary_key=True),
    Column("value", Text, nullable=False),
    Column("is_ref", Boolean, nullable=False, server_default=false()),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, index=True),
    Column("never_expire", Boolean, nullable=False, server_default=false()),
)

asset_event = _table(
    "asset_event",
    Column("id", _big_id, primary_key=True, autoincrement=True),
    Column("asset_id", ForeignKey("asset.id"), nullable=False),
    Column("extra", Text, nullable=False, server_default="{}"),
    Column("timestamp", UtcDateTime, nullable=False, index=True),
    Column("event_id", String(64), unique=True),  # watchers' events: SHA-256 of (watcher, position version, index)
    Column("trace_id", String(32), nullable=False),
    Column("source_dag_id", NAME),
    Column("source_run_id", NAME),
    Column("source_task_id", NAME),
    Column("source_map_index", Integer, nullable=False, server_default="-1"),
    Column("source_watcher", NAME),
    Column("source_actor", NAME),
    Index("ix_asset_event_asset_id_id", "asset_id", "id"),
    Index("ix_asset_event_trace_id", "trace_id"),  # looked up whole, and in no order
    _only_of_tasks("source_dag_id", "source_run_id", table="asset_event"),
    sqlite_autoincrement=True,
)

asset_forward = _table(  # the assets whose events go to Airflow, as configured
    "asset_forward",
    Column("asset_id", ForeignKey("asset.id"), primary_key=True, autoincrement=False),
    Column("target", String(1500), nullable=False),  # name or uri of Airflow's asset
)

outbox = _table(  # what is owed to other systems, written in the transaction that made it true
    "outbox",
    Column("id", _big_id, primary_key=True, autoincrement=True),
    Column("destination", String(64), nullable=False),
    Column("lane", NAME, nullable=False),  # of the destination: what is sent in order
    Column("message_id", NAME),  # the same over retries; null: that of the event
    Column("asset_event_id", ForeignKey("asset_event.id"), index=True),
    Column("body", Text),  # JSON; null: that of the event
    Column("created_at", UtcDateTime, nullable=False),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("first_attempt_at", UtcDateTime),
    Column("attempt_at", UtcDateTime),  # of the last attempt, while nobody knows what became of it
    Column("not_before", UtcDateTime),  # the next attempt waits until then
    Column("refused", Boolean, nullable=False, server_default=false()),  # the last answer was that it is wrong
    Column("error", Text),
    Index("ix_outbox_destination_lane_id", "destination", "lane", "id"),
    sqlite_autoincrement=True,
)

alert = _table(  # what was seen by which rule of `settings.alerts`
    "alert",
    Column("key", String(64), primary_key=True),  # a hash of rule, kind and subject
    Column("rule", String(64), nullable=False),
    Column("alert", String(32), nullable=False),
    Column("subject", Text, nullable=False),  # JSON
    Column("message", Text, nullable=False),
    Column("since", UtcDateTime, nullable=False),
    Column("is_fired", Boolean, nullable=False, server_default=false()),  # somebody was told
)

listen_position = _table(  # where reading the events of one of Airflow's assets stands
    "listen_position",
    Column("source", String(1500), primary_key=True),  # name or uri of the asset, as configured
    Column("newest", UtcDateTime),  # by Airflow's clock; null: no event was seen
)

listen_seen = _table(  # Airflow's events that were read and may be read again
    "listen_seen",
    Column("source", ForeignKey("listen_position.source", ondelete="CASCADE"), primary_key=True),
    Column("event_id", BigInteger, primary_key=True, autoincrement=False),
    Column("timestamp", UtcDateTime, primary_key=True),  # ids of a database that was made anew begin again
)

asset_alias_event = _table(  # the events that came through the alias
    "asset_alias_event",
    Column("alias_id", ForeignKey("asset_alias.id"), primary_key=True),
    Column("event_id", ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True, index=True),
)

job = _table(
    "job",
    Column("dag_id", NAME, primary_key=True),
    Column("task_id", NAME, nullable=False),
    Column("active", Boolean, nullable=False, server_default=true()),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("definition", Definition, nullable=False),
    Column("cron", String(1000)),  # as configured, with its time zone; null: events only
    Column("clock", String(1000)),  # the cron that `next_tick` was reckoned by
    Column("next_tick", UtcDateTime),  # the first tick that no run was made for
    Column("rest_to", BigInteger),  # queued events up to this one are decided on: runs of them follow at once
    Column("rest_completed_by", BigInteger),  # the event that completed the condition; null: a tick alone decided
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

ASSET_EDGES: Final[Mapping[Role, Table]] = {
    role: _table(
        name,
        Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
        Column("asset_id", ForeignKey("asset.id"), primary_key=True, index=True),
    )
    for role, name in zip(ROLES, ("job_schedule_asset", "job_inlet", "job_outlet"), strict=True)
}
job_schedule_asset, job_inlet, job_outlet = ASSET_EDGES.values()

ALIAS_EDGES: Final[Mapping[Role, Table]] = {
    role: _table(
        name,
        Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
        Column("alias_id", ForeignKey("asset_alias.id"), primary_key=True, index=True),
    )
    for role, name in zip(ROLES, ("job_schedule_alias", "job_inlet_alias", "job_outlet_alias"), strict=True)
}
job_schedule_alias, job_inlet_alias, job_outlet_alias = ALIAS_EDGES.values()

queued_event = _table(
    "queued_event",
    Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
    Column("event_id", ForeignKey("asset_event.id"), primary_key=True, index=True),
    Column("asset_id", ForeignKey("asset.id"), nullable=False, index=True),
    Column("created_at", UtcDateTime, nullable=False),
    Index("ix_queued_event_dag_id_asset_id_event_id", "dag_id", "asset_id", "event_id"),  # a look's probes
)

run = _table(
    "run",
    Column("id", _big_id, primary_key=True, autoincrement=True),
    Column("dag_id", ForeignKey("job.dag_id"), nullable=False),
    Column("run_id", NAME, nullable=False),
    Column("run_type", String(32), nullable=False),
    Column("triggered_by", String(32), nullable=False),
    Column("state", String(16), nullable=False),  # queued | running | success | failed
    Column("reason", Text),
    Column("warning", Text),
    Column("conf", Text, nullable=False, server_default="{}"),
    Column("note", Text),
    Column("trace_id", String(32), nullable=False),
    Column("logical_date", UtcDateTime),
    Column("data_interval_start", UtcDateTime),
    Column("data_interval_end", UtcDateTime),
    Column("run_after", UtcDateTime, nullable=False),
    Column("queued_at", UtcDateTime, nullable=False),
    Column("start_date", UtcDateTime),
    Column("end_date", UtcDateTime),
    UniqueConstraint("dag_id", "run_id"),
    Index("ix_run_state_dag_id", "state", "dag_id"),
    Index("ix_run_trace_id", "trace_id"),
    sqlite_autoincrement=True,
)

run_asset_event = _table(
    "run_asset_event",
    Column("dag_id", NAME, primary_key=True),
    Column("event_id", ForeignKey("asset_event.id"), primary_key=True, index=True),  # the primary key is guarantee 2
    Column("run_id", NAME, nullable=False),
    Column("completed", Boolean, nullable=False, server_default=false()),  # this event completed the condition
    ForeignKeyConstraint(["dag_id", "run_id"], ["run.dag_id", "run.run_id"]),
    Index("ix_run_asset_event_dag_id_run_id", "dag_id", "run_id"),
)

task_instance = _table(
    "task_instance",
    Column("id", UUID, primary_key=True),
    Column("dag_id", NAME, nullable=False),
    Column("run_id", NAME, nullable=False),
    Column("task_id", NAME, nullable=False),
    Column("map_index", Integer, nullable=False, server_default="-1"),
    Column("origin", String(8), nullable=False, server_default="own"),  # own | foreign
    Column("try_number", Integer, nullable=False, server_default="0"),
    Column("state", String(24), nullable=False),
    Column("detail", Text),  # ours, in words: submitting, cancelled, lost…
    Column("not_before", UtcDateTime),  # a retry waits until then
    Column("start_date", UtcDateTime),
    Column("end_date", UtcDateTime),
    UniqueConstraint("dag_id", "run_id", "task_id", "map_index"),
    Index("ix_task_instance_state", "state"),
)

task_try = _table(
    "task_try",
    Column("task_instance_id", ForeignKey("task_instance.id"), primary_key=True),
    Column("try_number", Integer, primary_key=True, autoincrement=False),
    Column("home_id", UUID, nullable=False),  # only this home may submit again or attach
    Column("submitter", NAME, nullable=False, server_default="spark-submit"),  # a registered name or a dotted path
    Column("tag", String(64), nullable=False, unique=True),
    Column("token_hash", String(64), nullable=False),  # SHA-256 hex of the try's first token
    Column("handle", Text),  # the submitter's JSON; null until submitted
    Column("nonce", String(64)),  # set by the one process that claimed the try
    Column("finish_state", String(16)),  # what the job said of itself: success | failed | skipped
    Column("message", Text),
    Column("progress", Text),
    Column("cost", Text),  # JSON of numbers by name, as `store.runs.measures.Cost` has them
    Column("exit_code", Integer),
    Column("counted", Boolean, nullable=False, server_default=true()),  # false: it ended through our own stop
    Column("intent_at", UtcDateTime, nullable=False),
    Column("submitted_at", UtcDateTime),
    Column("claimed_at", UtcDateTime),
    Column("first_action_at", UtcDateTime),  # its first Spark job began, by Spark's own clock
    Column("cancelled_at", UtcDateTime),  # somebody decided what becomes of its run: the process is to be stopped
    Column("ended_at", UtcDateTime),  # the process is known to be gone
    Index("ix_task_try_home_id_ended_at", "home_id", "ended_at"),
)

execution_answer = _table(  # to a job's write with an Idempotency-Key; rows go by age, whatever becomes of the run
    "execution_answer",
    Column("task_instance_id", UUID, primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("request", String(64), nullable=False),  # SHA-256 hex of method, address and body
    Column("status", Integer, nullable=False),
    Column("body", Text),  # JSON; null: no content
    Column("created_at", UtcDateTime, nullable=False, index=True),
)

asset_store_increment = _table(  # the increments of a transaction were applied, by whichever try
    "asset_store_increment",
    Column("task_instance_id", ForeignKey("task_instance.id", ondelete="CASCADE"), primary_key=True),
    Column("asset_id", ForeignKey("asset.id"), primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
)

api_token = _table(
    "api_token",
    Column("id", UUID, primary_key=True),
    Column("subject", NAME, nullable=False),
    Column("role", String(16), nullable=False),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime),
    Column("name", NAME),
    Column("lifetime_seconds", Integer),  # as it was asked for; null: until it is revoked
    Column("expires_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),  # to the minute
)

api_session = _table(
    "api_session",
    Column("id_hash", String(64), primary_key=True),
    Column("token_id", ForeignKey("api_token.id"), nullable=False),  # which ends it when it ends
    Column("expires_at", UtcDateTime, nullable=False),
)

audit = _table(
    "audit",
    Column("id", _big_id, primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False, index=True),
    Column("actor", NAME, nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(2000), nullable=False),
    Column("detail", Text, nullable=False, server_default="{}"),
    Column("write_id", String(64), index=True),
    sqlite_autoincrement=True,
)

setting = _table("setting", Column("key", String(64), primary_key=True), Column("value", Text, nullable=False))
