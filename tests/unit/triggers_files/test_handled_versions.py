from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import Position
from triggers.file_scan.state import HandledVersions

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 20)),
        st.tuples(st.just("forget"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("below"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("commit"), st.just(0), st.just(0)),
    )
)


@given(OPERATIONS)
def test_differences_add_up_to_the_set_however_late_they_are_taken(operations: list[tuple[str, int, int]]) -> None:
    host = DictHost()
    handled = HandledVersions({})
    expected: dict[int, int] = {}
    horizon = 0
    for operation, number, modified in operations:
        match operation:
            case "add" if number not in handled.members and modified >= horizon:
                handled.add(number, modified)
                expected[number] = modified
            case "forget" if number in handled.members:
                handled.forget({number})
                del expected[number]
            case "below":
                horizon = max(horizon, number)
                handled.forget_below(horizon)
                expected = {member: value for member, value in expected.items() if value >= horizon}
            case "commit":
                host.commit(Position(watermark=0, state={}, rows=handled.take_changes()))
        assert handled.members.keys() == expected.keys()
        assert len(handled.members) == len(expected)
    host.commit(Position(watermark=0, state={}, rows=handled.take_changes()))
    assert host.rows == expected
    assert not handled.take_changes()


def test_no_member_is_deleted_that_was_not_there() -> None:
    handled = HandledVersions({1: 10})
    handled.forget_below(5)
    assert not handled.take_changes()
