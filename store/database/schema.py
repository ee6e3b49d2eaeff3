"""The metadata database's tables, declared once for SQLite and PostgreSQL.

A test compares this declaration with what the migrations build. Times are UTC; JSON is kept as text so that key order,
big integers and decimals come back as they were given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.types import TypeDecorator

from store.database import access, asset_events, column_types, tables
from store.database.lifecycle import (
    FEATURE,
    DeletedWith,
    Follows,
    HandedOver,
    Horizon,
    KeptForEver,
    Lifecycle,
    NameRule,
    RemovedBy,
    RowOwner,
    Swept,
)
from store.database.tables import BIG_ID, NAME, PARTITION_KEY, UUID, only_of_tasks, table
from store.keys import ROLES, JobDefinition, Role

# Migrations, which are never edited, and the store's rooms import these from here.
UtcDateTime = column_types.UtcDateTime
database_now = column_types.database_now
database_time_in = column_types.database_time_in
in_utc = column_types.in_utc
seconds_between = column_types.seconds_between
number_in = column_types.number_in
metadata = tables.metadata
api_token = access.api_token
api_session = access.api_session
audit = access.audit
asset_event = asset_events.asset_event


class Definition(TypeDecorator[JobDefinition]):
    """A `JobDefinition` in Python, stored as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: JobDefinition | None, _dialect: Dialect) -> str | None:
        return None if value is None else value.to_json()

    def process_result_value(self, value: str | None, _dialect: Dialect) -> JobDefinition | None:
        return None if value is None else JobDefinition.from_json(value)


UNDO_SUFFIX: Final = "@previous"
"""The suffix of a watcher's name (which holds no @) for the large set of the position before its last rewind."""

_BY_CONFIGURATION: Final = KeptForEver(
    reason="What is no longer configured is marked as not active; others refer to it."
)
_APPLYING: Final = RemovedBy(function="store.catalog.catalog_sync.apply")
_ASSET_ID: Final = {"asset_id": NameRule.BY_ID}
_DAG_ID: Final = {"dag_id": NameRule.ANOTHER_JOB}


def _deleted_with(table: str, *, by_database: bool = False, **columns: str) -> DeletedWith:
    return DeletedWith(table=table, columns=columns, by_database=by_database)


asset = table(
    "asset",
    Lifecycle(owner=RowOwner.ASSET, kept=(_BY_CONFIGURATION,), names={"name": NameRule.IN_PLACE}),
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("name", String(1500), nullable=False, unique=True),
    Column("uri", String(1500), nullable=False, unique=True),
    Column("group", String(1500), nullable=False, server_default=text("''")),
    Column("extra", Text, nullable=False, server_default="{}"),
    Column("origin", String(8), nullable=False),  # yaml | alias | api
    Column("active", Boolean, nullable=False, server_default=true()),
    Column("expect_every_seconds", Integer),
    Column("expect_by", Text),  # JSON: a `ClockDeadline` by which an event must have come
    Column("partition_parts", Text),  # the names of the parts of its events' partition keys, as JSON; null: none
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    sqlite_autoincrement=True,
)

asset_alias = table(
    "asset_alias",
    Lifecycle(owner=RowOwner.ALIAS, kept=(_BY_CONFIGURATION,)),
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("name", NAME, nullable=False, unique=True),
    Column("group", String(1500), nullable=False, server_default=text("''")),
    Column("active", Boolean, nullable=False, server_default=true()),  # false: no longer configured
    sqlite_autoincrement=True,
)

asset_alias_asset = table(  # the assets that got an event through the alias
    "asset_alias_asset",
    Lifecycle(
        owner=RowOwner.ALIAS,
        kept=(KeptForEver(reason="An alias that is configured again still has its associations."),),
        names=_ASSET_ID,
    ),
    Column("alias_id", ForeignKey("asset_alias.id"), primary_key=True),
    Column("asset_id", ForeignKey("asset.id", ondelete="CASCADE"), primary_key=True, index=True),
)

watcher = table(
    "watcher",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(_BY_CONFIGURATION,),
        names={
            **_ASSET_ID,
            "name": HandedOver(
                columns=("paused",),
                stays=(
                    "asset_id",
                    "trigger",
                    "active",
                    "state",
                    "error",
                    "error_count",
                    "last_poll_at",
                    "last_event_at",
                    "lag_seconds",
                    "up_to",
                    "up_to_version",
                    "definition",
                    "findings",
                    "polls",
                    "failing_since",
                    "next_try_at",
                ),
            ),
        },
    ),
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
    Column("up_to", Text),  # JSON: the `up_to` of the watermark in version `up_to_version`, as the clock has moved it
    Column("up_to_version", BigInteger),
    Column("definition", String(64)),  # the hash that its host must know it by; null: applied by an older program
    Column("findings", Text),  # JSON: what its host found that a person should check; null: nothing
    Column("polls", Text),  # JSON: its last polls that found something, or failed
    Column("failing_since", UtcDateTime),  # null: it works, or a person has paused or resumed it since
    Column("next_try_at", UtcDateTime),  # when its host retries after a failure
)

watcher_state = table(  # the changes of the watchers' states, as `store.catalog.watcher_states` records them
    "watcher_state",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(Swept(sweep="states of watchers", horizon=Horizon.NIGHTS),),
        names={"watcher": Follows()},
    ),
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
    Column("watcher", NAME, nullable=False),
    Column("at", UtcDateTime, nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("sentence", Text),  # what was wrong, as the watcher showed it
    Index("ix_watcher_state_watcher_id", "watcher", "id"),
    sqlite_autoincrement=True,
)

watcher_asset = table(  # the assets besides its own that a watcher has events of
    "watcher_asset",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(_BY_CONFIGURATION,),
        names={**_ASSET_ID, "watcher": NameRule.AS_WRITTEN},
    ),
    Column("watcher", ForeignKey("watcher.name"), primary_key=True),
    Column("asset_id", ForeignKey("asset.id"), primary_key=True, index=True),
    Column("active", Boolean, nullable=False, server_default=true()),  # false: earlier events may be of it
)

watcher_position = table(
    "watcher_position",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(KeptForEver(reason="A version never goes back under any name: event ids are made from it."),),
        names={
            "watcher": HandedOver(
                columns=("source_identity", "format", "state", "watermark", "previous", "undo_ended", "updated_at"),
                stays=("owner", "epoch", "version"),
            )
        },
    ),
    Column("watcher", NAME, primary_key=True),
    Column("source_identity", Text),  # JSON; null until the first commit
    Column("owner", UUID),  # triggerer.id
    Column("epoch", BigInteger, nullable=False, server_default="0"),  # +1 at every take-over
    Column("version", BigInteger, nullable=False, server_default="0"),  # +1 at every commit and rewind; never back
    Column("watermark", Text),
    Column(
        "format", Integer, nullable=False, server_default="1"
    ),  # the format of `state`, as its trigger's class counts them
    Column("state", Text),  # JSON object; null until the first commit
    Column("previous", Text),  # JSON: the position before a rewind, while that can be undone
    Column("undo_ended", Text),  # why it cannot be undone any more
    Column("updated_at", UtcDateTime),
)

watcher_position_row = table(
    "watcher_position_row",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(
            RemovedBy(function="store.detection.position_rows.change_rows"),
            Swept(sweep="rows of past rewinds", horizon=Horizon.UNDO_ENDED),
        ),
        names={"watcher": Follows(suffixes=("", UNDO_SUFFIX))},
    ),
    Column("watcher", NAME, primary_key=True),
    Column("member", BigInteger, primary_key=True),
    Column("value", BigInteger, nullable=False),
    Index("ix_watcher_position_row_watcher_value", "watcher", "value"),
)

watcher_position_chunk = table(  # what was reported last, by which a watcher notices that its source went back
    "watcher_position_chunk",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(RemovedBy(function="store.detection.position_chunks.change"),),
        names={"watcher": Follows()},
    ),
    Column("watcher", NAME, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("data", LargeBinary, nullable=False),  # packed by the watcher's trigger
)

rejected_item = table(  # what cannot be reported, written in the transaction of the position that passes it
    "rejected_item",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(RemovedBy(function="store.detection.rejections.change"),),
        names={"watcher": Follows()},
    ),
    Column("watcher", NAME, primary_key=True),
    Column("digest", String(64), primary_key=True),  # SHA-256 hex of key and version
    Column("key", Text, nullable=False),  # JSON, as in the event's `rejected`
    Column("version", Text, nullable=False),  # distinguishes contents of one key; empty if there is one
    Column("column_name", Text),  # the column that fails; null if several do
    Column("code", String(16), nullable=False),  # SQLSTATE; empty if PostgreSQL did not refuse it
    Column("reason", Text, nullable=False),
    Column("rejected_at", UtcDateTime, nullable=False),
    Column("retry_at", UtcDateTime),  # when somebody asked for a retry
)

triggerer = table(
    "triggerer",
    Lifecycle(
        owner=RowOwner.PROCESS,
        kept=(
            RemovedBy(function="store.processes.triggerers.leave"),
            RemovedBy(function="store.processes.triggerers.forget_dead"),
        ),
    ),
    Column("id", UUID, primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("capacity", Integer, nullable=False, server_default="10000"),  # the most watchers that it hosts
    Column("configuration", String(64)),  # the hash of the configuration that it runs
    Column("definitions", Text),  # JSON: by watcher, the hash by which it knows it
    Column("started_at", UtcDateTime, nullable=False),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)

dispatcher = table(
    "dispatcher",
    Lifecycle(
        owner=RowOwner.PROCESS, kept=(KeptForEver(reason="A home that comes back finds its tries again by its id."),)
    ),
    Column("home_id", UUID, primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("configuration", String(64)),  # the hash of the configuration that it runs
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
)

leader = table(  # one row: the process that schedules and starts runs
    "leader",
    Lifecycle(owner=RowOwner.INSTALLATION, kept=(KeptForEver(reason="It has one row, whose epoch never goes back."),)),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("owner", UUID, nullable=False),
    Column("epoch", BigInteger, nullable=False),  # +1 at every take-over
    Column("expires_at", UtcDateTime, nullable=False),
    Column("start_reasons", Text),  # JSON: why the leader's last look started no further run; null: it started all
)

asset_store = table(
    "asset_store",
    Lifecycle(
        owner=RowOwner.ASSET,
        kept=(Swept(sweep="orphaned asset entries", horizon=Horizon.ORPHAN),),
        names={
            **_ASSET_ID,
            "last_updated_by_dag_id": NameRule.AS_WRITTEN,
            "last_updated_by_watcher": NameRule.AS_WRITTEN,
        },
    ),
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

asset_store_history = table(
    "asset_store_history",
    Lifecycle(
        owner=RowOwner.ASSET,
        kept=(Swept(sweep="history", horizon=Horizon.HISTORY),),
        names={**_ASSET_ID, "dag_id": NameRule.AS_WRITTEN, "watcher": NameRule.AS_WRITTEN},
    ),
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
    only_of_tasks("dag_id", "run_id", table="asset_store_history"),
)

task_store = table(
    "task_store",
    Lifecycle(
        owner=RowOwner.RUN,
        kept=(
            Swept(sweep="expired task entries", horizon=Horizon.OWN_EXPIRY),
            Swept(sweep="task entries past the default", horizon=Horizon.TASK_ENTRY),
        ),
        names=_DAG_ID,
    ),
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

asset_interest = table(  # the features that take part in the transactions of an asset's events
    "asset_interest",
    Lifecycle(owner=RowOwner.ASSET, kept=(_APPLYING,), names=_ASSET_ID),
    Column("asset_id", ForeignKey("asset.id"), primary_key=True, autoincrement=False),
    Column("feature", String(64), primary_key=True),
)

asset_alias_event = table(  # the events that came through the alias
    "asset_alias_event",
    Lifecycle(owner=RowOwner.ALIAS, kept=(_deleted_with("asset_event", event_id="id", by_database=True),)),
    Column("alias_id", ForeignKey("asset_alias.id"), primary_key=True),
    Column("event_id", ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True, index=True),
)

job = table(
    "job",
    Lifecycle(owner=RowOwner.JOB, kept=(_BY_CONFIGURATION,), names=_DAG_ID),
    Column("dag_id", NAME, primary_key=True),
    Column("task_id", NAME, nullable=False),
    Column("active", Boolean, nullable=False, server_default=true()),
    Column("paused", Boolean, nullable=False, server_default=false()),
    Column("definition", Definition, nullable=False),
    Column("cron", String(1000)),  # as configured, with its time zone; null: events only
    Column("joint", Boolean, nullable=False, server_default=false()),  # a run needs a due tick and the events
    Column("clock", String(1000)),  # the cron by which `next_tick` was computed
    Column("next_tick", UtcDateTime),  # the first tick that no run was made for
    Column("rest_to", BigInteger),  # queued events up to this one are decided: their runs follow at once
    Column("rest_completed_by", BigInteger),  # the event that completed the condition; null: a tick alone decided
    Column("partitioned", Boolean, nullable=False, server_default=false()),  # runs of one partition key never overlap
    Column(
        "unrecorded_to", BigInteger, nullable=False, server_default="0"
    ),  # what became of older events may be unrecorded
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

open_step = table(  # a feature has something to do for a job before runs are made of its queue
    "open_step",
    Lifecycle(
        owner=RowOwner.JOB, kept=(RemovedBy(function="store.catalog.open_steps.close"), _APPLYING), names=_DAG_ID
    ),
    Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
    Column("feature", String(64), primary_key=True),
    Column("while_paused", Boolean, nullable=False),  # a person asked for it: it goes on while the job is paused
)


def _filtered(role: Role) -> Iterator[Column[bool]]:
    """Yield the column by which an event's transaction knows that it has to decide whether the job gets the event."""
    if role == "schedule":
        yield Column("filtered", Boolean, nullable=False, server_default=false())  # the job's schedule has a `where`


ASSET_EDGES: Final[Mapping[Role, Table]] = {
    role: table(
        name,
        Lifecycle(owner=RowOwner.JOB, kept=(_APPLYING,), names={**_DAG_ID, **_ASSET_ID}),
        Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
        Column("asset_id", ForeignKey("asset.id"), primary_key=True, index=True),
        *_filtered(role),
    )
    for role, name in zip(ROLES, ("job_schedule_asset", "job_inlet", "job_outlet"), strict=True)
}
job_schedule_asset, job_inlet, job_outlet = ASSET_EDGES.values()

ALIAS_EDGES: Final[Mapping[Role, Table]] = {
    role: table(
        name,
        Lifecycle(owner=RowOwner.JOB, kept=(_APPLYING,), names=_DAG_ID),
        Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
        Column("alias_id", ForeignKey("asset_alias.id"), primary_key=True, index=True),
        *_filtered(role),
    )
    for role, name in zip(ROLES, ("job_schedule_alias", "job_inlet_alias", "job_outlet_alias"), strict=True)
}
job_schedule_alias, job_inlet_alias, job_outlet_alias = ALIAS_EDGES.values()

_HAS_PARTITION_KEY: Final = text("partition_key IS NOT NULL")
queued_event = table(
    "queued_event",
    Lifecycle(
        owner=RowOwner.JOB,
        kept=(
            RemovedBy(function="store.runs.runs.create_triggered_runs"),
            RemovedBy(function="store.runs.queue.queues.remove"),
            RemovedBy(function="store.detection.filters.decide"),
            _APPLYING,
        ),
        names={**_DAG_ID, **_ASSET_ID},
    ),
    Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
    Column("event_id", ForeignKey("asset_event.id"), primary_key=True, index=True),
    Column("asset_id", ForeignKey("asset.id"), nullable=False, index=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("partition_key", PARTITION_KEY),  # the event's
    Column("satisfies", String(2000), nullable=False, server_default=text("''")),  # see `store.references`
    Index("ix_queued_event_first", "dag_id", "asset_id", "satisfies", "event_id"),  # for the probes of a poll
    Index(  # what is queued of one partition, whatever else is
        "ix_queued_event_partition_key",
        "dag_id",
        "partition_key",
        "event_id",
        postgresql_where=_HAS_PARTITION_KEY,
        sqlite_where=_HAS_PARTITION_KEY,
    ),
)

dropped_event = (
    table(  # an event that a job shall not get by itself: taken off its queue, or consumed by a run that is gone
        "dropped_event",
        Lifecycle(
            owner=RowOwner.JOB,
            kept=(
                _deleted_with("asset_event", event_id="id", by_database=True),
                RemovedBy(function="store.runs.actions.decisions.admit_again"),
            ),
            names=_DAG_ID,
        ),
        Column("dag_id", ForeignKey("job.dag_id"), primary_key=True),
        Column("event_id", ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True, index=True),
        Column("reason", String(32), nullable=False),  # as in `store.catalog.dropped_events`
        Column("actor", NAME),  # who took it off the queue; null: nobody did
        Column("dropped_at", UtcDateTime, nullable=False),
        Column(
            "outcome", String(16)
        ),  # dropped, or what its run made of it: loaded | failed; null: nobody knows any more
        Column("run_id", NAME),  # the run that is gone
        Column("ended_at", UtcDateTime),  # when that run ended
        Column(
            "left_out", Text
        ),  # JSON: the fates of the items that this run's last try did not get, by number; or why it was skipped
    )
)

IS_OPEN: Final = text("ended_at IS NULL")
IS_LEFT: Final = text("forget_at IS NOT NULL")
HAS_UNRESOLVED_RECORDS: Final = text("bad_records > 0 AND bad_records_resolved_at IS NULL")

run = table(
    "run",
    Lifecycle(owner=RowOwner.RUN, kept=(Swept(sweep="runs", horizon=Horizon.RUN),), names=_DAG_ID),
    Column("id", BIG_ID, primary_key=True, autoincrement=True),
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
    Column("end_date", UtcDateTime, index=True),  # null: not over
    Column("bad_records", BigInteger),  # of the last success; null: no success of this run has reported any
    Column("bad_records_resolved_at", UtcDateTime),
    Column("partition_key", PARTITION_KEY),  # the one that all its events have, or as it was requested
    Column("of_feature", Text),  # JSON: what the planner that made it says of it; null: nothing
    Column(
        "changed_items", Text
    ),  # JSON: how many items were changed at the start of its last try, by fate; a list: without which it was cleared; null: none
    UniqueConstraint("dag_id", "run_id"),
    Index("ix_run_state_dag_id_id", "state", "dag_id", "id"),
    Index("ix_run_trace_id", "trace_id"),
    Index(
        "ix_run_bad_records",
        "bad_records",
        postgresql_where=HAS_UNRESOLVED_RECORDS,
        sqlite_where=HAS_UNRESOLVED_RECORDS,
    ),
    sqlite_autoincrement=True,
)

run_asset_event = table(
    "run_asset_event",
    Lifecycle(
        owner=RowOwner.RUN,
        kept=(
            _deleted_with("run", dag_id="dag_id", run_id="run_id"),
            Swept(sweep="events of deleted runs", horizon=Horizon.EVENT),
        ),
        names=_DAG_ID,
    ),
    Column("dag_id", NAME, primary_key=True),
    Column("event_id", ForeignKey("asset_event.id"), primary_key=True, index=True),  # the primary key is guarantee 2
    Column("run_id", NAME, nullable=False),
    Column("completed", Boolean, nullable=False, server_default=false()),  # this event completed the condition
    ForeignKeyConstraint(["dag_id", "run_id"], ["run.dag_id", "run.run_id"]),
    Index("ix_run_asset_event_dag_id_run_id", "dag_id", "run_id"),
)

task_instance = table(
    "task_instance",
    Lifecycle(
        owner=RowOwner.RUN,
        kept=(
            _deleted_with("run", dag_id="dag_id", run_id="run_id"),
            Swept(sweep="foreign tasks", horizon=Horizon.RUN),
        ),
        names=_DAG_ID,
    ),
    Column("id", UUID, primary_key=True),
    Column("dag_id", NAME, nullable=False),
    Column("run_id", NAME, nullable=False),
    Column("task_id", NAME, nullable=False),
    Column("map_index", Integer, nullable=False, server_default="-1"),
    Column("origin", String(8), nullable=False, server_default="own"),  # own | foreign
    Column("try_number", Integer, nullable=False, server_default="0"),
    Column("state", String(24), nullable=False),
    Column("detail", Text),  # our detail in words: submitting, cancelled, lost…
    Column("not_before", UtcDateTime),  # a retry waits until then
    Column("start_date", UtcDateTime),
    Column("end_date", UtcDateTime),
    UniqueConstraint("dag_id", "run_id", "task_id", "map_index"),
    Index("ix_task_instance_state", "state"),
)

task_try = table(
    "task_try",
    Lifecycle(owner=RowOwner.RUN, kept=(_deleted_with("task_instance", task_instance_id="id"),)),
    Column("task_instance_id", ForeignKey("task_instance.id"), primary_key=True),
    Column("try_number", Integer, primary_key=True, autoincrement=False),
    Column("home_id", UUID, nullable=False),  # only this home may submit again or attach
    Column("submitter", NAME, nullable=False, server_default="spark-submit"),  # a registered name or a dotted path
    Column("tag", String(64), nullable=False, unique=True),
    Column("token_hash", String(64), nullable=False),  # SHA-256 hex of the try's first token
    Column("handle", Text),  # the submitter's JSON; null until submitted
    Column("nonce", String(64)),  # set by the one process that claimed the try
    Column("finish_state", String(16)),  # what the job reported: success | failed | skipped | superseding
    Column("message", Text),
    Column("progress", Text),
    Column("cost", Text),  # JSON of numbers by name, as `store.runs.measures.Cost` has them
    Column("exit_code", Integer),
    Column("counted", Boolean, nullable=False, server_default=true()),  # false: it used up no retry
    Column("is_final", Boolean, nullable=False, server_default=false()),  # it failed, and another try would fail alike
    Column("intent_at", UtcDateTime, nullable=False),
    Column("submitted_at", UtcDateTime),
    Column("claimed_at", UtcDateTime),
    Column("first_action_at", UtcDateTime),  # its first Spark job began, by Spark's own clock
    Column("cancelled_at", UtcDateTime),  # somebody decided the outcome of its run: the process must be stopped
    Column("ended_at", UtcDateTime),  # the process is known to be gone
    Column("renewed_at", UtcDateTime),  # its driver's wrapper last renewed its right to run
    Column("lease_holder", String(64)),  # the one container that was granted this right
    Column(
        "changed_items", Text
    ),  # JSON: its items that are not as their events say, as `ChangedItems` has them; null: none
    Column("missing", Text),  # JSON: the names of files that it did not find, if it ended `superseding`
    Column("forget_at", UtcDateTime),  # when its submitter removes what is left of it; null: nothing is left
    Index("ix_task_try_home_id_ended_at", "home_id", "ended_at"),
    Index("ix_task_try_open", "task_instance_id", postgresql_where=IS_OPEN, sqlite_where=IS_OPEN),
    Index("ix_task_try_forget_at", "forget_at", postgresql_where=IS_LEFT, sqlite_where=IS_LEFT),
)

execution_answer = (
    table(  # responses to jobs' writes with an Idempotency-Key; rows are removed by age, whatever becomes of the run
        "execution_answer",
        Lifecycle(owner=RowOwner.RUN, kept=(Swept(sweep="kept answers", horizon=Horizon.REQUEST_REPEATED),)),
        Column("task_instance_id", UUID, primary_key=True),
        Column("key", String(255), primary_key=True),
        Column("request", String(64), nullable=False),  # SHA-256 hex of method, address and body
        Column("status", Integer, nullable=False),
        Column("body", Text),  # JSON; null: no content
        Column("created_at", UtcDateTime, nullable=False, index=True),
    )
)

asset_store_increment = table(  # the increments of a transaction were applied, by any try
    "asset_store_increment",
    Lifecycle(
        owner=RowOwner.RUN,
        kept=(_deleted_with("task_instance", task_instance_id="id", by_database=True),),
        names=_ASSET_ID,
    ),
    Column("task_instance_id", ForeignKey("task_instance.id", ondelete="CASCADE"), primary_key=True),
    Column("asset_id", ForeignKey("asset.id"), primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
)

feature_schema = table(  # the versions of the tables that features from elsewhere have made
    "feature_schema",
    Lifecycle(
        owner=RowOwner.INSTALLATION,
        kept=(KeptForEver(reason="The tables of a feature that is not installed any more are left alone."),),
    ),
    Column("feature", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
)

setting = table(
    "setting",
    Lifecycle(owner=RowOwner.INSTALLATION, kept=(KeptForEver(reason="It has one row a setting."),)),
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)


def kernel_tables() -> Sequence[Table]:
    """Return the tables without those of features, in the order of their declaration."""
    return [each for each in metadata.tables.values() if each.info[FEATURE] is None]
