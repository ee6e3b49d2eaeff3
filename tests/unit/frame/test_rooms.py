"""The picture of the rooms in docs/architecture.md agrees with the imports."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = runpy.run_path(str(ROOT / "tools/rooms.py"))


def test_the_picture_of_the_rooms_agrees_with_the_imports() -> None:
    drawn = ROOMS["drawn"](ROOMS["arrows"]())
    picture = (ROOT / "docs/pictures/rooms.svg").read_text(encoding="utf-8")
    assert picture == drawn, "draw it anew: tools/rooms.py --write"


def test_the_rooms_stand_on_eight_floors_with_few_arrows() -> None:
    between = ROOMS["arrows"]()
    assert len(between) <= 12
    assert sum(map(len, between.values())) <= 35
    assert len(ROOMS["floors"](between)) <= 8


def test_a_circle_of_rooms_is_named() -> None:
    circle = {"a": frozenset({"b"}), "b": frozenset({"a", "c"}), "c": frozenset[str]()}
    with pytest.raises(ValueError, match="in a circle: a, b"):
        ROOMS["floors"](circle)
