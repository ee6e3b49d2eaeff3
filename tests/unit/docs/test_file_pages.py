"""docs/s3.md and docs/files.md name every option, and their examples are valid."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from triggers.base import BaseEventTrigger
from triggers.local_folder.new_files import FileNewFiles
from triggers.options import parse_bytes, parse_duration
from triggers.s3.connection import S3Connection
from triggers.s3.failures import REMEDIES
from triggers.s3.new_files import S3NewFiles

PAGES: Mapping[str, type[BaseEventTrigger[Any, Any]]] = {"s3.md": S3NewFiles, "files.md": FileNewFiles}


@pytest.fixture(params=PAGES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read(root: Path, name: str) -> str:
    return (root / "docs" / name).read_text(encoding="utf-8")


def rows(page: str, heading: str) -> dict[str, str]:
    """Return the table with this heading: the second cells by the first."""
    [found] = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    return dict(re.findall(r"^\| (.+?) \| (.*?) \|", found, re.MULTILINE))


def defaults(options: type[BaseModel], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, field in options.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= defaults(field.annotation, f"{name}.")
        else:
            found[f"`{before}{name}`"] = field.default
    return found


def test_every_option_is_explained_with_its_default(root: Path, name: str) -> None:
    told, true = rows(read(root, name), "option"), defaults(PAGES[name].Options)
    assert told.keys() == true.keys()
    for option, default in true.items():
        if isinstance(default, timedelta):
            assert parse_duration(told[option].strip("`")) == default
        elif option.endswith("_bytes`"):
            assert parse_bytes(told[option].strip("`")) == default
        elif isinstance(default, bool | int):
            assert told[option] == f"`{json.dumps(default)}`"
        elif option in ("`start`", "`mode`"):
            assert told[option] == f"`{default}`"


def test_the_example_is_valid(root: Path, name: str) -> None:
    trigger = PAGES[name]
    [text] = re.findall(r"^```yaml\n(.*?)^```", read(root, name), re.MULTILINE | re.DOTALL)
    [asset] = YAML(typ="safe").load(text)["assets"].values()
    [watcher] = asset["watchers"].values()
    options = {key: value for key, value in watcher.items() if key not in {"trigger", "connection"}}
    trigger.Options.model_validate({**trigger.defaults(asset["uri"]), **options})


def test_every_key_of_the_connection_is_explained(root: Path) -> None:
    assert rows(read(root, "s3.md"), "key").keys() == defaults(S3Connection).keys() - {"`type`"}


def test_every_error_has_its_remedy(root: Path) -> None:
    told = set(re.findall(r"`(\w+)`", " ".join(rows(read(root, "s3.md"), "code"))))
    assert told == REMEDIES.keys() | {"NoCredentials", "NoDate", "OutOfOrder"}
