"""The migrations build exactly the declared schema, once, however many begin at the same time."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Text, bindparam, inspect, text

from store.database import Database, migrations, sqlite_url
from store.database.lifecycle import FEATURE
from store.database.schema import UtcDateTime, metadata
from store.detection import positions
from store.errors import SchemaOutdated
from store.processes import triggerers
from store.processes.triggerers import ProcessInfo
from store.runs import runs
from store.runs.tries import try_lookup
from tests.databases import BOTH
from tests.features import TABLES
from watcher.features import BUILT_IN

FIRST_SCHEMA = "4bf60a1816d0bc4566d85a4d87566ca97fb3c316a9c22f9297c0f37c712a419a"
"""SHA-256 of migration 0001, which databases were made with."""


@pytest.fixture(params=BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(sqlite_url(tmp_path / "new.db"))
    else:
        yield request.getfixturevalue("postgres_database").sqlalchemy_url


@pytest.fixture
async def empty(empty_url: str) -> AsyncIterator[Database]:
    async with Database.open(empty_url) as database:
        yield database


OF_FEATURES = {
    "alert": "alerts",
    "asset_forward": "outbox",
    "catchup": "catchup",
    "cleaned_watcher": "clean_source",
    "cleaning": "clean_source",
    "listen_position": "airflow",
    "listen_seen": "airflow",
    "outbox": "outbox",
    "partition_event": "partitions",
    "partition_group": "partitions",
    "removed_file": "clean_source",
    "replay": "replay",
}
"""The features of the tables that are not the kernel's: the tables are there, also where their feature is taken out."""
LEFT = {name for name, feature in OF_FEATURES.items() if feature not in BUILT_IN}


async def test_the_migrated_schema_is_the_declared_one(database: Database) -> None:
    """The tables of features that are taken out are left."""

    def differences(connection: Connection) -> list[object]:
        options = {"compare_type": True, "compare_server_default": True, "target_metadata": metadata}
        context = MigrationContext.configure(connection, opts=options)
        return [each for each in compare_metadata(context, metadata) if _table_of(each) not in LEFT]

    async with database.transaction() as session:
        assert await session.run_sync(differences) == []
    declared = {each.name: each.info[FEATURE] for each in TABLES if each.info[FEATURE] is not None}
    assert declared == {name: feature for name, feature in OF_FEATURES.items() if feature in BUILT_IN}


def _table_of(difference: Any) -> str | None:
    """Return the table that is in the database and not declared, or whose index that is."""
    match difference:
        case ("remove_table", table):
            return str(table.name)
        case ("remove_index", index):
            return str(index.table.name)
    return None


async def test_postgresql_vacuums_events_often_so_that_searches_read_only_their_index(database: Database) -> None:
    if database.dialect == "sqlite":
        return  # its searches look into the index without asking what VACUUM has seen
    async with database.reading() as session:
        options = await session.scalar(text("SELECT reloptions FROM pg_class WHERE oid = 'asset_event'::regclass"))
    assert options == ["autovacuum_vacuum_scale_factor=0.02", "autovacuum_vacuum_insert_scale_factor=0.02"]


async def test_a_difference_would_be_noticed(empty: Database) -> None:
    """The comparison works: a missing table, column type, default and index are each found."""
    await migrations.upgrade(empty)

    def differences(connection: Connection) -> set[str]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        found = compare_metadata(context, metadata)
        declared = [entry for entry in found if _table_of(entry) not in LEFT]
        return {str(entry[0] if isinstance(entry, tuple) else entry[0][0]) for entry in declared}

    changes = ["DROP INDEX ix_audit_at", "DROP TABLE setting", "ALTER TABLE audit ADD COLUMN more TEXT"]
    if empty.dialect == "postgresql":
        changes += [
            "ALTER TABLE job ALTER COLUMN paused SET DEFAULT true",
            "ALTER TABLE job ALTER COLUMN task_id TYPE text",
            "ALTER TABLE job ALTER COLUMN definition DROP NOT NULL",
        ]
    async with empty.transaction() as session:
        for change in changes:
            await session.execute(text(change))
        found = await session.run_sync(differences)
    expected = {"add_index", "add_table", "remove_column"}
    assert found == expected | (
        {"modify_default", "modify_type", "modify_nullable"} if empty.dialect == "postgresql" else set()
    )


def test_the_names_of_the_files_are_alembics_revisions_in_their_order() -> None:
    scripts = ScriptDirectory.from_config(migrations.config())
    assert [script.revision for script in scripts.walk_revisions()] == [*reversed(migrations.REVISIONS)]


def test_only_who_migrates_loads_alembic() -> None:
    program = "import sys, watcher.app; sys.exit('alembic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_upgrading_twice_is_upgrading_once(empty: Database) -> None:
    await migrations.upgrade(empty)
    async with empty.transaction() as session:
        await session.execute(text("INSERT INTO setting (key, value) VALUES ('kept', '1')"))
    await migrations.upgrade(empty)
    await migrations.check(empty)
    async with empty.reading() as session:
        assert (await session.execute(text("SELECT value FROM setting"))).scalar_one() == "1"


async def test_processes_may_upgrade_at_the_same_time(empty_url: str) -> None:
    async def upgrade() -> None:
        async with Database.open(empty_url) as database:
            await migrations.upgrade(database)
            await migrations.check(database)

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(upgrade)


async def test_a_failed_upgrade_leaves_nothing(empty: Database) -> None:
    async with empty.transaction() as session:
        await session.execute(text("CREATE TABLE watcher (name TEXT)"))
    with pytest.raises(Exception, match="already exists"):
        await migrations.upgrade(empty)
    async with empty.reading() as session:
        tables = await session.run_sync(lambda connection: inspect(connection).get_table_names())
    assert tables == ["watcher"]


async def test_downgrading_leaves_an_empty_database(empty: Database) -> None:
    await migrations.upgrade(empty)
    async with empty.transaction() as session:
        connection = session
        await connection.run_sync(lambda sync: command.downgrade(migrations.config(sync), "base"))
        tables = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    assert tables == ["alembic_version"]


@pytest.mark.parametrize("revision", [None, "0000", "9999"])
async def test_another_revision_is_refused_with_the_command_to_run(empty: Database, revision: str | None) -> None:
    if revision is not None:
        await migrations.upgrade(empty)
        async with empty.transaction() as session:
            await session.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    shown = revision or "none"
    with pytest.raises(
        SchemaOutdated, match=rf"is at revision {shown}, this program needs \d+; run `watcher db upgrade`"
    ):
        await migrations.check(empty)


async def upgrade_to(database: Database, revision: str) -> None:
    async with database.transaction() as connection:
        await connection.run_sync(lambda sync: command.upgrade(migrations.config(sync), revision))


OF_THE_FIRST_SCHEMA = (
    "INSERT INTO job (dag_id, task_id, definition, created_at, updated_at) VALUES ('load', 'load', '{}', :now, :now)",
    (
        "INSERT INTO run (dag_id, run_id, run_type, triggered_by, state, trace_id, run_after, queued_at)"
        " VALUES ('load', 'r1', 'manual', 'cli', 'running', 't', :now, :now)"
    ),
    (
        "INSERT INTO task_instance (id, dag_id, run_id, task_id, try_number, state)"
        " VALUES ('6f3a0c5e-7c0a-4f0e-9a51-6d8a1f7c2b10', 'load', 'r1', 'load', 1, 'running')"
    ),
    (
        "INSERT INTO task_try (task_instance_id, try_number, home_id, tag, token_hash, handle, intent_at)"
        " VALUES ('6f3a0c5e-7c0a-4f0e-9a51-6d8a1f7c2b10', 1, 'home', 'run-1', 'h', :handle, :now)"
    ),
)


async def fill(database: Database, statements: Sequence[str], handle: str) -> None:
    values = {"now": datetime(2026, 11, 20, tzinfo=UTC), "handle": handle}
    async with database.transaction() as connection:
        for words in statements:
            statement = text(words)
            for name in statement._bindparams:
                typed = bindparam(name, type_=UtcDateTime() if name == "now" else Text())
                statement = statement.bindparams(typed)
            await connection.execute(statement, values)


async def test_a_try_that_was_open_under_the_first_schema_was_started_by_spark_submit(empty: Database) -> None:
    await upgrade_to(empty, "0001")
    await fill(empty, OF_THE_FIRST_SCHEMA, '{"folder": "f"}')
    await migrations.upgrade(empty)
    await migrations.check(empty)
    async with empty.reading() as connection:
        [open_try] = await try_lookup.open_tries(connection, "home")
        made = await runs.get(connection, "load", "r1")
    assert (open_try.submitter, open_try.handle, open_try.is_final) == ("spark-submit", '{"folder": "f"}', False)
    assert (made.bad_records, made.bad_records_resolved_at) == (None, None)
    assert open_try.key.bindings == {
        "dag_id": "load",
        "run_id": "r1",
        "task_id": "load",
        "map_index": -1,
        "try_number": 1,
    }


BEFORE_SEVERAL_TRIGGERERS = (
    "INSERT INTO triggerer (id, host, pid, started_at, heartbeat_at, expires_at) VALUES ('t1', 'h', 1, :now, :now, :now)",
    (
        "INSERT INTO watcher_position (watcher, source_identity, owner, epoch, version, watermark, state, updated_at)"
        " VALUES ('files', '{}', 't1', 3, 7, '{}', :handle, :now)"
    ),
)


@pytest.mark.parametrize("revision", ["0001", "0002"])
async def test_a_position_of_an_older_schema_is_claimed_with_its_state_as_it_is(empty: Database, revision: str) -> None:
    await upgrade_to(empty, revision)
    await fill(empty, BEFORE_SEVERAL_TRIGGERERS, '{"seen":  1}')
    await migrations.upgrade(empty)
    async with empty.statements() as connection:
        await triggerers.beat(connection, ProcessInfo(id="t2", host="h", pid=2), timedelta(hours=1), empty.dialect)
        claimed = await positions.claim(connection, "files", "t2", empty.dialect)
    assert claimed is not None
    assert (claimed.held.epoch, claimed.held.version, claimed.state) == (4, 7, '{"seen":  1}')
    async with empty.reading() as connection:
        capacities = (await connection.execute(text("SELECT id, capacity FROM triggerer ORDER BY id"))).all()
    assert [tuple(row) for row in capacities] == [("t1", 10_000), ("t2", 10_000)]


BEFORE_0041 = migrations.REVISIONS[migrations.REVISIONS.index("0041") - 1]
BEFORE_STEPS = (
    (
        "INSERT INTO job (dag_id, task_id, definition, replay_id, created_at, updated_at)"
        " VALUES ('again', 'load', '{}', 1, :now, :now)"
    ),
    (
        "INSERT INTO job (dag_id, task_id, definition, catchup_at, catchup_to, catchup_assets, created_at, updated_at)"
        " VALUES ('new', 'load', '{}', 4, 9, '[1, 2]', :now, :now), ('done', 'load', '{}', NULL, NULL, NULL, :now, :now)"
    ),
    (
        "INSERT INTO replay (dag_id, from_at, to_at, include_dropped, expected_count, last_event, last_run, actor, created_at)"
        " VALUES ('again', :now, :now, false, 3, 9, 2, 'a person', :now)"
    ),
    "INSERT INTO run"
    " (dag_id, run_id, run_type, triggered_by, state, trace_id, run_after, queued_at, partition_complete, late)"
    " VALUES "
    + ", ".join(
        f"('done', '{complete}/{late}', 'manual', 'cli', 'success', 't', :now, :now, {complete}, {late})"
        for complete in ("NULL", "true", "false")
        for late in ("true", "false")
    ),
)


async def test_what_steps_and_planners_had_as_columns_is_moved_there_and_back(empty: Database) -> None:
    await upgrade_to(empty, BEFORE_0041)
    await fill(empty, BEFORE_STEPS, "")
    columns = "catchup_at, catchup_to, catchup_assets, replay_id FROM job ORDER BY dag_id"
    of_runs = "run_id, partition_complete, late FROM run ORDER BY run_id"

    async def rows(what: str) -> list[tuple[Any, ...]]:
        async with empty.reading() as connection:
            return [tuple(row) for row in await connection.execute(text(f"SELECT {what}"))]

    before = [await rows(columns), await rows(of_runs)]
    await upgrade_to(empty, "0041")
    assert await rows("dag_id, feature, while_paused FROM open_step ORDER BY dag_id") == [
        ("again", "replay", True),
        ("new", "catchup", False),
    ]
    assert await rows("* FROM catchup") == [("new", 4, 9, "[1, 2]")]
    said = {name: said and json.loads(said) for name, said in await rows("run_id, of_feature FROM run")}
    assert said == {
        "NULL/true": {"late": True},
        "NULL/false": None,
        "true/true": {"partition_complete": True, "late": True},
        "true/false": {"partition_complete": True},
        "false/true": {"partition_complete": False, "late": True},
        "false/false": {"partition_complete": False},
    }
    async with empty.transaction() as connection:
        await connection.run_sync(lambda sync: command.downgrade(migrations.config(sync), BEFORE_0041))
    assert [await rows(columns), await rows(of_runs)] == before


BEFORE_FEATURES = (
    *(
        "INSERT INTO asset (id, name, uri, origin, created_at, updated_at)"
        f" VALUES ({number}, 'a{number}', 'x://a{number}', 'yaml', :now, :now)"
        for number in (1, 2, 3)
    ),
    "INSERT INTO asset_forward (asset_id, target) VALUES (1, 'theirs')",
    "INSERT INTO watcher (name, asset_id, trigger) VALUES ('files', 2, 't'), ('rows', 3, 't')",
    "INSERT INTO watcher_asset (watcher, asset_id) VALUES ('files', 1), ('rows', 2)",
    "INSERT INTO asset_event (id, asset_id, timestamp, trace_id, source_watcher) VALUES (1, 2, :now, 't', 'files')",
    "INSERT INTO cleaning (event_id, watcher, owed, state) VALUES (1, 'files', '[]', 'waiting')",
)


async def test_features_stay_interested_in_the_assets_that_an_older_schema_has_them_for(empty: Database) -> None:
    """A process that may not apply its configuration yet hosts watchers: their events are forwarded and recorded."""
    await upgrade_to(empty, "0038")
    await fill(empty, BEFORE_FEATURES, "")
    await migrations.upgrade(empty)
    async with empty.reading() as connection:
        interest = (await connection.execute(text("SELECT asset_id, feature FROM asset_interest"))).all()
        cleaned = (await connection.execute(text("SELECT watcher, after_seconds FROM cleaned_watcher"))).all()
    assert sorted(map(tuple, interest)) == [(1, "airflow"), (1, "clean_source"), (2, "clean_source")]
    assert [*map(tuple, cleaned)] == [("files", 0)]


REMOVED_BEFORE = (
    "INSERT INTO asset (id, name, uri, origin, created_at, updated_at) VALUES (1, 'a', 'x://a', 'yaml', :now, :now)",
    *(
        "INSERT INTO asset_event (id, asset_id, timestamp, trace_id, source_watcher, extra)"
        f""" VALUES ({event_id}, 1, :now, 't', 'files', '{{"files": [1, 2, 3]}}')"""
        for event_id in (1, 2, 3, 4)
    ),
    *(
        f"INSERT INTO cleaning (event_id, watcher, owed, removed, state, next_file, files, staying, working) VALUES ({row})"
        for row in (
            "1, 'files', '[]', 3, 'done', 3, NULL, '{}', NULL",
            """2, 'files', '[]', 1, 'staying', 0, '[0, 2]', '{"0": "exists", "2": "denied"}', NULL""",
            "3, 'files', '[]', 2, 'done', 3, NULL, '{}', NULL",  # of one it is not known whether a person removed it
            """4, 'files', '[]', 0, 'waiting', 0, NULL, '{}', '{"place": "", "files": {"1": []}, "outcomes": {}}'""",
        )
    ),
)


async def test_files_that_an_older_release_has_removed_are_recorded_where_it_is_certain_which_they_are(
    empty: Database,
) -> None:
    await upgrade_to(empty, "0041")
    await fill(empty, REMOVED_BEFORE, "")
    await migrations.upgrade(empty)
    async with empty.reading() as connection:
        rows = (await connection.execute(text("SELECT event_id, number, place, in_hand FROM removed_file"))).all()
    assert sorted((row.event_id, row.number, row.place, bool(row.in_hand)) for row in rows) == [
        *((1, number, "{}", False) for number in range(3)),
        (2, 1, "{}", False),
        (4, 1, None, True),
    ]


def test_the_first_schema_stays_what_databases_were_made_with() -> None:
    content = (Path(migrations.__file__).parent / "versions" / "0001_first_schema.py").read_bytes()
    assert hashlib.sha256(content).hexdigest() == FIRST_SCHEMA
