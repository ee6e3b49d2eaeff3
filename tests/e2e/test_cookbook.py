"""The recipes of docs/cookbook.md: each configuration, the program and each step are what runs here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.worked_examples import block, playing, steps

PAGE: Final = (Path(__file__).parents[2] / "docs/cookbook.md").read_text(encoding="utf-8")
INTRODUCTION, *_RECIPES = re.split(r"^## ", PAGE, flags=re.MULTILINE)
RECIPES: Final = {recipe.partition("\n")[0]: recipe for recipe in _RECIPES}
LINE: Final = r"day [^\"]*: \d+ new, late (?:True|False|None)"


def test_the_recipes_are_those_that_people_want_first() -> None:
    assert [*RECIPES] == [
        "Daily partitions",
        "Wait for three regions",
        "Late data",
        "Reload last week",
        "What was not loaded",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
async def test_each_step_of_a_recipe_has_what_the_page_says(name: str, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    async with playing(tmp_path, block(recipe, "yaml"), block(INTRODUCTION, "python"), LINE) as (example, _, _):
        for _number, done, follows in steps(recipe):
            await example.do(done)
            await example.follows(follows)
