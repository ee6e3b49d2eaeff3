"""Without the feature `isolation`, what needs a process of its own is refused by one sentence, and the rest works."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from config.errors import ConfigurationInvalid
from config.models import Configuration
from config.reading.loader import load
from tests.contract.sources import PLUGINS
from triggers.base import BaseOptions, TriggerContext
from triggers.errors import ConfigurationError
from watcher.configuration.sources import hosted
from watcher.configuration.vocabulary import vocabulary
from watcher.triggerer.clients import Clients, ForeignTrigger, Hosted

REMEDY = "the feature `isolation` is not there: write `isolation: none`, and the trigger runs in this process"


def loaded(folder: Path, watcher: str) -> Configuration:
    path = folder / "watchers.yaml"
    path.write_text(
        f"version: 1\nsettings: {{plugins_dir: {PLUGINS}}}\n"
        "connections: {board: {type: notice_board.BoardConnection, url: 'http://127.0.0.1:9', token: t}}\n"
        f"assets:\n  a:\n    watchers:\n      w: {{{watcher}}}\n"
    )
    return load(path, vocabulary(), {})


@pytest.mark.parametrize(
    ("watcher", "name"),
    [
        ("trigger: notice_board.NewNotices, connection: board, topic: t", "notice_board.NewNotices"),
        ("trigger: file.new_files, path: /in, isolation: process", "file.new_files"),
    ],
)
def test_a_process_of_its_own_is_refused_with_the_remedy(tmp_path: Path, watcher: str, name: str) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        loaded(tmp_path, watcher)
    [problem] = refused.value.problems
    assert problem.message == f"`{name}` needs a process of its own; {REMEDY}"


@pytest.mark.parametrize(
    "watcher",
    [
        "trigger: notice_board.NewNotices, connection: board, topic: t, isolation: none",
        "trigger: file.new_files, path: /in",
    ],
)
def test_what_runs_in_this_process_is_hosted_here(tmp_path: Path, watcher: str) -> None:
    assert hosted(loaded(tmp_path, watcher), {"a": 1})["w"].trigger.is_here


async def test_a_foreign_trigger_is_refused_when_it_is_opened() -> None:
    trigger = ForeignTrigger(path="odd.Odd", options={}, connection=None, folder=Path("/"))
    watcher = Hosted(name="w", asset="a", asset_id=1, trigger=trigger, options=BaseOptions(), connection=None)
    async with anyio.create_task_group() as tasks:
        clients = Clients({}, tasks)
        with pytest.raises(ConfigurationError, match=f"w needs a process of its own; {REMEDY}"):
            async with trigger.open(watcher, clients, TriggerContext(watcher="w")):
                pytest.fail("it was opened")
