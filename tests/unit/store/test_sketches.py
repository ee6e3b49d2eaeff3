"""A search for an item passes over no event that names it, and over most of the others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.detection.sketches import (
    EVERY_NAME,
    LIMITLESS,
    MOST_NAMES,
    NO_NAMES,
    Sketch,
    bits_of,
    microseconds,
    sketch_of,
    sketch_of_any,
)

NAMES = (
    st.text() | st.integers() | st.lists(st.integers() | st.text(), min_size=1) | st.dictionaries(st.text(), st.text())
)
TIMES = st.datetimes().map(lambda moment: moment.isoformat() + "Z")


def may_name(sketch: Sketch, name: Any) -> bool:
    """Return whether a search by bits reads the event."""
    bits, more_bits = bits_of(name)
    assert sketch.bits is not None
    has_more = sketch.more_bits is None or sketch.more_bits & more_bits == more_bits
    return sketch.bits & bits == bits and has_more


def files(names: Sequence[str], time: str = "2026-01-01T00:00:00Z") -> list[dict[str, Any]]:
    return [{"key": name, "size": 1, "last_modified": time} for name in names]


@given(st.lists(NAMES, max_size=MOST_NAMES + 5), st.lists(NAMES, max_size=3), st.lists(st.text(min_size=1), max_size=3))
def test_an_event_has_the_bits_of_all_that_it_names(keys, rejected, paths):
    payload = {"keys": keys, "deleted": rejected, "files": files(paths), "rejected": rejected}
    for sketch in (sketch_of(payload), sketch_of_any(payload)):
        assert all(may_name(sketch, name) for name in (*keys, *rejected, *paths))


@given(st.lists(TIMES, min_size=MOST_NAMES + 1, max_size=MOST_NAMES + 9))
def test_an_event_of_many_files_has_the_limits_of_their_times(times):
    payload = {"files": [{"path": f"/{place}", "last_modified": time} for place, time in enumerate(times)]}
    sketch = sketch_of(payload)
    assert (sketch.bits, sketch.more_bits) == (None, None)
    assert all(sketch.low <= microseconds(time) <= sketch.high for time in times)
    assert sketch_of_any(payload) == sketch
    assert sketch_of({**payload, "rejected": ["b"]}) == LIMITLESS


@pytest.mark.parametrize(("names", "at_most"), [(1, 2), (3, 10), (10, 20), (20, 90), (30, 300)])
def test_most_events_that_do_not_name_an_item_are_passed_over(names, at_most):
    seed = random.Random(37)  # the same names in each run
    others = 0
    for _ in range(1000):
        sketch = sketch_of({"keys": [f"orders/part-{seed.randrange(10**9)}.json" for _ in range(names)]})
        others += may_name(sketch, "orders/part-none.json")
    assert others <= at_most


def test_ids_have_limits_and_what_names_nothing_is_read_by_no_search():
    assert sketch_of({"ranges": [[5, 9], [2, 3]], "rejected": [12]}) == Sketch(2, 12)
    assert sketch_of({"ranges": []}) == NO_NAMES
    assert sketch_of({"files": []}) == NO_NAMES
    assert bits_of("a") > (NO_NAMES.bits, 0)


@pytest.mark.parametrize(
    "payload",
    [
        {"ranges": [[1, 2**80]]},
        {"ranges": [[1, "x"]]},
        {"ranges": [[1, 2]], "keys": ["a"]},
        {"ranges": 5},
        {"files": [{"key": "a", "path": "b", "last_modified": "2026-01-01T00:00:00Z"}]},
        {"files": [{"key": f"{n}", "last_modified": "2026-01-01T00:00:00+02:00"} for n in range(50)]},
        {"files": ["a"]},
        {"files": [{"size": 1}]},
        {"keys": 7},
    ],
)
def test_an_event_of_another_form_may_name_anything(payload):
    assert sketch_of_any(payload) == LIMITLESS
    assert LIMITLESS.bits == EVERY_NAME
    assert may_name(LIMITLESS, "anything")
