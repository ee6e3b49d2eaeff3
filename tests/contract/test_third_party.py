"""A connection and a trigger of somebody else: from the YAML to committed events, with no file of ours."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from sqlalchemy import select

from config.errors import ConfigurationInvalid
from config.features.publishing.json_schema import json_schema
from config.models import Configuration
from config.reading.loader import load
from config.vocabulary import Vocabulary
from store.catalog import catalog_sync
from store.database import Database, migrations, sqlite_url
from store.database.schema import asset_event, asset_store
from store.detection.interest import NO_HOOKS
from store.processes.triggerers import ProcessInfo
from tests.contract.sources import PLUGINS, NoticeBoard
from tests.features import DECLARATIONS
from watcher.configuration.declarations import declared, jobs_to_start
from watcher.configuration.foreign_classes import open_isolation
from watcher.configuration.sources import hosted, open_sources
from watcher.configuration.vocabulary import vocabulary
from watcher.errors import StartRefused
from watcher.features.isolation.asked_classes import AskedClasses
from watcher.features.isolation.fork_server import ForkServer
from watcher.features.isolation.inquiries import Inquirer
from watcher.host.metrics import Metrics
from watcher.triggerer.clients import Hosted, open_trigger
from watcher.triggerer.committing import Committer
from watcher.triggerer.supervisor import Supervisor
from watcher.triggerer.triggerer import Triggerer

PUBLIC = {"triggers.base", "triggers.errors", "triggers.options"}
"""What docs/writing-a-trigger.md names."""
TEXT = """\
version: 1
settings: {{plugins_dir: {plugins}}}
connections:
  board:
    type: notice_board.BoardConnection
    url: {url}
    token: "${{BOARD_TOKEN}}"
    timeout: 30s
assets:
  notices:
    watchers:
      new_notices:
        {{trigger: notice_board.NewNotices, connection: board, topic: sales, interval: 10ms, page_size: 2, isolation: {isolation}}}
jobs:
  read_notices: {{spark: {{application: read.py, connections: [board]}}, schedule: notices}}
"""


@pytest.fixture
def board() -> Iterator[NoticeBoard]:
    with NoticeBoard() as board:
        yield board


@pytest.fixture(scope="module")
def words() -> Iterator[Vocabulary]:
    with ForkServer() as server, Inquirer(server) as inquirer:
        yield vocabulary(AskedClasses(inquirer))


@pytest.fixture
def isolation(request: pytest.FixtureRequest) -> str:
    """Where the trigger runs; a test may say so."""
    return str(getattr(request, "param", "process"))


@pytest.fixture
def file(tmp_path: Path, board: NoticeBoard, isolation: str) -> Path:
    path = tmp_path / "watchers.yaml"
    path.write_text(TEXT.format(plugins=PLUGINS, url=board.url, isolation=isolation))
    return path


@pytest.fixture
def configuration(file: Path, board: NoticeBoard, words: Vocabulary) -> Configuration:
    return load(file, words, {"BOARD_TOKEN": board.token})


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with Database.open(sqlite_url(tmp_path / "watcher.db")) as database:
        await migrations.upgrade(database)
        yield database


def test_the_plug_in_uses_nothing_but_public_names() -> None:
    tree = ast.parse((PLUGINS / "notice_board.py").read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {name for name in modules if name.split(".")[0] in {"config", "store", "triggers", "watcher"}} <= PUBLIC


def test_editors_accept_it(file: Path) -> None:
    schema = json_schema(vocabulary())
    document = YAML(typ="safe", pure=True).load(file.read_text())
    validator = Draft202012Validator(schema)
    validator.validate(document)
    document["connections"]["board"]["type"] = "no_type"
    assert not validator.is_valid(document)


def test_jobs_get_what_the_connection_hands_to_them(configuration: Configuration, board: NoticeBoard) -> None:
    job = jobs_to_start(configuration)["read_notices"]
    assert job.connections == {
        "board": {"type": "notice_board.BoardConnection", "url": board.url, "token": board.token}
    }


@asynccontextmanager
async def triggerer(
    configuration: Configuration, database: Database, watchers: Mapping[str, Hosted], process_id: str
) -> AsyncIterator[None]:
    committer = Committer(database=database, metrics=Metrics(), hooks=NO_HOOKS, on_events=lambda _dag_ids: None)
    async with open_sources(configuration, open_isolation) as clients, anyio.create_task_group() as tasks:

        def supervise(watcher: Hosted) -> Supervisor:
            return Supervisor(
                hosted=watcher,
                owner=process_id,
                database=database,
                committer=committer,
                clients=clients,
                poll_timeout=timedelta(seconds=30),
            )

        triggerer = Triggerer(
            database=database,
            process=ProcessInfo(id=process_id, host="here", pid=1),
            hosted=watchers,
            supervise=supervise,
            heartbeat=timedelta(seconds=1),
            lease=timedelta(seconds=60),
        )
        await tasks.start(triggerer.run)
        yield
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("isolation", ["process", "none"], indirect=True)
async def test_a_watcher_of_it_finds_each_notice_once_over_restarts(
    configuration: Configuration, board: NoticeBoard, database: Database
) -> None:
    imported = "notice_board" in sys.modules
    async with database.transaction() as connection:
        applied = await catalog_sync.apply(connection, declared(configuration, DECLARATIONS), database.dialect)
    watchers = hosted(configuration, applied.asset_ids)
    number = 0
    for life in range(3):
        for _ in range(5):
            number += 1
            board.add(number)
        async with triggerer(configuration, database, watchers, f"life {life}"):
            with anyio.fail_after(60):
                while await notices_of(database) < number:
                    await anyio.sleep(0.01)
    events = await extras(database)
    assert [notice["number"] for event in events for notice in event["notices"]] == [*range(1, number + 1)]
    assert {event["watcher"] for event in events} == {"new_notices"}
    assert await watermark(database) == {"up_to": number, "posted": number}
    assert ("notice_board" in sys.modules) == (imported or configuration.watchers["new_notices"].isolation == "none")


@pytest.mark.parametrize("isolation", ["process", "none"], indirect=True)
async def test_it_recognizes_its_source_in_the_identity_of_an_older_position(configuration: Configuration) -> None:
    watcher = hosted(configuration, {"notices": 1})["new_notices"]
    async with (
        open_sources(configuration, open_isolation) as clients,
        open_trigger(watcher, clients, timedelta(seconds=30), has_position=True) as trigger,
    ):
        await trigger.check()
        assert await trigger.recognizes({"topic": "sales"})
        assert not await trigger.recognizes({"topic": "others"})


async def notices_of(database: Database) -> int:
    return sum(event["count"] for event in await extras(database))


async def extras(database: Database) -> list[Any]:
    async with database.reading() as connection:
        texts = await connection.scalars(select(asset_event.c.extra).order_by(asset_event.c.id))
        return [json.loads(text) for text in texts]


async def watermark(database: Database) -> Any:
    async with database.reading() as connection:
        text = await connection.scalar(select(asset_store.c.value).where(asset_store.c.key == "new_notices.watermark"))
    return json.loads(text or "null")


BROKEN = """
from triggers.base import BaseConnection, BaseEventTrigger
from pydantic import model_validator

class Raises(BaseConnection):
    key: str
    def open(self): ...
    @model_validator(mode="after")
    def _check(self):
        raise KeyError(self.key)

class Mute(BaseConnection):
    def open(self): ...
    def reveal_to_jobs(self):
        return {"moment": object()}

class Unfinished(BaseConnection):
    pass

class NoOptions(BaseEventTrigger):
    def check(self): ...
    def source_identity(self): ...
    def events(self, position): ...

class RaisesDefaults(NoOptions):
    Options = Raises
    @classmethod
    def defaults(cls, uri):
        raise RuntimeError(uri)

number = 1
"""


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of plug-ins that are no good."""
    (tmp_path / "broken_board.py").write_text(BROKEN)
    (tmp_path / "exits.py").write_text("raise SystemExit('a secret')\n")
    monkeypatch.delitem(sys.modules, "broken_board", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def problems(folder: Path, words: Vocabulary, *, connection: str = "", watcher: str = "") -> list[str]:
    path = folder / "watchers.yaml"
    path.write_text(
        f"version: 1\nsettings: {{plugins_dir: {folder}}}\nconnections:\n  {connection}\n"
        f"assets:\n  a:\n    watchers:\n      {watcher}\n"
    )
    with pytest.raises(ConfigurationInvalid) as refused:
        load(path, words, {})
    return [str(problem).replace(f"{folder}/", "") for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            "{type: nowhere.Board}",
            ".type: `nowhere.Board` cannot be imported (No module named 'nowhere'); fix it, or put",
        ),
        ("{type: exits.Board}", ".type: `exits.Board` cannot be imported ("),
        (
            "{type: broken_board.number}",
            ".type: `broken_board.number` is not a subclass of triggers.base.BaseConnection; ",
        ),
        (
            "{type: broken_board.Nothing}",
            ".type: `broken_board.Nothing` is not a subclass of triggers.base.BaseConnection",
        ),
        ("{type: broken_board.NoOptions}", ".type: `broken_board.NoOptions` is not a subclass of "),
        (
            "{type: broken_board.Unfinished}",
            ".type: `broken_board.Unfinished` does not define `open`; add it to the class",
        ),
        ("{type: broken_board.Raises}", ".key: is missing; add it"),
        (
            "{type: broken_board.Raises, key: a-secret}",
            ": cannot be checked: `broken_board.Raises` raised KeyError; correct the class",
        ),
        ("{type: broken_board.Mute, more: 1}", ".more: is not a key here; "),
        ("{type: [s3]}", ".type: must name a type of connection; "),
        ("{type: s4}", ".type: is no type of connection; "),
    ],
)
def test_a_connection_that_cannot_be_used_is_one_sentence(
    broken: Path, words: Vocabulary, entry: str, sentence: str
) -> None:
    [problem] = problems(broken, words, connection=f"board: {entry}")
    assert problem.startswith(f"watchers.yaml:4: connections.board{sentence}")
    assert "a-secret" not in problem


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "broken_board.NoOptions",
            ".trigger: `broken_board.NoOptions` has no `Options`, the pydantic model of its keys",
        ),
        ("broken_board.RaisesDefaults", ": the trigger's `defaults` raised RuntimeError; correct the class"),
    ],
)
def test_a_trigger_that_cannot_be_used_is_one_sentence(
    broken: Path, words: Vocabulary, name: str, sentence: str
) -> None:
    [problem] = problems(broken, words, watcher=f"w: {{trigger: {name}}}")
    assert problem.startswith(f"watchers.yaml:8: assets.a.watchers.w{sentence}")


def test_a_trigger_wants_the_type_of_connection_that_it_names(broken: Path, words: Vocabulary) -> None:
    shutil.copy(PLUGINS / "notice_board.py", broken)
    [problem] = problems(
        broken,
        words,
        connection="board: {type: broken_board.Mute}",
        watcher="w: {trigger: notice_board.NewNotices, connection: board, topic: t}",
    )
    assert "`board` is not of type `notice_board.BoardConnection`, which this trigger needs" in problem


def test_a_connection_that_hands_no_json_to_jobs_keeps_the_daemon_from_starting(
    broken: Path, words: Vocabulary
) -> None:
    path = broken / "watchers.yaml"
    path.write_text(
        f"version: 1\nsettings: {{plugins_dir: {broken}}}\nconnections: {{board: {{type: broken_board.Mute}}}}\n"
        "jobs: {j: {spark: {application: a.py, connections: [board]}, schedule: null}}\n"
    )
    configuration = load(path, words, {})
    with pytest.raises(StartRefused, match=r"connection board: .*Mute. returns no JSON"):
        jobs_to_start(configuration)
