"""Prepares the site: its name has the version, its header the repository, and links to files that are no pages become text."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

_ROOT = Path(__file__).parents[1]
_REMOTE = re.compile(r"(?:https?://(?:[^@/]+@)?|(?:ssh://)?git@)([^:/]+)[:/](.+?)(?:\.git)?/?")
_LINK = re.compile(r"\[([^\]]+)\]\((\.\.?/[^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Called by MkDocs once, https://www.mkdocs.org/dev-guide/plugins/#on_config."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config["site_name"] = f"{config['site_name']} {project['version']}"
    config["repo_url"] = repository()
    return config


def repository() -> str:
    """Return the web address of the clone's origin, without credentials; '' if it has none on another machine."""
    asked = subprocess.run(
        ["/usr/bin/env", "git", "remote", "get-url", "origin"], cwd=_ROOT, capture_output=True, text=True, check=False
    )
    return web_address(asked.stdout.strip())


def web_address(remote: str) -> str:
    """Return the web address of a git remote; '' if it is a folder."""
    match = _REMOTE.fullmatch(remote)
    return f"https://{match[1]}/{match[2]}" if match else ""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called by MkDocs for each page, https://www.mkdocs.org/dev-guide/plugins/#on_page_markdown."""
    folder = PurePosixPath(page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = os.path.normpath(folder / link[2])
        return link[1] if target.startswith("..") else link[0]

    return _LINK.sub(shown, markdown)
