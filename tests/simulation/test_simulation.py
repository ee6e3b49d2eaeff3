"""Histories of whole daemons in virtual time, each a process: `make simulation` plays them by the hundred."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.effort import effort
from tests.simulation.kept import FINDS

SEEDS: Final = effort(66, 10_000)
TWICE: Final = effort(6, 100)
ROOT: Final = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def simulated(*arguments: str) -> str:
    """Run the simulator, which replaces the clock of its whole process, and return what it prints. It must find nothing."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(["", "sdk", "tools"])}
    program = [sys.executable, "-m", "tests.simulation", *arguments]
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_history_shows_a_fault() -> None:
    assert " histories, 0 with a fault, " in simulated("--seeds", str(SEEDS), "--kept")


def test_a_seed_played_twice_gives_the_same_trace() -> None:
    simulated("--seeds", str(TWICE), "--first", "20000", "--twice")


@pytest.mark.parametrize("fault", ["watermark before events", "no fence of tries", "reload empties queues"])
def test_a_planted_fault_is_found_by_the_seed_that_is_kept_for_it(fault: str) -> None:
    assert f"{fault}: seed {FINDS[fault]}: " in simulated("--fault", fault, "--seeds", "1")
