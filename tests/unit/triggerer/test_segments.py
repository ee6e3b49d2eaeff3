"""Segments of numbers mean what each of their numbers means, looked at by itself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from store.fates import Fate
from watcher.triggerer.reconciliation.segments import NamedRange, UnnamedRules, segments


def meaning(number: int, ranges: Sequence[NamedRange], rules: UnnamedRules) -> tuple[bool, bool, str | None]:
    own = [each for each in ranges if each.low <= number <= each.high]
    if own:
        last = max(own, key=lambda each: each.event)
        twice = len({each.generation for each in own}) < len(own)
        fate = None if last.fate is Fate.LOADED else last.fate
        return True, last.fate is Fate.LOADED, "reported_twice" if twice else fate
    if any(low <= number <= high for low, high in rules.waiting):
        return False, False, "waiting"
    if rules.passed_below is not None and number < rules.passed_below:
        return False, False, "before_start"
    is_forgotten = rules.forgotten_below is not None and number < rules.forgotten_below
    return False, False, "past_retention" if is_forgotten else "not_reported"


@pytest.mark.parametrize("number", range(300))
def test_each_number_means_what_its_segment_says(number: int) -> None:
    seed = random.Random(number)

    def some(event: int) -> NamedRange:
        low = seed.randint(0, 60)
        fate = seed.choice((Fate.LOADED, Fate.LOADED, Fate.FAILED, Fate.QUEUED))
        return NamedRange(low, low + seed.randint(0, 9), event, seed.randint(0, 1), fate)

    ranges = sorted(some(event) for event in range(seed.randint(0, 8)))
    bounds = sorted(seed.sample(range(-3, 75), 4))
    rules = UnnamedRules(
        limits=(seed.randint(-5, 30), seed.randint(20, 70)),
        waiting=seed.choice([(), [(bounds[0], bounds[1]), (bounds[2], bounds[3])], [(bounds[2], 1000)]]),
        passed_below=seed.choice([None, seed.randint(0, 60)]),
        forgotten_below=seed.choice([None, seed.randint(0, 60)]),
    )
    made = [*segments(iter(ranges), rules)]
    lows = [segment.low for segment in made]
    assert lows == sorted(lows)
    assert all(before.high < after.low for before, after in pairwise(made))
    covered = {n: tuple(segment[2:]) for segment in made for n in range(segment.low, segment.high + 1)}
    expected = {n for each in ranges for n in range(each.low, each.high + 1)}
    expected |= {*range(rules.limits[0], rules.limits[1] + 1)}
    assert covered == {n: meaning(n, ranges, rules) for n in sorted(expected)}


def test_ranges_that_touch_are_one_segment() -> None:
    ranges = [NamedRange(first, first + 9, first, 0, Fate.LOADED) for first in range(0, 1000, 10)]
    rules = UnnamedRules(limits=(0, 999), waiting=(), passed_below=None, forgotten_below=None)
    assert [segment[:2] for segment in segments(ranges, rules)] == [(0, 999)]
