"""The site has the version and the repository, and every page of the docs is in its navigation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_links", ROOT / "tools" / "site_links.py")
    assert spec is not None and spec.loader is not None  # noqa: PT018  what mypy reads
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://git.example/team/watcher.git", "https://git.example/team/watcher"),
        ("https://me:secret@git.example/team/watcher", "https://git.example/team/watcher"),
        ("git@git.example:team/watcher.git", "https://git.example/team/watcher"),
        ("ssh://git@git.example/team/watcher/", "https://git.example/team/watcher"),
        ("/srv/git/watcher", ""),
        ("", ""),
    ],
)
def test_the_repository_is_the_web_address_of_the_origin(hook: ModuleType, remote: str, address: str) -> None:
    assert hook.web_address(remote) == address


def test_the_name_has_the_version(hook: ModuleType, root: Path) -> None:
    [version] = [
        line.split('"')[1] for line in (root / "pyproject.toml").read_text().splitlines() if line.startswith("version")
    ]
    config: dict[str, Any] = hook.on_config({"site_name": "Asset Watcher"})
    assert config["site_name"] == f"Asset Watcher {version}"


def test_people_choose_between_light_dark_and_what_the_browser_asks(root: Path) -> None:
    palette = YAML(typ="safe").load(root / "mkdocs.yml")["theme"]["palette"]
    assert [part.get("scheme") for part in palette] == [None, "default", "slate"]
    assert all("toggle" in part and "media" in part for part in palette)
