"""The commands of the README, typed in a shell without an activated environment; samples that fit a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import ROOT, a_project, not_activated, run_block, shell_blocks

YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST_PAGES = ("README.md", "docs/first-watchers.md")


def test_the_targets_of_the_readme_are_made() -> None:
    """Make prints what it would do: what it does is what CI runs."""
    said = run_block(shell_blocks("README.md")[0], ROOT, not_activated(MAKEFLAGS="n", VENV=".venv"))
    assert ".venv/bin/watcher demo" in said


def test_the_readme_makes_a_configuration_that_its_own_program_finds_right(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    said = run_block(shell_blocks("README.md")[1], project, not_activated())
    assert (project / "mine" / "watchers.yaml").is_file()
    assert "right" in said
    [check] = re.findall(r"^  (\S*watcher) check --connect", said, re.MULTILINE)
    assert "right" in run_block(f"cd mine\n{check} check", project, not_activated())


@pytest.mark.parametrize("example", ["quickstart", "two-assets", "orders-from-s3", "customers-from-postgres"])
def test_an_example_fits_80_columns(example: str) -> None:
    folder = ROOT / "examples" / example
    blocks = re.findall(r"^```\w+\n(.*?)^```$", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    texts = [*blocks, (folder / "watchers.yaml").read_text()]
    assert [line for text in texts for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_samples_are_in_block_form_and_fit_80_columns(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for block in (*YAML.findall(text), *shell_blocks(page)) for line in block.splitlines()]
    assert [line for line in lines if len(line) > 80] == []
    flow = re.compile(r"(?<!\$)\{[^}]")
    assert [line for block in YAML.findall(text) for line in block.splitlines() if flow.search(line)] == []
