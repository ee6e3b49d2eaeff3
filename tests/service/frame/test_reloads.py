"""A running daemon takes over a new configuration completely or not at all, without touching what has not changed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import loopback
from tests.arrivals import arrive
from tests.databases import on_both
from tests.effort import PATIENCE
from tests.forks import Forked
from tests.torture.daemons import Daemons, until
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]


class Daemon:
    """`watcher run` on SQLite with watchers of folders. `document` is the content of its file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.file = folder / "etc" / "watchers.yaml"
        self.file.parent.mkdir()
        self.document: dict[str, Any] = {
            "version": 1,
            "settings": {
                "api": {"port": self.port, "auth": "none"},
                "triggerer": {"heartbeat": "500ms", "lease": "10s", "grace": "10s"},
                "home": str(folder / "home"),
            },
            "assets": {},
        }

    def watch(self, name: str, **options: Any) -> Path:
        """Add an asset with a watcher of a folder of the same name."""
        inbox = self.folder / name
        inbox.mkdir(exist_ok=True)
        often = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s", "start": "all", **options}
        self.document["assets"][name] = {"uri": f"file://{inbox}", "watchers": {f"{name}_files": often}}
        return inbox

    def write(self, text: str | None = None) -> None:
        """Write the file as editors do: rename a new file over the old one."""
        new = self.folder / "new.yaml"
        new.write_text(json.dumps(self.document) if text is None else text)
        new.replace(self.file)

    @contextmanager
    def running(self) -> Iterator[Forked]:
        with (
            (self.folder / "daemon.log").open("ab") as log,
            Forked(["run", "--config", str(self.file)], output=log, environment=os.environ) as process,
        ):
            try:
                until(lambda: self.get("/readyz").is_success)
                yield process
            finally:
                process.kill()

    def get(self, path: str) -> httpx.Response:
        return loopback.get(f"http://127.0.0.1:{self.port}{path}", timeout=30)

    def reload(self) -> httpx.Response:
        return loopback.post(f"http://127.0.0.1:{self.port}/api/v2/reload", timeout=60)

    def refused_token(self) -> int:
        url = f"http://127.0.0.1:{self.port}/execution/tries/claim"
        return loopback.post(url, headers={"Authorization": "Bearer nobody's"}, json={"nonce": "n"}).status_code

    def watchers(self) -> dict[str, dict[str, Any]]:
        return {watcher["name"]: watcher for watcher in self.get("/api/v2/watchers").json()["watchers"]}

    def records(self, event: str) -> list[dict[str, Any]]:
        lines = (self.folder / "daemon.log").read_text().splitlines()
        return [record for line in lines if line.startswith("{") and (record := json.loads(line))["event"] == event]

    def audit(self) -> list[tuple[str, dict[str, Any]]]:
        entries = self.get("/api/v2/audit?limit=100").json()["audit"]
        return [(each["actor"], each["detail"]) for each in entries if each["action"] == "configuration.reload"]

    def reloads(self, result: str) -> float:
        name = f'watcher_reloads_total{{result="{result}"}} '
        lines = self.get("/metrics").text.splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(f"file:{self.folder}/home/watcher.db?mode=ro", uri=True) as connection:
            return connection.execute(query).fetchall()

    def files(self) -> Counter[str]:
        """Return the files in the events."""
        extras = [json.loads(extra) for (extra,) in self.rows("SELECT extra FROM asset_event")]
        return Counter(file["path"] for extra in extras for file in extra["files"])

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "watcher", *words, "--config", str(self.file)]
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=PATIENCE)


def names(changes: Mapping[str, Any], section: str) -> dict[str, list[str]]:
    return {kind: found for kind, found in changes[section].items() if found}


def test_watchers_are_added_changed_and_removed_without_disturbing_others(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    quiet, changing, going = daemon.watch("quiet"), daemon.watch("changing"), daemon.watch("going")
    daemon.write()
    with daemon.running() as process:
        for folder in (quiet, changing, going):
            arrive(folder / "one")
        until(lambda: sum(daemon.files().values()) == 3)
        assert [daemon.refused_token() for _ in range(21)] == [*[403] * 20, 429]

        coming = daemon.watch("coming")
        daemon.watch("changing", interval="100ms")
        del daemon.document["assets"]["going"]
        daemon.write()
        answer = daemon.reload()
        assert answer.status_code == 200, answer.text
        changes = answer.json()
        assert changes["result"] == "applied"
        assert names(changes, "watchers") == {
            "added": ["coming_files"],
            "changed": ["changing_files"],
            "removed": ["going_files"],
        }
        assert [each["is_current"] for each in changes["processes"]] == [True]
        for folder in (quiet, changing, going, coming):
            arrive(folder / "two")
        until(lambda: sum(daemon.files().values()) == 6)
        until(lambda: {each["state"] for each in daemon.watchers().values()} == {"running"})
        assert daemon.watchers().keys() == {"quiet_files", "changing_files", "coming_files"}
        assert max(daemon.files().values()) == 1, "nothing is told again: the changed one kept its position"
        assert str(going / "two") not in " ".join(daemon.files())
        states = Counter(record["watcher"] for record in daemon.records("watcher.state"))
        assert states["quiet_files"] == 2, "starting and running, once in its life"
        until(
            lambda: (
                len(daemon.rows("SELECT 1 FROM watcher_position WHERE watcher = 'going_files' AND state NOT NULL")) == 1
            )
        )
        ((actor, detail),) = daemon.audit()
        assert (actor, detail["watchers"]) == ("anonymous", changes["watchers"])
        assert daemon.reloads("applied") == 1
        assert daemon.refused_token() == 429, "who has failed too often is not forgotten by a reload"

        daemon.document["assets"]["changing"]["watchers"]["changing_files"]["match"] = "*.csv"
        daemon.write()
        process.send_signal(signal.SIGHUP)
        until(lambda: daemon.watchers()["changing_files"]["state"] == "blocked")
        assert "the source changed" in daemon.watchers()["changing_files"]["error"]
        assert daemon.audit()[0][0] in {"SIGHUP", "file"}

        unchanged = daemon.reloads("unchanged")
        process.send_signal(signal.SIGHUP)
        until(lambda: daemon.reloads("unchanged") > unchanged)
        assert len(daemon.audit()) == 2, "what changes nothing stands in no audit"
        findings = json.loads(daemon.command("check", "--connect", "--json").stdout)
        assert [each["watcher"] for each in findings if each["check"] == "position"] == ["going_files"]

        arrive(quiet / "three")
        until(lambda: sum(daemon.files().values()) == 7)
        assert Counter(record["watcher"] for record in daemon.records("watcher.state"))["quiet_files"] == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_an_invalid_file_changes_nothing_and_is_reported_everywhere_until_it_is_valid(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    inbox = daemon.watch("inbox")
    daemon.write()
    with daemon.running() as process:
        wrong = json.loads(json.dumps(daemon.document))
        wrong["assets"]["inbox"]["watchers"]["inbox_files"] |= {"interval": "soon", "bogus": 1}
        daemon.write(json.dumps(wrong))
        answer = daemon.reload()
        assert answer.status_code == 422
        assert {fault["loc"][-1] for fault in answer.json()["detail"]} == {"interval", "bogus"}
        assert all(fault["file"] == str(daemon.file) for fault in answer.json()["detail"])
        readiness = daemon.get("/readyz")
        assert readiness.is_success
        assert any("the last reload was refused" in line and "bogus" in line for line in readiness.json()["warnings"])
        refused = daemon.command("reload")
        assert (refused.returncode, "bogus" in refused.stderr, "interval" in refused.stderr) == (2, True, True)
        assert any("bogus" in problem for problem in daemon.records("configuration.refused")[0]["problems"])
        assert daemon.reloads("refused") >= 1
        arrive(inbox / "one")
        until(lambda: sum(daemon.files().values()) == 1)
        assert daemon.audit() == []

        endless = json.loads(json.dumps(daemon.document))
        endless["settings"]["scheduler"] = {"parallelism": "endless"}
        daemon.write(json.dumps(endless).replace('"endless"', ".inf"))
        answer = daemon.reload()
        assert answer.status_code == 422, answer.text
        assert any(
            "scheduler.parallelism: must be a finite number" in line
            for line in daemon.get("/readyz").json()["warnings"]
        )

        elsewhere = json.loads(json.dumps(daemon.document))
        elsewhere["settings"]["api"]["base_url"] = "http://elsewhere"
        daemon.write(json.dumps(elsewhere))
        checked = daemon.command("check")
        assert (checked.returncode, "settings.api.base_url" in checked.stdout) == (0, True)
        answer = daemon.reload()
        assert answer.status_code == 422
        assert "settings.api.base_url takes effect at a start only" in answer.text

        daemon.write()
        reloaded = daemon.command("reload", "--json")
        assert reloaded.returncode == 0, reloaded.stderr
        assert not any("reload" in line for line in daemon.get("/readyz").json()["warnings"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


SPOOL = """
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from pydantic import SecretStr
from triggers.base import BaseConnection, BaseOptions, IncrementalTrigger, Position, TriggerBatch

class Spool(BaseConnection):
    journal: Path
    token: SecretStr

    @asynccontextmanager
    async def open(self):
        with self.journal.open("a") as journal:
            print("open", self.token.get_secret_value(), file=journal, flush=True)
            yield self
            print("close", self.token.get_secret_value(), file=journal, flush=True)

class Options(BaseOptions):
    name: str

class Watch(IncrementalTrigger):
    Options = Options
    connection_type = "spool.Spool"
    interval = timedelta(milliseconds=100)

    async def check(self):
        return []

    def source_identity(self):
        return self.options.name

    async def poll(self, position):
        first = Position(watermark=1, state=1)
        yield TriggerBatch(position=None if position else first, caught_up=True)
"""


def test_a_rotated_secret_replaces_only_the_clients_of_its_connection(tmp_path: Path) -> None:
    """Test a class that the daemon imports, and one in a process of its own, which is started again."""
    daemon = Daemon(tmp_path)
    plugins, journal = tmp_path / "plugins", tmp_path / "journal"
    plugins.mkdir()
    (plugins / "spool.py").write_text(SPOOL)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("first\n")
    daemon.document["settings"]["plugins_dir"] = str(plugins)
    connection = {"type": "spool.Spool", "journal": str(journal)}
    daemon.document["connections"] = {
        "rotated": {**connection, "token": f"${{file:{tmp_path}/secrets/token}}"},
        "steady": {**connection, "token": "steady"},
    }
    here = {"trigger": "spool.Watch", "isolation": "none"}
    watchers = {
        "here": {**here, "connection": "rotated", "name": "a"},
        "child": {"trigger": "spool.Watch", "connection": "rotated", "name": "b"},
        "other": {**here, "connection": "steady", "name": "c"},
    }
    daemon.document["assets"]["spool"] = {"watchers": watchers}
    daemon.write()
    with daemon.running() as process:
        until(lambda: {each["state"] for each in daemon.watchers().values()} == {"running"})
        assert Counter(journal.read_text().splitlines()) == {"open first": 2, "open steady": 1}
        (tmp_path / "secrets" / "next").write_text("r0tated\n")
        (tmp_path / "secrets" / "next").replace(tmp_path / "secrets" / "token")
        until(lambda: Counter(journal.read_text().splitlines())["open r0tated"] == 2)
        until(lambda: "close first" in journal.read_text())
        assert [line for line in journal.read_text().splitlines() if "steady" in line] == ["open steady"]
        until(lambda: {each["state"] for each in daemon.watchers().values()} == {"running"})
        ((actor, detail),) = daemon.audit()
        assert (actor, detail["connections"]["changed"]) == ("file", ["rotated"])
        assert "r0tated" not in json.dumps(detail)
        assert "r0tated" not in (tmp_path / "daemon.log").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_written_file_and_a_swapped_link_are_noticed(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.watch("inbox")
    etc = daemon.file.parent

    def publish(edition: str) -> None:
        """Publish the file as a ConfigMap does: in a folder of its own, behind a link that is swapped."""
        (etc / edition).mkdir()
        (etc / edition / "watchers.yaml").write_text(json.dumps(daemon.document))
        (etc / "..data_new").symlink_to(edition)
        (etc / "..data_new").replace(etc / "..data")

    publish("first")
    daemon.file.symlink_to("..data/watchers.yaml")
    with daemon.running():
        daemon.watch("second")
        publish("second_edition")
        until(lambda: "second_files" in daemon.watchers())
        daemon.watch("third")
        daemon.write()
        until(lambda: "third_files" in daemon.watchers())
        assert [actor for actor, _ in daemon.audit()] == ["file", "file"]


@on_both
@pytest.mark.feature("catchup")
def test_the_answer_of_a_reload_has_the_counts_of_the_reload_that_the_daemon_made_by_itself(
    database_url: str, tmp_path: Path
) -> None:
    (inbox := tmp_path / "inbox").mkdir()
    files = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s", "start": "all"}
    assets = {"inbox": {"uri": f"file://{inbox}", "watchers": {"files": files}}, "other": {"uri": "x://other"}}
    waiting = {"schedule": "inbox", "paused": True, "spark": {"application": "job.py"}}
    before = {"assets": assets, "jobs": {"stays": waiting, "goes": waiting}}
    after = {
        "assets": assets,
        "jobs": {"stays": {**waiting, "schedule": "other"}, "late": {**waiting, "catchup": True}, "never": waiting},
    }
    with Daemons(tmp_path, before, database_url) as daemons:
        daemons.start()
        arrive(inbox / "one")
        until(lambda: daemons.is_ready() and daemons.get("/api/v2/assets/events")["total_entries"] == 1)
        changed = json.loads(daemons.configuration.read_text()) | after
        (new := tmp_path / "new.yaml").write_text(json.dumps(changed))
        new.replace(daemons.configuration)
        until(lambda: daemons.records("configuration.reloaded"))
        answers = [loopback.post(f"{daemons.address}/api/v2/reload", timeout=60).json() for _ in range(2)]
        assert daemons.records("configuration.reloaded")[0]["actor"] == "file"
        daemons.stop()
        daemons.start()  # with the configuration that is applied already
        until(daemons.is_ready)
        answers.append(loopback.post(f"{daemons.address}/api/v2/reload", timeout=60).json())
    words = ("result", "dropped", "kept", "caught_up", "left_out")
    assert [{word: answer[word] for word in words} for answer in answers] == 3 * [
        {"result": "unchanged", "dropped": 1, "kept": {"stays": 1}, "caught_up": {"late": 1}, "left_out": {"never": 1}}
    ]
