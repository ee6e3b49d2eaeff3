"""The torture counts and judges correctly."""

from __future__ import annotations

import pytest

from tests.torture.results import Result, Tally, difference, table
from tests.torture.soak import SAMPLES, WARM_UP, Sample, growth
from tests.torture.world import items_of


def samples(**values: list[int]) -> list[Sample]:
    usual = {
        "resident": [100] * SAMPLES,
        "descriptors": [40] * SAMPLES,
        "threads": [9] * SAMPLES,
        "below": [50] * SAMPLES,
    }
    return [
        Sample(**dict(zip(usual, numbers, strict=True))) for numbers in zip(*{**usual, **values}.values(), strict=True)
    ]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"resident": [*range(60, 60 + 8 * WARM_UP, 8), *[100] * (SAMPLES - WARM_UP)]},
        {"resident": [100, 101] * (SAMPLES // 2) + [140]},
        {"descriptors": [40, 45, 41] * (SAMPLES // 3)},
    ],
    ids=["nothing moves", "a warm-up", "a peak", "a few more or less"],
)
def test_samples_that_stay_flat_pass(values: dict[str, list[int]]) -> None:
    assert growth(samples(**values)) == []


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"resident": [*range(100, 100 + SAMPLES)]}, "resident grew from 107 to 112"),
        ({"descriptors": [*range(40, 40 + 2 * SAMPLES, 2)]}, "descriptors grew from 54 to 64"),
        ({"threads": [*range(9, 9 + 2 * SAMPLES, 2)]}, "threads grew from 23 to 33"),
    ],
)
def test_steady_growth_is_named(values: dict[str, list[int]], line: str) -> None:
    assert growth(samples(**values)) == [line]


def test_the_items_of_an_event_are_read_from_its_payload() -> None:
    assert items_of({"ranges": [[3, 5], [7, 7]]}) == [3, 4, 5, 7]
    assert items_of({"files": [{"path": "a"}, {"path": "b"}]}) == ["a", "b"]
    assert items_of({"number": 4}) == [4]


def test_a_fault_counts_its_own_items_and_all_losses_and_repeats_so_far() -> None:
    before, now = (Tally(rows=n, files=2 * n, events=3 * n, lost=0, repeated=n) for n in (1, 5))
    assert difference(now, before) == {"rows": 4, "files": 8, "events": 12, "lost": 0, "repeated": 5}


def test_the_table_has_a_line_for_each_result() -> None:
    lines = table([Result(fault="kill", database="sqlite", lost=0).to_json()])
    assert lines[0].split() == [*Result.__dataclass_fields__]
    assert lines[1].split() == ["kill", "sqlite", *"-----", "0", "-", "-"]
