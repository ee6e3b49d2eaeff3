"""docs/postgres.md and docs/postgres-log.md name every option and every check, and their examples are valid."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from triggers.changes.options import ChangesOptions
from triggers.changes.trigger import PostgresChanges
from triggers.postgres.catalog import checks, table_checks
from triggers.postgres.new_rows import NewRows
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.reading import alarms
from triggers.postgres.table import examination, row_examination


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "postgres.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page_of_changes(root: Path) -> str:
    return (root / "docs" / "postgres-log.md").read_text(encoding="utf-8")


def table(page: str, heading: str) -> set[str]:
    """Return the first cells of the table with this heading."""
    [found] = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    return set(re.findall(r"^\| `([^`]+)` \|", found, re.MULTILINE))


def keys(options: type[BaseModel]) -> set[str]:
    names: set[str] = set()
    for name, field in options.model_fields.items():
        kind = field.annotation
        inner = keys(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        names |= {name} if inner is None else {f"{name}.{one}" for one in inner}
    return names


def test_every_check_is_explained(page: str) -> None:
    code = "".join(map(inspect.getsource, (checks, table_checks, examination, row_examination, alarms)))
    names = set(re.findall(r"(?:Finding\.(?:ok|warning|error)\(|try_statement\(table,)\s*\"([^\"]+)\"", code))
    assert table(page, "check") == names


def test_every_option_is_explained(page: str) -> None:
    assert table(page, "option") == keys(NewRowsOptions)


def test_every_option_of_changes_is_explained(page_of_changes: str) -> None:
    assert table(page_of_changes, "option") == keys(ChangesOptions)


def example(page: str) -> tuple[str, Mapping[str, Any]]:
    """Return the URI of the asset in the page's example, and the options of its watcher."""
    [text] = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [asset] = YAML(typ="safe").load(text)["assets"].values()
    [watcher] = asset["watchers"].values()
    return asset["uri"], {name: value for name, value in watcher.items() if name not in {"trigger", "connection"}}


def test_the_example_of_changes_is_valid(page_of_changes: str) -> None:
    uri, options = example(page_of_changes)
    assert ChangesOptions.model_validate({**PostgresChanges.defaults(uri), **options}).table == "public.customers"


def test_the_example_is_valid(page: str) -> None:
    uri, options = example(page)
    assert NewRowsOptions.model_validate({**NewRows.defaults(uri), **options}).table == "public.customers"
