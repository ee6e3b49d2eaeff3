"""docs/writing-a-feature.md shows the code of examples/feature, and names every hook and every module that a feature may import."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from watcher.feature import CONTRACT, OPEN, Feature

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "writing-a-feature.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "feature"
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLE.glob("*/*.py")}
PUBLIC = {
    module: set(re.findall("`([^`]+)`", names))
    for module, names in re.findall(r"^\| `([a-z_.]+\.[a-z_.]+)` \| (.+) \|$", PAGE, re.MULTILINE)
}
NO_HOOKS = {"name", "contract", "needs", "tables_version", "help_groups"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page_is_that_of_the_example() -> None:
    assert len(blocks("python")) == 6
    assert [block for block in blocks("python") if not any(block in source for source in SOURCES.values())] == []


def test_the_entry_point_of_the_page_is_that_of_the_example() -> None:
    [shown] = map(tomllib.loads, blocks("toml"))
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"] == shown["project"]["entry-points"]


def test_the_settings_of_the_page_are_those_of_the_example() -> None:
    [shown] = map(YAML(typ="safe").load, blocks("yaml"))
    assert (
        YAML(typ="safe").load((EXAMPLE / "watchers.yaml").read_text(encoding="utf-8"))["settings"] == shown["settings"]
    )


def test_every_hook_is_on_the_page_as_open_or_closed() -> None:
    table = re.findall(r"^\| `([a-z_]+)` \| ", PAGE.partition("### Settings")[0], re.MULTILINE)
    assert sorted(table) == sorted(OPEN)
    closed = PAGE.partition("## What it may not bring")[2].partition(" are for the daemon's own")[0]
    every = {each.name for each in fields(Feature)} - NO_HOOKS
    assert set(re.findall("`([a-z_]+)`", closed)) == every - OPEN


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_what_a_feature_may_import_is_there(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in PUBLIC[module] if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_example_imports_only_what_a_feature_may(name: str) -> None:
    ours = {"config", "store", "triggers", "watcher"}
    for node in ast.walk(ast.parse(SOURCES[name])):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in ours:
            assert {alias.name for alias in node.names} <= PUBLIC[str(node.module)], node.module
        assert not isinstance(node, ast.Import) or not {alias.name.partition(".")[0] for alias in node.names} & ours


def test_the_example_is_small_and_says_which_contract_it_is_written_for() -> None:
    assert sum(source.count("\n") for source in SOURCES.values()) < 200
    assert f"contract={CONTRACT}," in SOURCES["feature.py"]
