"""The example of docs/writing-a-trigger.md runs, and keeps what its page promises."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

from triggers.base import Position, StoredPosition, TriggerContext
from triggers.errors import SourceChanged, SourceUnavailable

PAGE = Path(__file__).resolve().parents[3] / "docs" / "writing-a-trigger.md"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The page's module, imported as a plug-in is: by its name, from a folder on the path."""
    found = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "new_lines.py").write_text(found[1], encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("new_lines")
        patch.delitem(sys.modules, "new_lines")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "shop.log"
    path.write_text("first\nsecond\nunfini")
    return path


def new_trigger(example: ModuleType, path: Path) -> Any:
    options = example.NewLines.Options.model_validate({"path": str(path), "interval": "1ms"})
    return example.NewLines(options, None, TriggerContext(watcher="shop_log_lines"))


def stored(position: Position | None) -> StoredPosition | None:
    return None if position is None else StoredPosition(state=position.state)


async def polled(trigger: Any, position: Position | None) -> tuple[list[str], Position | None]:
    """Poll once. Return the emitted lines and the new position."""
    lines: list[str] = []
    async with aclosing(trigger.poll(stored(position))) as batches:
        async for batch in batches:
            lines += [line for event in batch.events for line in event.payload["lines"]]
            position = batch.position
    return lines, position


async def test_each_complete_line_is_emitted_once_over_restarts(example: ModuleType, log: Path) -> None:
    lines, position = await polled(new_trigger(example, log), None)
    assert lines == ["first", "second"]
    with log.open("a") as file:
        file.write("shed\nfourth\n")
    lines, position = await polled(new_trigger(example, log), position)
    assert lines == ["unfinished", "fourth"]
    assert await polled(new_trigger(example, log), position) == ([], position)


async def test_uncommitted_lines_are_emitted_again(example: ModuleType, log: Path) -> None:
    async with aclosing(new_trigger(example, log).events(None)) as batches:
        start = (await anext(batches)).position
        assert [event.count for event in (await anext(batches)).events] == [2]
    lines, _ = await polled(new_trigger(example, log), start)
    assert lines == ["first", "second"]


async def test_a_shorter_and_a_missing_file_are_distinguished(example: ModuleType, log: Path) -> None:
    _, position = await polled(new_trigger(example, log), None)
    log.write_text("")
    with pytest.raises(SourceChanged, match="shorter"):
        await polled(new_trigger(example, log), position)
    log.unlink()
    with pytest.raises(SourceUnavailable, match="gone"):
        await polled(new_trigger(example, log), position)


async def test_the_check_names_the_remedy(example: ModuleType, log: Path) -> None:
    assert [finding.level for finding in await new_trigger(example, log).check()] == ["ok"]
    log.unlink()
    (finding,) = await new_trigger(example, log).check()
    assert (finding.level, finding.remedy) == ("error", "create it, or correct `path`")


def test_the_other_code_of_the_page_is_that_of_the_tested_plug_in() -> None:
    _, *pieces = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    plug_in = (PAGE.parents[1] / "tests" / "plugins" / "notice_board.py").read_text(encoding="utf-8")
    assert [piece for piece in pieces if piece not in plug_in and indent(piece, "    ") not in plug_in] == []


def test_the_yaml_of_the_page_fits_the_options(example: ModuleType) -> None:
    found = re.search(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    (asset,) = YAML(typ="safe").load(found[1])["assets"].values()
    (watcher,) = asset["watchers"].values()
    assert watcher.pop("trigger") == "new_lines.NewLines"
    assert example.NewLines.Options.model_validate(watcher).path == Path("/var/log/shop.log")
