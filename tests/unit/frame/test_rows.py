"""The store's functions return classes that list their fields. No row of a database library leaves the store."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROWS = {"Row", "RowMapping", "MappingResult", "CursorResult"}


def names_in(annotation: ast.expr | None) -> set[str]:
    """Return the names in an annotation, also in one that is a string."""
    nodes = [] if annotation is None else list(ast.walk(annotation))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    named = {node.id for node in nodes if isinstance(node, ast.Name)}
    return named | {name for text in texts for name in names_in(ast.parse(text, mode="eval").body)}


def public_functions(module: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield node


@pytest.mark.parametrize("room", ["catalog", "detection", "processes", "runs", "state"])
def test_no_room_of_the_store_returns_rows(room: str) -> None:
    modules = list((ROOT / "store" / room).glob("*.py"))
    giving = [
        f"{module.name}: {function.name}"
        for module in modules
        for function in public_functions(module)
        if names_in(function.returns) & ROWS
    ]
    assert modules
    assert giving == []


def test_the_daemon_uses_no_rows() -> None:
    modules = list((ROOT / "watcher").rglob("*.py"))
    knowing = [str(module) for module in modules if "RowMapping" in module.read_text(encoding="utf-8")]
    assert modules
    assert knowing == []


def test_names_are_found_inside_annotations() -> None:
    function = next(iter(ast.parse("async def f() -> 'tuple[Sequence[RowMapping], int]': ...").body))
    assert isinstance(function, ast.AsyncFunctionDef)
    assert names_in(function.returns) >= {"RowMapping", "int"}
