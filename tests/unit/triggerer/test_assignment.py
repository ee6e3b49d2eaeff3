from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from watcher.triggerer.assignment import assign, knows

WATCHERS = [f"watcher_{n}" for n in range(300)]
ROOMY = 10_000


def living(*names: str) -> dict[str, int]:
    return dict.fromkeys(names, ROOMY)


def test_every_watcher_falls_to_exactly_one_living_triggerer():
    assignment = assign(WATCHERS, living("one", "two", "three"))
    hosts = Counter(name for triggerer in ("one", "two", "three") for name in assignment.of(triggerer))
    assert hosts == Counter(WATCHERS)
    assert assignment.unassigned == set()


def test_a_triggerer_that_leaves_moves_only_its_own_watchers():
    before, after = assign(WATCHERS, living("one", "two", "three")), assign(WATCHERS, living("one", "two"))
    for name in ("one", "two"):
        assert before.of(name) <= after.of(name)


def test_the_load_is_shared_about_evenly():
    assignment = assign(WATCHERS, living("one", "two", "three"))
    assert all(70 <= len(assignment.of(triggerer)) <= 130 for triggerer in ("one", "two", "three"))


def test_a_single_triggerer_hosts_everything():
    assert assign(WATCHERS, living("one")).of("one") == set(WATCHERS)


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 6), max_size=5), st.integers(0, 20))
def test_no_triggerer_exceeds_its_capacity_and_only_watchers_over_the_sum_are_unassigned(capacities, number):
    watchers = WATCHERS[:number]
    assignment = assign(reversed(watchers), dict(reversed(capacities.items())))
    assert assignment == assign(watchers, capacities)
    assert all(len(assignment.of(name)) <= capacity for name, capacity in capacities.items())
    assert len(assignment.unassigned) == max(number - sum(capacities.values()), 0)
    assert assignment.unassigned.isdisjoint(assignment.hosts)
    assert assignment.unassigned | assignment.hosts.keys() == set(watchers)


def test_capacities_move_only_the_watchers_that_they_must():
    """Only watchers whose highest weight is that of a full triggerer go elsewhere."""
    free, tight = assign(WATCHERS, living("one", "two")), assign(WATCHERS, {"one": 100, "two": ROOMY})
    assert tight.of("one") <= free.of("one")
    assert free.of("two") <= tight.of("two")


def test_a_watcher_goes_only_to_triggerers_that_know_it_as_applied() -> None:
    applied = dict.fromkeys(WATCHERS, "new")
    changed = WATCHERS[0]
    before = dict.fromkeys(WATCHERS, "new") | {changed: "old"}
    may_host = knows(applied, {"two": before, "three": {}})
    assignment = assign(WATCHERS, living("one", "two", "three"), may_host)
    assert assignment.hosts[changed] == "one"
    assert assignment.of("three") == frozenset()
    assert assignment.of("one") | assignment.of("two") == set(WATCHERS)
    others = [name for name in WATCHERS if name != changed]
    alone = assign(WATCHERS, living("one", "two"))
    assert {name: assignment.hosts[name] for name in others} == {name: alone.hosts[name] for name in others}


def test_a_watcher_that_no_triggerer_knows_as_applied_is_not_unassigned_for_lack_of_room() -> None:
    may_host = knows({"a": "new", "b": "new"}, {"one": {"a": "old", "b": "new"}})
    assignment = assign(["a", "b"], {"one": 1}, may_host)
    assert (assignment.hosts, assignment.unknown, assignment.unassigned) == ({"b": "one"}, {"a"}, frozenset())
