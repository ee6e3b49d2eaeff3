"""Which items a try gets, and where from: what features say of them, merged, kept and applied to what events say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store.fates import LEFT_OUT, Fate
from store.runs.tries.changed_items import ChangedItem, ChangedItems

PLACE = {"path": "/done/1", "moved_from": "/in/1"}
CLEANED = ChangedItem(event_id=1, number=0, fate=Fate.CLEANED)
MOVED = ChangedItem(event_id=1, number=1, fate=Fate.MOVED, place=PLACE)
EXTRA = {"files": [{"path": f"/in/{number}", "size": number} for number in range(3)], "watcher": "w"}


def items() -> st.SearchStrategy[list[ChangedItem]]:
    fate = st.sampled_from([Fate.CLEANED, Fate.MOVED, Fate.SUPERSEDED])
    made = st.builds(
        lambda event_id, number, fate: ChangedItem(
            event_id=event_id, number=number, fate=fate, place=PLACE if fate is Fate.MOVED else None
        ),
        st.integers(1, 3),
        st.integers(0, 2),
        fate,
    )
    return st.lists(made)


def test_what_is_left_out_is_missing_and_what_was_moved_has_its_new_place() -> None:
    changed = ChangedItems.merged([MOVED, CLEANED])
    assert changed.applied(1, EXTRA) == {
        "files": [{"path": "/done/1", "size": 1, "moved_from": "/in/1"}, {"path": "/in/2", "size": 2}],
        "watcher": "w",
    }
    assert [*changed.left_out_of(1, EXTRA)] == [(Fate.CLEANED, EXTRA["files"][0])]
    assert (changed.left_out, changed.counts) == (1, {Fate.CLEANED: 1, Fate.MOVED: 1})


def test_an_event_of_which_nothing_changed_stays_as_it_is() -> None:
    rows = {"ranges": [[1, 2]]}
    assert ChangedItems([CLEANED]).applied(2, rows) is rows
    assert [*ChangedItems([CLEANED]).left_out_of(2, rows)] == []


def test_what_leaves_an_item_out_comes_before_what_has_moved_it() -> None:
    superseded = ChangedItem(event_id=1, number=1, fate=Fate.SUPERSEDED)
    assert ChangedItems.merged([MOVED, superseded]).items == [superseded]
    assert ChangedItems.merged([superseded, MOVED]).items == [superseded]
    assert ChangedItems.merged([CLEANED, ChangedItem(event_id=1, number=0, fate=Fate.SUPERSEDED)]).items == [CLEANED]


@given(items())
def test_what_a_try_keeps_is_what_was_decided(made: list[ChangedItem]) -> None:
    changed = ChangedItems.merged(made)
    assert ChangedItems.from_json(changed.to_json()).items == changed.items
    assert (changed.to_json() is None) == (not made)
    for event_id in (1, 2, 3):
        left = changed.applied(event_id, EXTRA)["files"]
        out = [*changed.left_out_of(event_id, EXTRA)]
        assert len(left) + len(out) == len(EXTRA["files"])
        assert {fate for fate, _ in out} <= {*LEFT_OUT}


def test_items_that_are_being_removed_are_told_apart() -> None:
    in_hand = ChangedItem(event_id=1, number=2, fate=Fate.CLEANED, is_in_hand=True)
    changed = ChangedItems([CLEANED, in_hand])
    assert changed.are_in_hand
    assert changed.settled.items == [CLEANED]
    assert ChangedItems([CLEANED]).settled.items == [CLEANED]
