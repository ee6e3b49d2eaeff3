"""The shell blocks of the pages. Tests run them as a reader does who has the repository and has run `make setup`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shell_blocks(page: str) -> list[str]:
    """Return the shell blocks of a page, which is named by its path in the repository."""
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def a_project(folder: Path) -> Path:
    """Make a folder like the project's after `make setup`, without its files. Return it."""
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    return folder


def not_activated(**more: str) -> dict[str, str]:
    """Return the environment of a shell in which nobody has activated `.venv`."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "VIRTUAL_ENV": "", "BROWSER": "true", **more}


def a_clone(folder: Path, example: str) -> Path:
    """Make a folder like the project's after `make setup`, with one example in it. Return the example's folder."""
    a_project(folder)
    ignored = shutil.ignore_patterns(".watcher", "__pycache__")
    return Path(shutil.copytree(ROOT / "examples" / example, folder / "examples" / example, ignore=ignored))


def run_block(block: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a block in a folder and return its output. The first command that fails ends the block and the test."""
    program = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert program.returncode == 0, f"{block}\n{program.stdout}\n{program.stderr}"
    return program.stdout
