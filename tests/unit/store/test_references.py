"""What a `where` takes, and what is stored with a queued event so that it is never decided again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from store.references import (
    ONLY_PLAIN,
    UNDECIDED,
    ScheduleReference,
    decode,
    is_awaited,
    is_same,
    keys,
    matches,
    references,
    satisfied,
    where_id,
)

EU, US = {"extra.region": "eu"}, {"extra.region": "us"}


@pytest.mark.parametrize(
    ("where", "extra", "taken"),
    [
        ({"extra.region": "eu"}, '{"region": "eu"}', True),
        ({"extra.region": "eu"}, '{"region": "us"}', False),
        ({"extra.region": "eu"}, "{}", False),
        ({"extra.region": ["us", "eu"]}, '{"region": "eu"}', True),
        ({"extra.region": ["us", "de"]}, '{"region": "eu"}', False),
        ({"extra.region": "eu", "extra.kind": 1}, '{"region": "eu", "kind": 1}', True),
        ({"extra.region": "eu", "extra.kind": 1}, '{"region": "eu", "kind": 2}', False),
        ({"extra.n": 1}, '{"n": 1.0}', True),
        ({"extra.n": 1}, '{"n": "1"}', False),
        ({"extra.n": 1}, '{"n": true}', False),
        ({"extra.n": True}, '{"n": 1}', False),
        ({"extra.n": 0}, '{"n": false}', False),
        ({"extra.n": 0}, '{"n": -0.0}', True),
        ({"extra.n": None}, '{"n": null}', True),
        ({"extra.n": None}, "{}", False),
        ({"extra.n": 10**30}, f'{{"n": {10**30}}}', True),
        ({"extra.n": 10**30}, f'{{"n": {10**30 + 1}}}', False),
        ({"extra.a.b": 1}, '{"a": {"b": 1}}', True),
        ({"extra.a.b": 1}, '{"a.b": 1}', False),
        ({r"extra.a\.b": 1}, '{"a.b": 1}', True),
        ({r"extra.a\\b.c": 1}, r'{"a\\b": {"c": 1}}', True),
        ({"extra.a.b": 1}, '{"a": [{"b": 1}]}', False),
        ({"extra.a.0": 1}, '{"a": [1]}', False),
        ({"extra.a": {"b": [1, {"c": None}]}}, '{"a": {"b": [1.0, {"c": null}]}}', True),
        ({"extra.a": {"b": 1}}, '{"a": {"b": 1, "c": 2}}', False),
        ({"extra.a": [[1, 2]]}, '{"a": [1, 2]}', True),
        ({"extra.a": [1, 2]}, '{"a": [1, 2]}', False),
        ({"extra.a": "\0"}, r'{"a": "\u0000"}', True),
        ({"partition_key": "eu"}, "{}", True),
        ({"partition_key": ["us", None]}, "{}", False),
    ],
)
def test_a_where_takes_the_events_that_say_what_it_asks_for(where: Any, extra: str, taken: bool) -> None:
    assert matches(where, json.loads(extra), "eu") is taken
    assert matches({"partition_key": None}, {}, None)


def test_values_are_compared_as_json() -> None:
    assert is_same([1, {"a": 1.0}], [1.0, {"a": 1}])
    assert not is_same([True], [1])
    assert not is_same({}, [])


def test_an_event_satisfies_exactly_the_references_that_it_matches() -> None:
    plain, eu, us = (ScheduleReference(name="a", where=where) for where in (None, EU, US))
    assert satisfied([plain], {}, None) == ONLY_PLAIN
    assert satisfied([us], {"region": "eu"}, None) is None
    both = satisfied([plain, eu, us], {"region": "eu"}, None)
    assert both is not None
    assert decode(both) == {where_id(None), where_id(EU)}
    one = satisfied([eu, us], {"region": "us"}, None)
    assert one is not None
    assert decode(one) == {where_id(US)}
    assert UNDECIDED not in {both, one, ONLY_PLAIN}
    assert keys("a", ONLY_PLAIN) == {"a"}
    assert keys("a", both) > {"a"}
    assert not keys("a", one) & {"a"}


def test_references_are_those_of_the_whole_tree() -> None:
    condition = {"all": ["a", {"any": [{"asset": "b", "where": EU}, {"alias": "c"}]}, {"alias": "d", "where": US}]}
    assert list(references(condition)) == [
        ScheduleReference(name="a"),
        ScheduleReference(name="b", where=EU),
        ScheduleReference(name="c", is_alias=True),
        ScheduleReference(name="d", is_alias=True, where=US),
    ]


def test_a_queued_event_is_awaited_while_the_schedule_has_a_reference_that_it_satisfied() -> None:
    queued = keys("a", satisfied([ScheduleReference(name="a", where=EU)], {"region": "eu"}, None) or "")
    assert is_awaited({"any": ["b", {"asset": "a", "where": EU}]}, queued, {})
    assert is_awaited({"alias": "c", "where": EU}, queued, {"c": {"a"}})
    for other in ("a", {"asset": "a", "where": US}, {"alias": "c", "where": EU}, {"asset": "b", "where": EU}):
        assert not is_awaited(other, queued, {"c": {"b"}})
