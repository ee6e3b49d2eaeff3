import pytest

from watcher.scheduling.planning.conditions import is_met, names_alias

NESTED = {"all": ["a", {"any": ["b", "c"]}]}


@pytest.mark.parametrize(
    ("condition", "assets", "met"),
    [
        ("a", {"a"}, True),
        ("a", {"b"}, False),
        ({"all": ["a", "b"]}, {"a"}, False),
        ({"all": ["a", "b"]}, {"a", "b"}, True),
        ({"any": ["a", "b"]}, {"b"}, True),
        ({"any": ["a", "b"]}, set(), False),
        (NESTED, {"a"}, False),
        (NESTED, {"b", "c"}, False),
        (NESTED, {"a", "c"}, True),
    ],
)
def test_a_condition_is_met_by_the_assets_it_names(condition, assets, met):
    assert is_met(condition, assets) is met


def test_an_alias_stands_for_any_asset_it_resolved_to():
    condition = {"all": ["a", {"alias": "daily"}]}
    assert not is_met(condition, {"a"})
    assert not is_met(condition, {"a"}, {"daily": {"x", "y"}})
    assert is_met(condition, {"a", "y"}, {"daily": {"x", "y"}})
    assert not is_met(condition, {"a", "y"}, {"daily": frozenset(), "other": {"y"}})


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("a", False),
        (None, False),
        (NESTED, False),
        ({"alias": "x"}, True),
        ({"all": ["a", {"any": [{"alias": "x"}]}]}, True),
    ],
)
def test_a_condition_that_names_an_alias_is_recognized(condition, named):
    assert names_alias(condition) is named


@pytest.mark.parametrize("nonsense", [{"all": []}, {"any": []}, {"none": ["a"]}, 5, {}])
def test_an_invalid_condition_is_refused_and_never_met(nonsense):
    with pytest.raises(ValueError, match="not a condition"):
        is_met(nonsense, {"a"})
