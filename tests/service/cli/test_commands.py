"""Commands work on a configured database without a daemon, with a daemon, and as programs of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal
from sqlalchemy import delete, insert, update
from typer.testing import CliRunner, Result

from config.reading.loader import load
from store.base import TaskScope
from store.catalog import assets, catalog_sync
from store.database.asset_events import NewEvent
from store.database.paging import PageRequest
from store.database.schema import asset_event, queued_event, run_asset_event, task_try
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.features.clean_source import removed_files
from store.features.clean_source.removed_files import FileOfEvent
from store.metastore import MetastoreStoreBackend
from store.processes import audit, tokens
from store.processes.file_locks import exclusive
from store.runs import runs
from store.runs.tries import startable, tries
from tests import loopback
from tests.effort import PATIENCE
from tests.features import DECLARATIONS
from tests.service.api.application import make_context
from watcher import app as daemon
from watcher.cli import run as command_of_daemon
from watcher.cli.app import app
from watcher.cli.database import opened_database
from watcher.configuration.declarations import declared
from watcher.configuration.vocabulary import vocabulary
from watcher.host import logs
from watcher.host.metadata import logs_directory
from watcher.serving.api import create_app
from watcher.serving.http_server import listen, serve

ROOT = Path(__file__).parents[3]
CONFIGURATION = """
version: 1
settings: {api: {auth: none, port: 1}}
assets:
  inbox:
    uri: file://FOLDER/inbox
    watchers:
      inbox_files: {trigger: file.new_files, match: "*.csv"}
  orders: {}
jobs:
  load_orders:
    schedule: inbox
    outlets: [orders]
    spark: {application: jobs/load_orders.py}
"""
Watcher = Callable[..., Result]


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """A configuration file, and beside it a database to which it was applied."""
    (tmp_path / "inbox").mkdir()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "load_orders.py").touch()
    path = tmp_path / "watchers.yaml"
    path.write_text(CONFIGURATION.replace("FOLDER", str(tmp_path)))
    anyio.run(_apply, path)
    return path


async def _apply(path: Path) -> None:
    loaded = load(path, vocabulary(), {})
    async with opened_database(loaded.settings) as database, database.transaction() as session:
        await catalog_sync.apply(session, declared(loaded, DECLARATIONS), database.dialect)


@pytest.fixture
def watcher(configuration: Path) -> Watcher:
    """A function that runs a command with `-c` and checks its exit code."""

    def run(*words: str, exits: int = 0, given: str | None = None) -> Result:
        result = CliRunner().invoke(app, [*words, "-c", str(configuration)], input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == exits, result.output
        assert "Traceback" not in result.output
        return result

    return run


def answer(result: Result) -> Any:
    return json.loads(result.stdout)


# --- the asset store


def test_a_value_is_written_read_and_removed_under_the_users_name(watcher: Watcher) -> None:
    assert "set" in watcher("store", "set", "orders", "a/b", '{"n": 1}').stdout
    assert watcher("store", "get", "orders", "a/b").stdout == '{"n": 1}\n'
    entry = answer(watcher("store", "get", "orders", "a/b", "--json"))
    assert (entry["version"], entry["last_updated_by"]["kind"]) == (1, "api")
    assert entry["last_updated_by"]["actor"].startswith("cli:")
    watcher("store", "set", "orders", "a/b", "-", "--if-version", "1", given="[2]")
    watcher("store", "set", "orders", "a/b", "free text", "--text")
    assert [e["value"] for e in answer(watcher("store", "list", "orders", "--json"))] == ["free text"]
    assert "free text" in watcher("store", "list", "orders").stdout
    watcher("store", "delete", "orders", "a/b")
    history = answer(watcher("store", "history", "orders", "a/b", "--json"))
    assert [(h["version"], h["deleted"]) for h in history] == [(4, True), (3, False), (2, False), (1, False)]
    assert "(deleted)" in watcher("store", "history", "orders").stdout


def test_an_older_value_can_be_restored(watcher: Watcher) -> None:
    assert "no history of 'undone'" in watcher("store", "undo", "orders", "undone", exits=4).stderr
    watcher("store", "set", "orders", "undone", "1")
    assert "no version of 'undone' is before" in watcher("store", "undo", "orders", "undone", exits=5).stderr
    watcher("store", "set", "orders", "undone", "2")
    assert "as in version 1" in watcher("store", "undo", "orders", "undone").stdout
    assert watcher("store", "get", "orders", "undone").stdout == "1\n"
    watcher("store", "undo", "orders", "undone", "--to-version", "2", "--if-version", "2", exits=5)
    watcher("store", "undo", "orders", "undone", "--to-version", "2")
    assert watcher("store", "get", "orders", "undone").stdout == "2\n"
    watcher("store", "delete", "orders", "undone")
    watcher("store", "undo", "orders", "undone")
    assert watcher("store", "get", "orders", "undone").stdout == "2\n"
    assert "is gone" in watcher("store", "undo", "orders", "undone").stdout


def test_a_file_is_explained_by_its_path_from_the_current_folder(
    watcher: Watcher, configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(item: str) -> tuple[str, str]:
        [only] = answer(watcher("explain", item, "--json"))["answers"]
        return only["state"], only["sentence"]

    folder = configuration.parent
    (folder / "inbox" / "a b.csv").touch()
    (folder / "other.csv").touch()
    monkeypatch.chdir(folder)
    assert answered("inbox/../inbox/a b.csv") == answered(str(folder / "inbox" / "a b.csv"))
    assert answered("inbox/a b.csv")[0] != "missing"
    assert answered("other.csv")[0] == "missing"  # a name below the watcher's folder: this file is outside of it
    assert answered("inbox/none.csv")[0] == "not_matched"
    assert answered("x" * 300 + ".csv")[0] == "missing"


def test_the_newest_events_of_an_asset_are_listed(watcher: Watcher, configuration: Path) -> None:
    assert answer(watcher("assets", "events", "--json")) == []
    anyio.run(_two_events, configuration)
    newest, older = answer(watcher("assets", "events", "inbox", "--json"))
    assert (newest["extra"], newest["source_watcher"], older["name"]) == ({"n": 1}, "inbox_files", "inbox")
    assert answer(watcher("assets", "events", "--limit", "1", "--json")) == [newest]
    assert answer(watcher("assets", "events", "orders", "--json")) == []
    for word in ("inbox", "inbox_files", "n 1"):
        assert word in watcher("assets", "events").stdout
    assert "no asset" in watcher("assets", "events", "nothing", exits=4).stderr


async def _two_events(path: Path) -> None:
    settings = load(path, vocabulary(), {}).settings
    async with opened_database(settings) as database, database.transaction() as session:
        asset_id = (await assets.ids_by_name(session))["inbox"]
        new = [
            NewEvent(asset_id=asset_id, extra=f'{{"n": {n}}}', trace_id="0" * 32, source_watcher="inbox_files")
            for n in range(2)
        ]
        (older, _), _ = (await events.append(session, new, origin=EventOrigin.POST, hooks=NO_HOOKS)).rows
        yesterday = datetime.now(UTC) - timedelta(days=1)
        await session.execute(update(asset_event).where(asset_event.c.id == older).values(timestamp=yesterday))


def test_refusals_have_a_sentence_and_an_exit_code(watcher: Watcher) -> None:
    watcher("store", "set", "orders", "k", "1")

    assert "version" in watcher("store", "set", "orders", "k", "2", "--if-version", "7", exits=5).stderr
    assert "no asset" in watcher("store", "get", "nothing", "k", exits=4).stderr
    assert "no key" in watcher("store", "get", "orders", "nothing", exits=4).stderr
    assert "--text" in watcher("store", "set", "orders", "k", "{", exits=2).stderr
    assert "null" in watcher("store", "set", "orders", "k", "null", exits=2).stderr
    assert "no watcher" in watcher("pause", "nobody", exits=4).stderr


# --- assets, watchers and runs


@pytest.mark.feature("partitions")
def test_partitions_that_wait_are_shown_a_page_at_a_time(watcher: Watcher, configuration: Path) -> None:
    batch = "schedule: inbox\n    batch: {mode: per_partition, complete: {items: 2}}"
    configuration.write_text(configuration.read_text().replace("schedule: inbox", batch))
    anyio.run(_apply, configuration)
    anyio.run(_tell_of_partitions, configuration, ["key-1", "key-2", "key-3"])
    first = watcher("jobs", "queue", "load_orders", "--limit", "2").output
    assert ("key-2" in first, "key-3" in first) == (True, False)
    assert "partitions 1 to 2 of 3; --offset 2 shows the next" in first
    second = watcher("jobs", "queue", "load_orders", "--limit", "2", "--offset", "2").output
    assert ("key-2" in second, "key-3" in second) == (False, True)
    assert "partitions 3 to 3 of 3\n" in second
    beyond = watcher("jobs", "queue", "load_orders", "--offset", "3").output
    assert "there are 3 partitions" in beyond


async def _tell_of_partitions(configuration: Path, keys: Sequence[str]) -> None:
    loaded = load(configuration, vocabulary(), {})
    async with opened_database(loaded.settings) as database, database.transaction() as connection:
        inbox = (await assets.ids_by_name(connection))["inbox"]
        new = [NewEvent(asset_id=inbox, extra="{}", trace_id="0" * 32, partition_key=key) for key in keys]
        await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)


def test_jobs_are_listed_shown_paused_and_asked_what_they_wait_for(watcher: Watcher) -> None:
    (listed,) = answer(watcher("jobs", "list", "--json"))
    assert (listed["dag_id"], listed["timetable_summary"], listed["is_paused"]) == ("load_orders", "inbox", False)
    assert "load_orders" in watcher("jobs", "list").stdout
    assert watcher("jobs", "pause", "load_orders").stdout == "load_orders is paused\n"
    assert "paused" in watcher("jobs", "show", "load_orders").stdout
    assert watcher("jobs", "resume", "load_orders").stdout == "load_orders goes on\n"
    assert "nothing is queued" in watcher("jobs", "queue", "load_orders").stdout
    assert "waits for everything" in watcher("jobs", "queue", "load_orders", "--run", exits=5).stderr
    assert "exclude each other" in watcher("jobs", "queue", "load_orders", "--run", "--drop", exits=2).stderr
    assert "no job" in watcher("jobs", "queue", "nobody", exits=4).stderr


def test_assets_watchers_and_runs_are_listed_and_shown(watcher: Watcher) -> None:
    assert [asset["name"] for asset in answer(watcher("assets", "list", "--json"))] == ["inbox", "orders"]
    assert "inbox_files" in watcher("assets", "list").stdout
    assert answer(watcher("assets", "show", "inbox", "--json"))["uri"].startswith("file://")
    assert "load_orders" in watcher("assets", "show", "inbox").stdout
    assert [w["name"] for w in answer(watcher("watchers", "list", "--json"))] == ["inbox_files"]
    assert "file.new_files" in watcher("watchers", "show", "inbox_files").stdout
    assert answer(watcher("runs", "list", "--json")) == []
    assert "no job" in watcher("runs", "list", "nothing", exits=4).stderr


def test_a_watcher_is_paused_and_resumed(watcher: Watcher) -> None:
    watcher("pause", "inbox_files")
    assert answer(watcher("watchers", "show", "inbox_files", "--json"))["paused"] is True
    assert "paused" in watcher("status", exits=1).stdout
    assert answer(watcher("resume", "inbox_files", "--json"))["paused"] is False


def test_status_says_that_no_daemon_runs(watcher: Watcher) -> None:
    status = answer(watcher("status", "--json", exits=1))

    assert (status["daemon"], status["metadatabase"]["status"]) == ("never", "healthy")
    assert status["watchers"] == {"stopped": 1}
    assert (status["problems"], status["warnings"]) == (["no daemon has run here yet; start `watcher run`"], [])


def test_logs_are_printed_around_a_write(watcher: Watcher, configuration: Path) -> None:
    folder = configuration.parent / ".watcher" / "logs" / "watchers" / "inbox_files"
    folder.mkdir(parents=True)
    records = [{"event": "watcher.polled", "write_id": f"w{n}", "level": "info"} for n in range(9)]
    (folder / "one.log").write_text("".join(json.dumps(record) + "\n" for record in records))

    assert watcher("logs", "inbox_files").stdout.count("watcher.polled") == 9
    around = watcher("logs", "inbox_files", "--around", "w4", "-n", "1", "--json").stdout
    assert [json.loads(line)["write_id"] for line in around.splitlines()] == ["w3", "w4", "w5"]
    assert watcher("logs", "inbox_files", "-n", "2").stdout.splitlines()[0].endswith("write_id=w7")
    assert "no watcher" in watcher("logs", "nobody", exits=4).stderr


def test_runs_are_cancelled_and_failed_ones_run_again(watcher: Watcher, configuration: Path) -> None:
    anyio.run(_tried_run, configuration)
    assert "cancelled" in watcher("runs", "cancel", "load_orders", "mine").stdout
    assert "is over: failed" in watcher("runs", "cancel", "load_orders", "mine", exits=5).stderr
    [again] = answer(watcher("runs", "retry", "--failed", "load_orders", "--json"))
    assert (again["dag_run_id"], again["state"]) == ("mine", "queued")
    assert "no run has failed" in watcher("runs", "retry", "--failed", "load_orders").stdout
    watcher("runs", "cancel", "load_orders", "mine")
    assert "queued" in watcher("runs", "retry", "load_orders", "mine").stdout
    for words in ([], ["load_orders"], ["load_orders", "mine", "--failed", "load_orders"]):
        assert "--failed JOB" in watcher("runs", "retry", *words, exits=2).stderr


def test_a_failed_run_that_once_succeeded_with_files_that_are_gone_is_left_alone(
    watcher: Watcher, configuration: Path
) -> None:
    anyio.run(_tried_run, configuration)
    anyio.run(_cleaned_file, configuration)
    watcher("runs", "cancel", "load_orders", "mine")
    alone = watcher("runs", "retry", "--failed", "load_orders").stdout
    assert "no run is cleared" in alone
    assert (
        "left alone: the run 'mine' has succeeded, and 1 cleaned of its files would be missing now (/in/a.csv)" in alone
    )
    assert "1 cleaned" in watcher("runs", "retry", "load_orders", "mine", exits=5).stderr
    assert "queued" in watcher("runs", "retry", "load_orders", "mine", "--include-cleaned").stdout


async def _cleaned_file(path: Path) -> None:
    """Let a try of the run have succeeded, and the file of its event be deleted since."""
    settings = load(path, vocabulary(), {}).settings
    async with opened_database(settings) as database, database.transaction() as session:
        [inbox] = [asset_id for name, asset_id in (await assets.ids_by_name(session)).items() if name == "inbox"]
        extra = json.dumps({"files": [{"path": "/in/a.csv", "size": 1}]})
        new = NewEvent(asset_id=inbox, extra=extra, trace_id="0" * 32)
        [(event_id, *_)] = (await events.append(session, [new], origin=EventOrigin.POST, hooks=NO_HOOKS)).rows
        consumed = {"dag_id": "load_orders", "run_id": "mine", "event_id": event_id}
        await session.execute(delete(queued_event))
        await session.execute(insert(run_asset_event).values(consumed))
        file = FileOfEvent(event_id, 0)
        await removed_files.take_interest(session, [file])
        await removed_files.conclude(session, {file: None})
        await session.execute(update(task_try).values(finish_state="success"))


def test_a_run_is_started_with_its_configuration(watcher: Watcher) -> None:
    run = answer(watcher("runs", "start", "load_orders", "--conf", '{"day": "2026-11-20"}', "--json"))
    assert (run["state"], run["run_type"], run["conf"]) == ("queued", "manual", {"day": "2026-11-20"})
    assert "queued" in watcher("runs", "start", "load_orders").stdout
    assert "no JSON object" in watcher("runs", "start", "load_orders", "--conf", "[1]", exits=2).stderr
    assert "no JSON: " in watcher("runs", "start", "load_orders", "--conf", "{day", exits=2).stderr
    assert "no job" in watcher("runs", "start", "nothing", exits=4).stderr


def test_the_whole_log_of_a_run_is_printed(watcher: Watcher, configuration: Path) -> None:
    anyio.run(_tried_run, configuration)
    folder = configuration.parent / ".watcher/logs/runs/load_orders/mine/load_orders/-1"
    folder.mkdir(parents=True)
    (folder / "1.log").write_text('driver says hello\n{"event": "store.written"}\n')

    assert watcher("runs", "logs", "load_orders", "mine").stdout == "driver says hello\nstore.written\n"
    assert "mine" in watcher("runs", "list").stdout
    assert answer(watcher("runs", "show", "load_orders", "mine", "--json"))["task_instances"][0]["try_number"] == 1
    assert "load_orders" in watcher("runs", "show", "load_orders", "mine").stdout


async def _tried_run(path: Path) -> None:
    settings = load(path, vocabulary(), {}).settings
    async with opened_database(settings) as database, database.transaction() as session:
        await runs.create_run(session, "load_orders", "mine", "load_orders", triggered_by="cli", conf="{}", note=None)
        [task] = await startable.next_startable(session)
        await tries.commit_intent(session, task, home_id="home", tag="tag", token_hash="")


def test_a_run_is_watched_until_it_is_over(watcher: Watcher, configuration: Path) -> None:
    anyio.run(_tried_run, configuration)
    watcher("runs", "cancel", "load_orders", "mine")
    shown = watcher("runs", "watch", "load_orders", "mine", exits=1).stdout
    assert shown == "load_orders  mine  failed  cancelled\n"
    assert answer(watcher("runs", "watch", "load_orders", "mine", "--json", exits=1))["try_number"] == 1
    assert "name the job" in watcher("runs", "watch", "~", "mine", exits=2).stderr


# --- configuration


def test_check_counts_assets_watchers_and_jobs(watcher: Watcher, configuration: Path) -> None:
    assert "2 assets, 1 watcher, 1 job" in watcher("check").stdout
    [changed] = answer(watcher("check", "--json"))
    assert (changed["level"], changed["path"]) == ("info", "jobs.load_orders")
    configuration.write_text("version: 1\nassets: {a: {urii: x}}\n")
    assert "watchers.yaml:2: assets.a.urii" in watcher("check", exits=2).stderr
    [problem] = answer(watcher("check", "--json", exits=2))
    assert (problem["line"], problem["path"]) == (2, "assets.a.urii")
    assert "urii" in watcher("assets", "list", exits=2).stderr


def test_check_refuses_a_job_that_no_run_could_use(watcher: Watcher, configuration: Path) -> None:
    application = configuration.parent / "jobs" / "load_orders.py"
    application.rename(application.with_suffix(".gone"))
    line = configuration.read_text().splitlines().index("    spark: {application: jobs/load_orders.py}") + 1
    missing = f"watchers.yaml:{line}: jobs.load_orders.spark.application: there is no such file"
    assert missing in watcher("check", exits=2).stderr
    watcher("assets", "list")  # other commands need no job


@pytest.mark.usefixtures("configuration")
def test_check_says_that_there_is_no_java(watcher: Watcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    [warning, *others] = answer(watcher("check", "--json"))
    assert (warning["level"], warning["path"]) == ("warning", "jobs.load_orders.spark")
    assert {each["level"] for each in others} == {"info"}
    assert warning["message"].startswith("Spark needs Java, and none was found on the PATH: install Java 17 or newer")
    assert warning["message"] in watcher("check").stdout


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("openlineage: {url: http://lineage}", "settings.openlineage: is not built; remove it"),
        ("workers: {state_store_backnd: a.B}", "settings.workers.state_store_backnd: is not a key here; did you mean"),
    ],
)
def test_unsupported_settings_are_refused(
    command: str, settings: str, sentence: str, watcher: Watcher, configuration: Path
) -> None:
    edit(configuration, settings)
    assert f"watchers.yaml:3: {sentence}" in watcher(command, exits=2).stderr


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_guessable_secret_is_refused(command: str, watcher: Watcher, configuration: Path) -> None:
    configuration.write_text(configuration.read_text().replace("port: 1}", "port: 1, secret: hunter22}"))
    refused = watcher(command, exits=2).stderr
    assert "watchers.yaml:3: settings.api.secret: must have at least 32 bytes" in refused
    assert "hunter22" not in refused


def test_check_connect_checks_every_source(watcher: Watcher, configuration: Path) -> None:
    good = answer(watcher("check", "--connect", "--json"))
    assert {finding["watcher"] for finding in good} == {"inbox_files"}
    assert all(set(finding) == {"watcher", "check", "level", "message", "remedy"} for finding in good)
    (configuration.parent / "inbox").rmdir()
    bad = answer(watcher("check", "--connect", "--json", exits=3))
    assert "error" in {finding["level"] for finding in bad}
    assert "inbox_files" in watcher("check", "--connect", exits=3).stdout


def test_schema_is_a_json_schema() -> None:
    result = CliRunner().invoke(app, ["schema"])

    assert "file.new_files" in result.stdout
    assert "properties" in json.loads(result.stdout)


# --- database and tokens


def test_the_schema_is_checked_and_upgraded(watcher: Watcher, configuration: Path) -> None:
    assert "is this program's" in watcher("db", "check").stdout
    (configuration.parent / ".watcher" / "watcher.db").unlink()
    assert "watcher db upgrade" in watcher("db", "check", exits=1).stderr
    watcher("db", "upgrade")
    watcher("db", "check", "--json")


def test_a_token_is_shown_once_and_recorded_in_the_audit(watcher: Watcher, configuration: Path) -> None:
    made = answer(watcher("token", "create", "--subject", "trainee", "--role", "viewer", "--json"))
    plain = watcher("token", "create", "--subject", "other", "--role", "admin").stdout.strip()

    assert made["token"].startswith("aw_")
    assert plain.startswith("aw_")
    assert anyio.run(_audited, configuration) == ["token.create other", "token.create trainee"]
    watcher("token", "create", "--subject", "a\nb", "--role", "viewer", exits=2)
    watcher("token", "create", "--subject", "a", "--role", "owner", exits=2)
    watcher("token", "create", "--subject", "a", "--role", "viewer", "--expires-in", "30", exits=2)


def test_tokens_are_listed_rotated_and_revoked(watcher: Watcher) -> None:
    create = ("token", "create", "--role", "viewer", "--json", "--subject")
    first = answer(watcher(*create, "ann", "--name", "laptop", "--expires-in", "30d"))
    answer(watcher(*create, "ann"))
    other = answer(watcher(*create, "bob"))
    assert first["expires_at"] > first["created_at"]

    listed = answer(watcher("token", "list", "--json"))
    assert [(one["subject"], one["name"]) for one in listed] == [("bob", None), ("ann", None), ("ann", "laptop")]
    assert first["token"] not in str(listed)
    assert "laptop" in watcher("token", "list", "--subject", "ann").stdout
    [rotated] = answer(watcher("token", "rotate", first["id"], "--overlap", "1h", "--json"))
    assert (rotated["name"], rotated["token"] != first["token"]) == ("laptop", True)
    assert len(watcher("token", "rotate", "--subject", "ann").stdout.split()) == 3
    assert "3 tokens revoked" in watcher("token", "revoke", "--subject", "ann").stdout
    assert [one["id"] for one in answer(watcher("token", "list", "--json"))] == [other["id"]]
    assert "1 token revoked" in watcher("token", "revoke", other["id"]).stdout
    watcher("token", "revoke", other["id"], exits=4)
    watcher("token", "rotate", "--subject", "ann", exits=4)
    watcher("token", "revoke", exits=2)
    watcher("token", "revoke", other["id"], "--subject", "ann", exits=2)


async def _audited(path: Path) -> list[str]:
    settings = load(path, vocabulary(), {}).settings
    async with opened_database(settings) as database, database.reading() as session:
        page = await audit.listed(session, None, PageRequest(limit=10))
    return [f"{entry.action} {entry.target}" for entry in page.rows]


# --- with a daemon


@dataclass(frozen=True)
class Served:
    """An API with tokens, in a thread of its own, and a token of an administrator."""

    url: str
    token: str


@pytest.fixture
def served(configuration: Path) -> Iterator[Served]:
    with start_blocking_portal() as portal:
        serving, found = portal.start_task(_serve, configuration)
        yield found
        serving.cancel()


async def _serve(path: Path, *, task_status: TaskStatus[Served]) -> None:
    settings = load(path, vocabulary(), {}).settings
    directory = logs_directory(settings)
    with logs.configure(directory, level="info", json=True, owner="owner", max_file_mb=1):
        async with opened_database(settings) as database, anyio.create_task_group() as tasks:
            context = make_context(database, directory, secret=b"secret", auth="tokens")
            async with database.transaction() as session:
                token = (await tokens.create(session, "trainee", "admin")).token
            with listen("127.0.0.1", 0) as bound:
                await tasks.start(partial(serve, create_app(context), bound))
                task_status.started(Served(f"http://127.0.0.1:{bound.getsockname()[1]}", token))
                await anyio.sleep_forever()


def test_a_daemon_records_the_users_name(watcher: Watcher, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHER_URL", served.url)

    assert "WATCHER_TOKEN" in watcher("assets", "list", exits=1).stderr
    assert "Invalid token" in watcher("assets", "list", "--token", "aw_wrong", exits=1).stderr
    monkeypatch.setenv("WATCHER_TOKEN", served.token)
    watcher("store", "set", "orders", "k", "1")
    entry = answer(watcher("store", "get", "orders", "k", "--json"))
    assert entry["last_updated_by"]["actor"] == "trainee"
    assert answer(watcher("status", "--json"))["daemon"] == served.url


def test_the_page_of_an_object_is_opened(watcher: Watcher, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url) or len(asked) == 1)
    opened = ("open", "--url", served.url, "--token", served.token)
    assert answer(watcher(*opened, "--json")) == {"url": f"{served.url}/", "opened": True}
    pages = ["watchers/inbox_files", "assets/1", "jobs/load_orders"]
    names = ["inbox_files", "inbox", "load_orders"]
    assert [watcher(*opened, name).stdout for name in names] == [f"{served.url}/{page}\n" for page in pages]
    assert asked[1:] == [f"{served.url}/{page}" for page in pages]
    headers = {"Authorization": f"Bearer {served.token}", "Accept": "text/html"}
    assert {loopback.get(url, headers=headers).status_code for url in asked} == {200}
    assert "no watcher, job or asset" in watcher(*opened, "nothing", exits=4).stderr
    assert "no daemon runs here" in watcher("open", exits=1).stderr


def test_an_absent_daemon_is_reported_in_a_sentence(watcher: Watcher) -> None:
    assert "watcher run" in watcher("status", "--url", "http://127.0.0.1:1", exits=1).stderr


def test_a_daemon_of_this_home_is_found_by_its_lock(watcher: Watcher, configuration: Path) -> None:
    """Nobody listens at the configured address, so the attempted address alone shows that the daemon was found."""
    with exclusive(configuration.parent / ".watcher" / "daemon.lock"):
        assert "127.0.0.1:1" in watcher("status", exits=1).stderr
    assert "never" in watcher("status", exits=1).stdout


@pytest.mark.slow
def test_a_log_is_followed_until_interrupted(configuration: Path, served: Served) -> None:
    folder = configuration.parent / ".watcher" / "logs" / "watchers" / "inbox_files"
    folder.mkdir(parents=True)
    log = folder / "one.log"
    log.write_text('{"event": "first"}\n')
    for more in ([], ["--url", served.url, "--token", served.token]):
        command = [
            sys.executable,
            "-m",
            "watcher",
            "logs",
            "inbox_files",
            "-f",
            "-n",
            "1",
            "-c",
            str(configuration),
            *more,
        ]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "first\n"
            with log.open("a") as file:
                file.write('{"event": "second"}\n')
            assert process.stdout.readline() == "second\n"
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(timeout=60) == 130
            finally:
                process.kill()
        log.write_text('{"event": "first"}\n')


# --- the program


HEAVY = {
    "aiobotocore",
    "aiohttp",
    "alembic",
    "asyncpg",
    "botocore",
    "fastapi",
    "prometheus_client",
    "sqlalchemy",
    "uvicorn",
}
PROGRAM = """
import sys
from watcher.guard import main
try:
    main()
finally:
    print("imported", *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def program(*words: str) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """Run a command in a process of its own. Return its output and the modules that it imported."""
    command = [sys.executable, "-c", PROGRAM, *words]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    *_, imported = process.stderr.splitlines()
    return process, set(imported.split())


def test_check_imports_nothing_that_the_configuration_does_not_name(watcher: Watcher, configuration: Path) -> None:
    checked, imported = program("check", "-c", str(configuration))
    assert (checked.returncode, len(checked.stderr.splitlines())) == (0, 1)
    assert not HEAVY & imported
    configuration.unlink()
    assert "no such file; create it" in watcher("check", exits=2).stderr


def test_commands_to_a_daemon_import_little_of_the_program(configuration: Path, served: Served) -> None:
    port = served.url.rpartition(":")[2]
    configuration.write_text(configuration.read_text().replace("port: 1}", f"port: {port}}}") + "  wrong: {urii: x}\n")
    with exclusive(configuration.parent / ".watcher" / "daemon.lock"):
        for words in (["status"], ["logs", "inbox_files"]):
            asked, imported = program(*words, "-c", str(configuration), "--token", served.token)
            assert asked.returncode == 0, asked.stderr
            assert not (HEAVY | {"structlog", "triggers"}) & imported


def test_the_roles_are_those_of_the_daemon() -> None:
    assert set(command_of_daemon.ROLES) == daemon.ROLES


def edit(configuration: Path, settings: str) -> None:
    configuration.write_text(configuration.read_text().replace("settings: {", f"settings: {{{settings}, "))


BROKEN_BACKENDS = {
    "no_such_module.Backend": "cannot be imported",
    "store.memory.Nothing": "cannot be imported",
    "store.base.BaseStoreBackend": "lacks",
    "pathlib.Path": "is not a store backend",
}


@pytest.mark.parametrize("path", BROKEN_BACKENDS)
def test_a_broken_store_backend_is_reported_at_start_and_by_check(
    path: str, watcher: Watcher, configuration: Path
) -> None:
    edit(configuration, f"store: {{backend: {path}}}")

    assert BROKEN_BACKENDS[path] in watcher("run", exits=1).stderr.splitlines()[-1]
    assert BROKEN_BACKENDS[path] in watcher("check", exits=2).stderr
    [problem] = answer(watcher("check", "--json", exits=2))
    assert (problem["path"], path in problem["message"]) == ("settings.store.backend", True)


def test_references_need_a_backend_that_marks_them(watcher: Watcher, configuration: Path) -> None:
    edit(configuration, "store: {backend: store.memory.MemoryStoreBackend}, workers: {state_store_backend: a.B}")

    assert "cannot mark the references" in watcher("run", exits=1).stderr


async def _expire(path: Path, count: int) -> None:
    settings = load(path, vocabulary(), {}).settings
    async with opened_database(settings) as database:
        store = MetastoreStoreBackend(database)
        scope = TaskScope(dag_id="load_orders", run_id="r", task_id="load")
        for number in range(count):
            await store.aset(scope, str(number), "1", expires_at=datetime(2020, 1, 1, tzinfo=UTC))


def test_the_clean_up_removes_rows_and_reports_their_number(watcher: Watcher, configuration: Path) -> None:
    anyio.run(_expire, configuration, 3)
    command = ("state-store", "cleanup-task-states")
    dry = answer(watcher(*command, "--dry-run", "--json"))
    assert (dry["dry_run"], dry["counts"]["expired task entries"]) == (True, 3)
    done = watcher(*command, "--batch-size", "2")
    assert "cleanup.progress" in done.stderr
    assert "expired task entries" in done.stdout
    assert not any(answer(watcher(*command, "--json"))["counts"].values())
    watcher(*command, "--batch-size", "0", exits=2)


def test_the_clean_up_skips_a_custom_backend_and_reports_it(watcher: Watcher, configuration: Path) -> None:
    edit(configuration, "store: {backend: store.memory.MemoryStoreBackend}")
    assert "skipped" in watcher("state-store", "cleanup-task-states").stderr
