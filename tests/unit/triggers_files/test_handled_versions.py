from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import Position
from triggers.file_scan.state.handled import HandledVersions, absent_since
from triggers.file_scan.versions import SECOND, parse_moment

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 20)),
        st.tuples(st.just("miss"), st.integers(0, 9), st.integers(0, 20)),
        st.tuples(st.just("take back"), st.integers(0, 9), st.integers(0, 20)),
        st.tuples(st.just("pass"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("below"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("commit"), st.just(0), st.just(0)),
    )
)


@given(OPERATIONS)
def test_differences_add_up_to_the_set_however_late_they_are_taken(operations: list[tuple[str, int, int]]) -> None:
    host = DictHost()
    handled = HandledVersions({}, forget_after=5 * SECOND)
    there: dict[int, int] = {}
    absent: dict[int, tuple[int, int]] = {}
    horizon = clock = 0
    for operation, number, modified in operations:
        match operation:
            case "add" if number not in there and modified >= horizon:
                handled.add(number, modified)
                there[number] = modified
                absent.pop(number, None)
            case "miss" if number in there:
                handled.miss({number}, clock * SECOND)
                absent[number] = (clock, there.pop(number))
            case "take back" if number in absent:
                is_known = handled.knows(number, modified, clock * SECOND)
                assert is_known == (absent[number][1] == modified and clock - absent[number][0] < 5)
                if is_known and modified >= horizon:
                    handled.take_back(number, modified)
                    there[number] = modified
                    del absent[number]
            case "pass":
                clock = max(clock, number)
                handled.forget_expired(clock * SECOND)
                absent = {member: value for member, value in absent.items() if clock - value[0] < 5}
            case "below":
                horizon = max(horizon, number)
                handled.forget_below(horizon)
                there = {member: value for member, value in there.items() if value >= horizon}
            case "commit":
                host.commit(Position(watermark=0, state={}, rows=handled.take_changes()))
        assert handled.members == there
        assert handled.absent.keys() == absent.keys()
    host.commit(Position(watermark=0, state={}, rows=handled.take_changes()))
    assert host.rows.keys() == there.keys() | absent.keys()
    assert there.items() <= host.rows.items()
    assert not handled.take_changes()

    read_back = HandledVersions(host.rows, forget_after=5 * SECOND)
    assert (read_back.members, read_back.absent) == (handled.members, handled.absent)
    assert all(read_back.knows(member, value[1], value[0] * SECOND) for member, value in absent.items())


@given(st.integers(0, parse_moment("2100-01-01")), st.integers(-(10**15), parse_moment("9999-12-31")))
def test_an_absent_version_is_one_row_that_no_horizon_deletes(since: int, modified: int) -> None:
    value = absent_since(since, modified)
    assert parse_moment("9999-12-31T23:59:59.999999") < value < 2**63
    handled = HandledVersions({1: value}, forget_after=10 * SECOND)
    assert handled.knows(1, modified, since)
    assert not handled.knows(1, modified + 1, since)
    assert not handled.knows(1, modified, since + 10 * SECOND)


def test_no_member_is_deleted_that_was_not_there() -> None:
    handled = HandledVersions({1: 10})
    handled.forget_below(5)
    assert not handled.take_changes()


def test_a_version_has_the_moment_at_which_it_was_listed_last() -> None:
    host = DictHost()
    handled = HandledVersions({1: 10, 2: 10, 3: absent_since(0, 10)})
    for member, modified in ((1, 10), (2, 20), (3, 30), (4, 40)):
        handled.touch(member, modified)
    assert handled.has_quiet_changes
    handled.forget_below(15)
    host.rows = {1: 10, 2: 10, 3: absent_since(0, 10)}
    host.commit(Position(watermark=0, state={}, rows=handled.take_changes()))
    assert host.rows == {2: 20, 3: absent_since(0, 10)}
    handled.touch(2, 20)
    assert not handled.has_quiet_changes
