"""docs/postgres.md names every option and every check, and its example is valid."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from triggers.postgres.catalog import checks
from triggers.postgres.new_rows import NewRows
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.reading import alarms
from triggers.postgres.table import examination


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "postgres.md").read_text(encoding="utf-8")


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
    code = "".join(map(inspect.getsource, (checks, examination, alarms)))
    names = set(re.findall(r"(?:Finding\.(?:ok|warning|error)\(|_try\(table,)\s*\"([^\"]+)\"", code))
    assert table(page, "check") == names


def test_every_option_is_explained(page: str) -> None:
    assert table(page, "option") == keys(NewRowsOptions)


def test_the_example_is_valid(page: str) -> None:
    [text] = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [asset] = YAML(typ="safe").load(text)["assets"].values()
    [watcher] = asset["watchers"].values()
    options = {name: value for name, value in watcher.items() if name not in {"trigger", "connection"}}
    assert NewRowsOptions.model_validate({**NewRows.defaults(asset["uri"]), **options}).table == "public.customers"
