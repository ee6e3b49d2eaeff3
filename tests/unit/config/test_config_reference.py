from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from config.publishing.reference import rewrite
from tools.configuration_page import MODELS

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "configuration.md"


def test_the_page_has_the_tables_of_the_models() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rewrite(page, MODELS) == page, "run `python -m tools.configuration_page`"


@pytest.mark.parametrize("name", MODELS)
def test_the_page_has_a_table_of_each_model(name: str) -> None:
    assert f"<!-- keys: {name} -->" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line", [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
)
def test_each_key_has_a_meaning(line: str) -> None:
    assert re.fullmatch(r"\| `\w+` \| .* \| [^|]{9,} \|", line)


def test_what_stood_between_the_marks_is_replaced() -> None:
    rewritten = rewrite("before\n<!-- keys: aliases.NAME -->\nold\n<!-- end -->\nafter", MODELS)
    assert "old" not in rewritten
    assert rewritten.startswith(
        "before\n<!-- keys: aliases.NAME -->\n\n| key | default | meaning |\n|---|---|---|\n| `group` | `asset` | "
    )
    assert rewritten.endswith("\n<!-- end -->\nafter")


def test_a_table_of_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        rewrite("<!-- keys: nothing -->\n<!-- end -->", MODELS)


@pytest.mark.parametrize("block", PAGE.read_text(encoding="utf-8").split("```yaml\n")[1:])
def test_the_examples_are_yaml(block: str) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True  # one `schedule` below the other
    assert isinstance(yaml.load(block.partition("```")[0]), dict)
