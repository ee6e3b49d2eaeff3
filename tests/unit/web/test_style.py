"""The style sheet has the five colors of states, and no state by itself: which one has which stands in one table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

import watcher.features.pages
from watcher.host.states import Color, known_states

STYLE = (Path(watcher.features.pages.__file__).parent / "static" / "style.css").read_text()
OTHERS = {"none", "hidden", "removed", "warning", "error", "info", "late", "waiting"}
"""States whose name is a component's, a difference's or a log level's as well."""


@pytest.mark.parametrize("place", [".state", ".strip ", ".timeline ", ".node"])
def test_every_color_of_states_is_in_every_picture(place: str) -> None:
    colors = {color for color in get_args(Color) if f"{place}.{color}" in STYLE}
    assert colors | ({"calm"} if place == ".state" else set()) == set(get_args(Color))


def test_no_state_has_a_color_of_its_own() -> None:
    names = {state.replace("_", "-") for state in known_states()} - OTHERS
    assert [name for name in names if re.search(rf"\.{name}(?![\w-])", STYLE)] == []
