"""What the histories of a night draw, whatever comes of it."""

from __future__ import annotations

from typing import Final

from tests.simulation.faults import FAULTS
from tests.simulation.history import ROWS_OF_DEEDS, TRIPLES, Plan
from tests.simulation.kept import FINDS

NIGHT: Final = 10_000


def test_a_night_plays_every_pair_of_deeds_at_each_distance_and_every_triple() -> None:
    drawn = {step for seed in range(1, NIGHT + 1) for step in Plan.of(seed).steps}
    assert drawn == {*ROWS_OF_DEEDS, *TRIPLES}


def test_seeds_are_kept_only_for_faults_that_are_planted() -> None:
    assert FINDS.keys() <= FAULTS.keys()
