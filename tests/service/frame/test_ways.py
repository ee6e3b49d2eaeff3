"""What is not configured is not on the way of an event: `tools/ways.py` counts in a running daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.effort import PATIENCE

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.feature("folder", "rest", "rows")]

ROOT = Path(__file__).parents[3]
WAYS = ("a new file", "a new row", "a posted event", "a plan", "a try's start")


@pytest.fixture(scope="module")
def ways() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/ways.py", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return {way["way"]: way for way in json.loads(done.stdout)}


def test_every_way_was_walked(ways: dict[str, dict[str, Any]]) -> None:
    assert tuple(ways) == WAYS
    for way in ways.values():
        assert way["rooms"]["kernel"] > 10
        assert any(statement.startswith("INSERT INTO") for statement in way["statements"])
    assert any(statement.startswith("INSERT INTO run ") for statement in ways["a plan"]["statements"])
    assert any(statement.startswith("UPDATE task_try SET handle") for statement in ways["a try's start"]["statements"])


@pytest.mark.parametrize("way", WAYS)
def test_no_feature_that_is_not_configured_is_on_the_way(ways: dict[str, dict[str, Any]], way: str) -> None:
    assert ways[way]["not_configured"] == []
