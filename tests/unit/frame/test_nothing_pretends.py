"""Nothing is kept that nobody uses: settings are read, columns are selected, packages are imported.

The tests read only the source, by names. A setting counts as read if its name is an attribute of something that is named or
annotated like its section. A column counts as selected if it is taken from its table outside of `values(...)`, or if it belongs
to the primary key, which is read whenever a row is written. A statement written as text counts by its words. So the tests find
what no code mentions. They do not prove that a setting has an effect, nor that a selected column is used. If a statement takes
the table as a parameter, the column counts for every table that has a column of its name.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel
from sqlalchemy import Table

from config.models import settings
from store.database import access, schema
from tests import features
from watcher.features import BUILT_IN

ROOT = Path(__file__).parents[3]
TABLES: Mapping[str, Table] = {table.name: table for table in features.TABLES}
DECLARING = (access.__name__, schema.__name__, *(f"store.features.{name}.tables" for name in BUILT_IN))
"""The modules that declare tables; the second one lists what the first one has, too."""

UNREAD_SETTINGS: Mapping[str, str] = {}
"""Settings that nothing reads yet, and why they are there."""

UNSELECTED_COLUMNS: Mapping[str, str] = {}
"""Columns that nothing selects yet, and why they are there."""

UNIMPORTED: Mapping[str, str] = {
    "aiosqlite": "SQLAlchemy, for sqlite+aiosqlite://",
    "httptools": "uvicorn parses HTTP by it",
    "uvloop": "anyio runs on it; the command line looks whether it is there",
    "s3fs": "fsspec, for s3:// of the worker-side backend",
    "import-linter": "make check",
    "mypy": "make check",
    "pytest-cov": "make test, in CI",
    "ruff": "make check",
    "schemathesis": "the tests, as a program that asks the API thousands of times",
    "podman-compose": "tests/container/test_deploy.py runs it",
    "uv": "make requirements",
}
"""Distributions that this project does not import, and what needs them."""

UNUSED: Mapping[str, str] = {}
"""Names and values that stand for something that is not built, and why they are there."""


@cache
def trees(*folders: str) -> Mapping[Path, ast.Module]:
    files = (file for folder in folders for file in sorted((ROOT / folder).rglob("*.py")))
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


def last_name(node: ast.AST | None) -> str:
    """Return the last name: `settings` for `self._settings`, `app.settings` and `settings`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lstrip("_")
    return ""


def section_fields(model: type[BaseModel], name: str = "settings") -> Iterator[tuple[str, type[BaseModel], str]]:
    """Yield each setting: the section's name, its model, the name of the field."""
    for field, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from section_fields(info.annotation, field)
        else:
            yield name, model, field


def settings_read() -> set[tuple[str, str]]:
    """Return pairs of an object's name and an attribute's name. Names annotated with a model count as the model's."""
    read = set()
    for tree in trees("store", "triggers", "watcher").values():
        called: dict[str, set[str]] = defaultdict(set)
        for node in ast.walk(tree):
            match node:
                case (
                    ast.arg(arg=name, annotation=ast.expr() as kind)
                    | ast.AnnAssign(target=ast.Name(id=name), annotation=kind)
                ):
                    called[name.lstrip("_")].add(last_name(kind))
                case ast.Assign(targets=[target], value=value):
                    called[last_name(target)].add(last_name(value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                base = last_name(node.value)
                read |= {(name, node.attr) for name in (base, *called[base])}
    return read


def test_each_setting_is_read_outside_of_the_configuration() -> None:
    read = settings_read()
    unread = {
        f"{section}.{field}"
        for section, model, field in section_fields(settings.Settings)
        if not {(section, field), (model.__name__, field)} & read
    }
    assert unread == UNREAD_SETTINGS.keys()


class Columns(ast.NodeVisitor):
    """The columns that one module selects, as `table.column`."""

    def __init__(self) -> None:
        self.selected: set[str] = set()
        self._tables: dict[str, Table | None] = {}
        """Local names of tables, and of values that are tables although the source does not show which."""
        self._columns: dict[str, Table | None] = {}
        """Local names of a table's columns: `t = task_instance.c`."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module in DECLARING:
            declaring = import_module(str(node.module))
            imported = {each.asname or each.name: getattr(declaring, each.name) for each in node.names}
            self._tables |= {name: each for name, each in imported.items() if isinstance(each, Table)}

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            pairs = (
                zip(target.elts, node.value.elts, strict=True)
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                else [(target, node.value)]
            )
            for name, value in pairs:
                self._bind(name, value)
        self.generic_visit(node)

    def _bind(self, target: ast.AST, value: ast.AST) -> None:
        match target, value:
            case ast.Name(id=name), ast.Attribute(value=table, attr="c"):
                self._columns[name] = self._table(table)
            case ast.Name(id=name), ast.Call(func=ast.Attribute(value=table, attr="alias")):
                self._tables[name] = self._table(table)

    def _table(self, node: ast.AST) -> Table | None:
        match node:
            case ast.Name(id=name):
                return self._tables.get(name)
            case ast.Call(func=ast.Attribute(value=table, attr="alias")):
                return self._table(table)
        return None

    def visit_Call(self, node: ast.Call) -> None:
        called = last_name(node.func)
        if called in {"select", "returning"}:
            for table in map(self._table, node.args):
                self._select_all(table)
        self.visit(node.func)
        if called == "values":  # columns that are written
            return
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg != "set_":
                self.visit(keyword.value)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Count a loop over all columns of a table as selecting them."""
        match node.iter:
            case ast.Attribute(value=table, attr="c"):
                self._select_all(self._table(table))
            case ast.Name(id=name):
                self._select_all(self._columns.get(name))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        match node.value:
            case ast.Attribute(value=table, attr="c"):
                self._select(self._table(table), node.attr)
            case ast.Name(id=name) if name in self._columns:
                self._select(self._columns[name], node.attr)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Read statements written as SQL, without the columns that they write."""
        if isinstance(node.value, str) and re.search(r"\b(SELECT|RETURNING|WHERE)\b", node.value):
            words = set(re.findall(r"\w+", re.sub(r"INSERT INTO \w+ \([^)]*\)|(?<=SET )\w+ =|, \w+ =", "", node.value)))
            for table in TABLES.values():
                if table.name in node.value:
                    self.selected |= {f"{table.name}.{name}" for name in words.intersection(table.c.keys())}

    def _select_all(self, table: Table | None) -> None:
        if table is not None:
            self.selected |= {f"{table.name}.{column.name}" for column in table.c}

    def _select(self, table: Table | None, column: str) -> None:
        tables = TABLES.values() if table is None else [table]
        self.selected |= {f"{each.name}.{column}" for each in tables if column in each.c}


def test_each_column_is_selected() -> None:
    selected = set()
    for file, tree in trees("store", "watcher", "sdk").items():
        if "migrations" not in file.parts:
            columns = Columns()
            columns.visit(tree)
            selected |= columns.selected
    every = [column for table in TABLES.values() for column in table.c]
    declared = {f"{column.table.name}.{column.name}" for column in every if not column.primary_key}
    assert declared - selected == UNSELECTED_COLUMNS.keys()


IMPORT = re.compile(r"""^\s*(?:import|from)\s+(\w+)|importorskip\("(\w+)""", re.MULTILINE)


def imported(*folders: str) -> set[str]:
    """Return the top-level names that the code imports. They are read line by line: tests are not parsed here."""
    texts = (file.read_text(encoding="utf-8") for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return {name for text in texts for names in IMPORT.findall(text) for name in names}


def test_each_distribution_is_imported() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    ours = imported("config", "store", "triggers", "watcher", "sdk")
    everything = ours | imported("tests", "bench")
    modules: dict[str, set[str]] = defaultdict(set)
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            modules[canonicalize_name(distribution)].add(module)
    unimported = set()
    for lines, importers in ((project["dependencies"], ours), (extras, everything)):
        for line in lines:
            name = canonicalize_name(Requirement(line).name)
            if name != project["name"] and not modules[name] & importers:
                unimported.add(name)
    assert unimported == UNIMPORTED.keys()


def test_names_reserved_for_a_later_release_are_still_unused() -> None:
    """A name that is used now must be removed from the list."""
    used = set()
    for tree in trees("store", "triggers", "watcher").values():
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
                    used.add(name)
    assert used.isdisjoint(UNUSED)
