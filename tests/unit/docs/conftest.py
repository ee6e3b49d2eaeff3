"""Fixtures: the project's own files, as a commit would hold them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def project_files() -> list[Path]:
    """Tracked files and those that would be tracked: all files that are not ignored."""
    anyones = ["-c", "safe.directory=*"]  # another user may own the clone's folder
    listing = subprocess.run(
        ["git", *anyones, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]


@pytest.fixture(scope="session")
def documents(project_files: list[Path]) -> dict[Path, str]:
    """Every Markdown page and its text."""
    return {file: file.read_text(encoding="utf-8") for file in project_files if file.suffix == ".md"}
