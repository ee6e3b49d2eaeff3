"""The worked example of docs/scheduling.md: its configuration, its program and each of its steps are what runs here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.worked_examples import block, playing, steps

pytestmark = pytest.mark.slow
PAGE: Final = (Path(__file__).parents[2] / "docs/scheduling.md").read_text(encoding="utf-8")
SECTION: Final = re.split(r"^## ", PAGE.partition("## A worked example")[2], maxsplit=1, flags=re.MULTILINE)[0]
BY_MANIFEST, AGAIN = "10", "13"
"""The first steps of the job that waits for manifests, and of the one whose partitions may be delivered again."""
LINE: Final = r"day [^\"]* late (?:True|False)"


async def test_each_step_has_what_the_page_says(tmp_path: Path) -> None:
    assert len(steps(SECTION)) > 5
    async with playing(tmp_path, block(SECTION, "yaml"), block(SECTION, "python"), LINE) as (example, file, text):
        for number, done, follows in steps(SECTION):
            if number == BY_MANIFEST:
                changed = text.replace('{marker: "**/_SUCCESS"}', '{manifest: "*.manifest"}')
                file.write_text(changed.replace('last: ["**/_SUCCESS"]', 'last: ["**/*.manifest"]'))
                await example.daemon.said("reload")
            if number == AGAIN:
                file.write_text(text.replace('_SUCCESS"}', '_SUCCESS", again: true}'))
                await example.daemon.said("reload")
            await example.do(done)
            await example.follows(follows)


def test_the_worked_example_is_the_first_section_of_the_page() -> None:
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE)[0].startswith("A worked example")
