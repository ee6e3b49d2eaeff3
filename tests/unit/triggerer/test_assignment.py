from collections import Counter

from watcher.triggerer.assignment import assigned

WATCHERS = [f"watcher_{n}" for n in range(300)]


def test_every_watcher_falls_to_exactly_one_living_triggerer():
    living = ["one", "two", "three"]
    hosts = Counter(name for triggerer in living for name in assigned(WATCHERS, triggerer, living))
    assert hosts == Counter(WATCHERS)


def test_a_triggerer_that_leaves_moves_only_its_own_watchers():
    before = {name: assigned(WATCHERS, name, ["one", "two", "three"]) for name in ("one", "two")}
    for name in ("one", "two"):
        assert before[name] <= assigned(WATCHERS, name, ["one", "two"])


def test_the_load_is_shared_about_evenly():
    living = ["one", "two", "three"]
    assert all(70 <= len(assigned(WATCHERS, triggerer, living)) <= 130 for triggerer in living)


def test_alone_it_hosts_everything():
    assert assigned(WATCHERS, "one", ["one"]) == set(WATCHERS)
