"""The list of features is data, and what stands behind each path of it is what the contract says."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from sqlalchemy import Select, Table

from config.models import Configuration
from store.processes.cleanup import Chore
from watcher import assembly
from watcher.feature import CONTRACT, Feature
from watcher.features import BUILT_IN
from watcher.installed import installed, resolve

FOLDER = Path(__file__).parents[3] / "watcher/features"
FEATURES = {name: resolve(f"watcher.features.{name}.feature.FEATURE") for name in BUILT_IN}


def is_called_with(*parameters: str) -> Callable[[Any], bool]:
    """Return whether something is an async function whose first parameters, all that must be given, have these names."""

    def check(function: Any) -> bool:
        required = [
            each.name
            for each in inspect.signature(function).parameters.values()
            if each.default is inspect.Parameter.empty
        ]
        return inspect.iscoroutinefunction(function) and [name.lstrip("_") for name in required] == [*parameters]

    return check


def declares(function: Any) -> bool:
    hints = get_type_hints(function)
    return next(iter(hints.values())) is Configuration and hints["return"].__name__ == "Applies"


KINDS: dict[str, Callable[[Any], bool]] = {
    "after_events": is_called_with("connection", "events"),
    "applies": is_called_with("connection", "applied"),
    "tables": lambda made: all(isinstance(each, Table) for each in made),
    "declares": declares,
    "keeps_events": lambda made: isinstance(made, Select) and len(made.selected_columns) == 1,
    "chores": lambda made: isinstance(made, Sequence) and all(isinstance(each, Chore) for each in made),
}
"""How what is resolved of a hook is recognized."""


def test_the_folders_of_features_are_the_list() -> None:
    folders = [path.parent.name for path in FOLDER.glob("*/feature.py")]
    assert sorted(folders) == sorted(BUILT_IN)
    assert {name: feature.name for name, feature in FEATURES.items()} == {name: name for name in BUILT_IN}
    assert {feature.contract for feature in FEATURES.values()} == {CONTRACT}


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_feature_file_imports_only_the_contract(name: str) -> None:
    """Who reads the list loads nothing else."""
    tree = ast.parse((FOLDER / name / "feature.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= {"__future__", "collections.abc", "typing", "watcher.feature"}
    assert not any(isinstance(node, ast.Import) for node in ast.walk(tree))


HOOKS = [
    (name, each.name)
    for name, feature in FEATURES.items()
    for each in fields(Feature)
    if each.name in KINDS and getattr(feature, each.name)
]


@pytest.mark.parametrize(("name", "hook"), HOOKS)
def test_behind_a_path_stands_what_the_contract_says(name: str, hook: str) -> None:
    assert KINDS[hook](resolve(getattr(FEATURES[name], hook)))


def test_hooks_run_in_the_order_of_the_list() -> None:
    features = installed().features
    for made in (assembly.event_hooks(features).features, assembly.declarations(features)):
        assert [*made] == [name for name in BUILT_IN if name in made]
