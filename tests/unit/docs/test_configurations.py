"""Every configuration that the pages show is valid, as far as it is shown."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from config.errors import ConfigurationInvalid
from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary
from watcher.features.isolation.asked_classes import AskedClasses
from watcher.triggerer.isolation.inquiries import Inquirer

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_ELSEWHERE = re.compile(r"unknown (asset|alias|connection) |cannot be imported")
"""Problems that a part may have: it names something in another block, or a class that the page explains."""


BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
]


def environment(block: str) -> dict[str, str]:
    """Return the environment variables that a configuration uses, with values."""
    return {
        name: "postgresql://shop.example/shop" if name.endswith("DSN") else "x" * 40
        for name in re.findall(r"\$\{(\w+)", block)
    }


def documents(block: str) -> list[str]:
    """Complete a block: it is a file, sections of one, an asset's watchers, or several schedules to choose from."""
    if block.startswith("schedule:"):
        return [
            f"version: 1\njobs:\n  load:\n    spark: {{application: load.py}}\n{indent(schedule, '    ')}"
            for schedule in re.split(r"^(?=schedule:)", block, flags=re.MULTILINE)[1:]
        ]
    if block.startswith("watchers:"):
        return [f"version: 1\nassets:\n  landing:\n    uri: s3://landing/\n{indent(block, '    ')}"]
    return [block if "version:" in block else f"version: 1\n{block}"]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_shown_configuration_is_valid(block: str, tmp_path: Path) -> None:
    file = tmp_path / "watchers.yaml"
    for document in documents(block):
        file.write_text(document)
        try:
            load(file, vocabulary(AskedClasses(Inquirer())), environment(block))
        except ConfigurationInvalid as error:
            faults = [str(problem) for problem in error.problems if not SHOWN_ELSEWHERE.search(problem.message)]
            assert faults == []
            assert "version:" not in block, "a whole file stands for itself"
