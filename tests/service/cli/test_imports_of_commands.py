"""Each command imports only what it needs, so that it ends soon. Modules are counted, because times depend on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from typer.main import get_command

from tests.effort import PATIENCE
from watcher.cli.app import app
from watcher.cli.program import commands
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

CONFIGURATION: Final = """
version: 1
settings: {{api: {{port: {port}}}}}
assets:
  landing:
    watchers:
      landing_files: {{trigger: file.new_files, path: {path}}}
jobs:
  load:
    schedule: landing
    spark: {{application: job.py}}
"""
PROGRAM: Final = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps([name for name, module in sys.modules.items() if module is not None]), file=sys.stderr))
from watcher.guard import main
main()
"""
SERVER: Final = {"fastapi", "starlette", "uvicorn", "jinja2", "prometheus_client"}
SOURCES: Final = {"aiobotocore", "botocore", "asyncpg", "pyspark"}
HEAVY: Final = {*SERVER, *SOURCES, "sqlalchemy.orm", "alembic", "config.models.jobs"}
MOST_MODULES: Final = 680
"""A third of them are Python's own. A command that asks a daemon has some 650, also one that opens the database. Fifty are
the features' declarations, which take 4 ms together."""
OF_DATABASE: Final = {"token", "db"}
ONE: Final = ("landing_files",)
ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "reload": (),
    "pause": ONE,
    "resume": ONE,
    "logs": ONE,
    "poll": (*ONE, "--dry-run"),
    "rewind": (*ONE, "--to", "now", "--preview"),
    "status": (),
    "explain": ("a.csv",),
    "open": (),
    "sign-in-link": (),
    "schema": (),
    "reconcile": ONE,
    "replay": ("load", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z", "--preview"),
    "watchers list": (),
    "watchers show": ONE,
    "watchers findings": ONE,
    "watchers resolve": ONE,
    "watchers polls": ONE,
    "watchers rename": ("old", "new"),
    "rejected list": ONE,
    "rejected retry": ONE,
    "assets list": (),
    "assets show": ("landing",),
    "assets events": ("landing",),
    "jobs list": (),
    "jobs show": ("load",),
    "jobs pause": ("load",),
    "jobs resume": ("load",),
    "jobs queue": ("load",),
    "runs list": (),
    "runs show": ("load", "none"),
    "runs start": ("none",),
    "runs retry": ("load", "none"),
    "runs cancel": ("load", "none"),
    "runs resolve": ("load", "none"),
    "runs logs": ("load", "none"),
    "store list": ("landing",),
    "store get": ("landing", "landing_files.watermark"),
    "store set": ("landing", "k", "1"),
    "store history": ("landing", "k"),
    "store undo": ("landing", "k"),
    "store delete": ("landing", "k"),
    "db check": (),
    "token create": ("--subject", "ann", "--role", "viewer"),
    "token list": (),
    "token rotate": ("--subject", "ann"),
    "token revoke": ("--subject", "ann"),
}
"""The commands of every day. Some of these end with a sentence, because there is no such thing."""
WORKING: Final = {
    "run": "is the daemon",
    "demo": "starts servers and Spark",
    "runs watch": "goes on",
    "init": "checks the whole configuration that it writes",
    "db upgrade": "migrates",
    "state-store cleanup-task-states": "is the whole clean-up, of all tables",
    "check": "reads the whole configuration, and with --connect opens sources and the database; tests/unit/cli/test_imports.py has its imports",
    "spark archive": "starts Java",
    "pg install-notify": "reads the whole configuration",
    "pg install-publication": "reads the whole configuration",
    "pg drop-slot": "opens a watched database",
    "kubernetes manifest": "is run once for a cluster",
    "kubernetes forget": "asks a cluster",
}
"""The commands that do long work themselves, and why."""


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    for name, each in command.commands.items():
        if hasattr(each, "commands"):
            yield from leaves(each, (*words, name))
        else:
            yield " ".join((*words, name))


def test_each_command_is_in_one_of_the_tables():
    assert sorted(leaves(get_command(app))) == sorted([*ARGUMENTS, *WORKING])


def test_each_first_word_is_in_the_part_that_has_it():
    assert sorted({leaf.split()[0] for leaf in leaves(get_command(app))}) == sorted(commands())


@pytest.mark.slow
async def test_each_command_imports_only_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "job.py").touch()
    port = free_port()
    file = tmp_path / "watchers.yaml"
    file.write_text(CONFIGURATION.format(port=port, path=tmp_path / "inbox"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WATCHER_")}
    imported: dict[str, set[str]] = {}
    misused: list[tuple[str, bytes]] = []
    async with running_daemon(file, f"http://127.0.0.1:{port}", environment):
        for words, arguments in ARGUMENTS.items():
            command = [sys.executable, "-c", PROGRAM, *words.split(), *arguments]
            with anyio.fail_after(PATIENCE):
                ended = await anyio.run_process(
                    command, check=False, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL
                )
            imported[words] = set(json.loads(ended.stderr.decode().splitlines()[-1]))
            if ended.returncode not in {0, 4, 5}:
                misused.append((words, ended.stderr[:1000]))
    assert misused == []
    assert {words: modules & HEAVY for words, modules in imported.items() if modules & HEAVY} == {}
    of_database = {words for words, modules in imported.items() if "sqlalchemy" in modules}
    assert {words.split()[0] for words in of_database} == OF_DATABASE
    assert {words: len(modules) for words, modules in imported.items() if len(modules) > MOST_MODULES} == {}
