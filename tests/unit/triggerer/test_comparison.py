"""What a source lists beside what events name, name by name."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from store.fates import HAS_LOADED, Fate
from triggers.inventories import ListedItem, ListedState, content_text
from watcher.triggerer.reconciliation.comparison import ComparisonRules, NamedItem, compare

NOW = 1_000_000_000_000
RULES = ComparisonRules(began=NOW, last_event=100)


def content(version: int) -> str:
    return content_text({"key": "a", "size": version, "last_modified": f"2026-01-{version:02}T00:00:00Z"})


def item(state: ListedState = "done", version: int = 1, written: int = NOW - 1, name: str = "a") -> ListedItem:
    return ListedItem(name, content(version), written, state)


def event(number: int = 1, version: int = 1, fate: Fate = Fate.LOADED, generation: int = 0) -> NamedItem:
    return NamedItem("a", number, content(version), generation, fate)


CASES: Sequence[tuple[str | None, ListedItem | None, Sequence[NamedItem], ComparisonRules]] = (
    (None, item(), [event()], RULES),
    (None, item(version=2), [event(1, 1), event(2, 2)], RULES),
    (None, item(), [event(1), event(2, generation=1)], RULES),
    ("not_reported", item(), [], RULES),
    ("not_reported", item(version=2), [event(1, 1)], RULES),
    ("before_start", item(), [], replace(RULES, passed_before=NOW)),
    ("past_retention", item(), [], replace(RULES, kept_since=NOW)),
    ("not_reported", item(), [], replace(RULES, kept_since=NOW - 1)),
    ("unknown", item(), [event(fate=Fate.UNKNOWN)], RULES),
    ("before_start", item("before_start"), [], RULES),
    ("rejected", item("rejected"), [], RULES),
    ("waiting", item("waiting"), [], RULES),
    ("waiting", item("young", 2), [event()], RULES),
    ("replaced", item("waiting", 2), [event()], RULES),
    ("reported_twice", item(), [event(1), event(2)], RULES),
    ("reported_twice", None, [event(1), event(2)], RULES),
    ("failed", item(), [event(fate=Fate.FAILED)], RULES),
    (None, item(), [event(1, fate=Fate.FAILED), event(2, generation=1)], RULES),
    ("dropped", item(), [event(fate=Fate.DROPPED)], RULES),
    ("queued", item(), [event(fate=Fate.QUEUED)], RULES),
    ("not_taken", item(), [event(fate=Fate.NOT_TAKEN)], RULES),
    (None, item(), [event(fate=Fate.CLEANED)], RULES),
    ("missing", None, [event()], RULES),
    ("missing", None, [event(fate=Fate.QUEUED)], RULES),
    ("cleaned", None, [event(fate=Fate.CLEANED)], RULES),
    ("moved", None, [event(fate=Fate.MOVED)], RULES),
    ("failed", None, [event(fate=Fate.FAILED)], RULES),
)


@pytest.mark.parametrize(("difference", "listed", "named", "rules"), CASES)
def test_one_name(
    difference: str | None, listed: ListedItem | None, named: Sequence[NamedItem], rules: ComparisonRules
) -> None:
    [result] = compare([] if listed is None else [listed], named, rules)
    assert result.difference == difference
    assert (result.in_source, result.is_reported) == (listed is not None, bool(named))
    assert result.is_loaded == (bool(named) and named[-1].fate in HAS_LOADED)


def test_what_came_while_it_ran_or_is_not_asked_for_is_left_out() -> None:
    later = item("waiting", written=NOW + 1_000_000)
    assert not [*compare([later], [], RULES)]
    assert not [*compare([later], [event()], RULES)]
    assert not [*compare([item("waiting")], [event(101, 2)], RULES)]
    assert not [*compare([item()], [event()], replace(RULES, since=NOW))]
    assert not [*compare([item()], [event()], replace(RULES, until=NOW - 1))]
    assert not [*compare([], [event()], replace(RULES, since=NOW * 1_000_000))]
    assert not [*compare([], [event()], replace(RULES, selects=lambda name: name != "a"))]


def test_an_event_of_an_older_release_has_fewer_members() -> None:
    old = NamedItem("a", 1, content_text({"key": "a", "size": 1}), 0, Fate.LOADED)
    assert [result.difference for result in compare([item()], [old], RULES)] == [None]
    assert [result.difference for result in compare([item("waiting", 2)], [old], RULES)] == ["replaced"]


def test_both_sides_are_merged_by_name() -> None:
    seed = random.Random(7)
    names = [f"{number:04}" for number in range(500)]
    listed, named = {*seed.sample(names, 300)}, {*seed.sample(names, 300)}
    results = [
        *compare(
            [item(name=name) for name in sorted(listed)],
            [event()._replace(name=name) for name in sorted(named)],
            RULES,
        )
    ]
    assert [result.name for result in results] == sorted(listed | named)
    assert Counter(result.difference for result in results) == {
        None: len(listed & named),
        "not_reported": len(listed - named),
        "missing": len(named - listed),
    }
