from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.postgres.by_id.ledger import MOST_GAPS, Gap, Ledger, holes_between, ranges_of
from triggers.postgres.server.locks import LockSet

T1, T2, PREPARED = "4/17", "5/9", "-1/733"


def lock_set(*holders: str, boot: str = "first", at: str = "2026-11-20T09:00:00+00:00") -> LockSet:
    pids = {name: None if name == PREPARED else 4711 for name in holders}
    return LockSet(boot=boot, at=at, holders=pids)


def with_gap(low: int, high: int, *holders: str) -> Ledger:
    return (
        Ledger(highest=low - 1, boot="first")
        .read([high + 1], fresh_limit=9, late_limit=9)[0]
        .locked(lock_set(*holders))
    )


def open_ranges(ledger: Ledger) -> list[tuple[int, int]]:
    return [(gap.low, gap.high) for gap in ledger.gaps]


def test_rows_without_holes_need_no_lock_list() -> None:
    ledger, cut = Ledger(highest=10).read([11, 12, 13], fresh_limit=9, late_limit=9)

    assert ledger == Ledger(highest=13)
    assert ledger.settled
    assert not cut


def test_a_missing_id_stays_open_until_the_writers_of_that_moment_end() -> None:
    ledger, _ = Ledger(highest=10).read([12, 15], fresh_limit=9, late_limit=9)
    assert ledger.holes == ((11, 11), (13, 14))

    ledger = ledger.locked(lock_set(T1, T2))
    ledger, _ = ledger.read([], fresh_limit=9, late_limit=9)
    assert [gap.holders for gap in ledger.gaps] == [{T1, T2}, {T1, T2}]

    ledger, _ = ledger.locked(lock_set(T2)).read([14], fresh_limit=9, late_limit=9)
    assert open_ranges(ledger) == [(11, 11), (13, 13)]

    ledger, _ = ledger.locked(lock_set("6/1")).read([11], fresh_limit=9, late_limit=9)
    assert ledger.settled
    assert ledger.highest == 15


def test_a_gap_without_holders_is_read_once_more_before_it_is_closed() -> None:
    ledger = with_gap(11, 12)
    assert open_ranges(ledger) == [(11, 12)]

    assert ledger.read([], fresh_limit=9, late_limit=9)[0].settled


def test_a_read_cut_off_by_its_limit_keeps_the_part_it_did_not_reach() -> None:
    ledger, cut = with_gap(11, 99).read([12, 20], fresh_limit=9, late_limit=2)
    assert open_ranges(ledger) == [(21, 99)]
    assert cut

    ledger, cut = ledger.locked(lock_set()).read([98, 99], fresh_limit=9, late_limit=2)
    assert ledger.settled
    assert not cut


def test_a_cut_off_read_of_a_held_gap_keeps_every_id_that_may_still_be_inserted() -> None:
    ledger, cut = with_gap(11, 30, T1).read([12, 20], fresh_limit=9, late_limit=2)

    assert open_ranges(ledger) == [(11, 11), (13, 19), (21, 30)]
    assert cut


def test_a_restart_ends_all_but_prepared_transactions() -> None:
    before = with_gap(11, 12, T1, T2)
    after = before.locked(lock_set(T2, PREPARED, boot="second"))

    assert [gap.holders for gap in after.gaps] == [{PREPARED}]  # T2 is a namesake of the one that died
    assert after.boot == "second"


def test_a_prepared_transaction_may_be_any_holder_that_left_the_list() -> None:
    after = with_gap(11, 12, T1).locked(lock_set(PREPARED))

    assert [gap.holders for gap in after.gaps] == [{PREPARED}]
    assert after.holders[PREPARED].pid is None


def test_holders_keep_the_time_at_which_they_were_first_listed() -> None:
    ledger = with_gap(11, 12, T1).locked(lock_set(T1, T2, at="2026-11-20T10:00:00+00:00"))

    assert ledger.oldest is not None
    name, holder = ledger.oldest
    assert (name, holder.pid, holder.since) == (T1, 4711, "2026-11-20T09:00:00+00:00")
    assert T2 not in ledger.holders  # it came after the ids of the gap had been drawn


def test_rows_are_not_read_while_holes_have_no_lock_list() -> None:
    ledger, _ = Ledger(highest=10).read([12], fresh_limit=9, late_limit=9)

    with pytest.raises(ValueError, match="list of lock holders"):
        ledger.read([13], fresh_limit=9, late_limit=9)


def test_gaps_with_the_same_holders_share_one_group_of_the_state() -> None:
    ledger, _ = Ledger(highest=0).read(range(2, 2002, 2), fresh_limit=2000, late_limit=9)
    state = ledger.locked(lock_set(T1, T2)).to_state()

    assert state["groups"] == {"0": [T1, T2]}
    assert len(json.dumps(state)) < 20_000


def test_too_many_gaps_stop_only_the_reading_of_new_ids() -> None:
    gap = Gap(low=1, high=1, holders=frozenset({T1}))
    few, many = Ledger(highest=9), Ledger(highest=9, gaps=(gap,) * MOST_GAPS)

    assert few.fresh_limit(1000) == 1000
    assert many.fresh_limit(1000) == 0
    assert few.late_limit() == 10_000
    assert many.late_limit() == 1


def test_a_read_that_asked_for_no_new_ids_was_not_cut_off() -> None:
    assert with_gap(11, 12, T1).read([], fresh_limit=0, late_limit=1)[1] is False


@given(ids=st.sets(st.integers(1, 60)), after=st.integers(0, 20))
def test_holes_and_ids_together_are_all_numbers(ids: set[int], after: int) -> None:
    found = sorted(number for number in ids if number > after)
    holes = [number for low, high in holes_between(after, found) for number in range(low, high + 1)]

    assert sorted([*found, *holes]) == list(range(after + 1, max(found, default=after) + 1))


@given(ids=st.sets(st.integers()))
def test_ranges_hold_exactly_the_ids(ids: set[int]) -> None:
    ranges = ranges_of(sorted(ids))

    assert [number for low, high in ranges for number in range(low, high + 1)] == sorted(ids)
    assert all(low > high + 1 for (_, high), (low, _) in pairwise(ranges))


@given(ids=st.sets(st.integers(1, 60)), more=st.sets(st.integers(61, 90)), to=st.integers(0, 99))
def test_a_rewind_opens_all_ids_above_and_keeps_open_gaps_below(ids: set[int], more: set[int], to: int) -> None:
    ledger = Ledger(highest=0).read(sorted(ids), fresh_limit=99, late_limit=9)[0].locked(lock_set(T1))
    ledger = ledger.read(sorted(more), fresh_limit=99, late_limit=9)[0]
    rewound = ledger.rewound(to)

    assert rewound.highest == to
    assert open_ids(rewound) == {number for number in open_ids(ledger) if number <= to}
    assert set(rewound.holders) == ({T1} if rewound.gaps else set())


def open_ids(ledger: Ledger) -> set[int]:
    ranges = [*open_ranges(ledger), *ledger.holes]
    return {number for low, high in ranges for number in range(low, high + 1)}


@given(
    ids=st.sets(st.integers(1, 60)),
    holders=st.lists(st.sampled_from([T1, T2, PREPARED]), unique=True),
    more=st.sets(st.integers(61, 90)),
)
def test_the_state_survives_json(ids: set[int], holders: list[str], more: set[int]) -> None:
    ledger = Ledger(highest=0).read(sorted(ids), fresh_limit=99, late_limit=9)[0].locked(lock_set(*holders))
    ledger = ledger.read(sorted(more), fresh_limit=99, late_limit=9)[0]

    assert Ledger.from_state(json.loads(json.dumps(ledger.to_state()))) == ledger


@pytest.mark.parametrize(
    ("low", "high", "is_so"),
    [
        (1, 4, True),
        (4, 5, False),
        (5, 6, False),
        (7, 7, True),
        (8, 8, False),
        (9, 10, True),
        (10, 11, False),
        (20, 21, True),
        (20, 22, False),
    ],
)
def test_ranges_that_are_accounted_for(low: int, high: int, is_so: bool) -> None:
    gap = Gap(low=5, high=6, holders=frozenset())
    ledger = Ledger(highest=10, gaps=(gap,), holes=((8, 8),), ahead=((20, 21),))
    assert ledger.accounts_for(low, high) is is_so


def test_a_healed_ledger_forgets_what_is_above_the_certain_ids_but_those_given_by_hand() -> None:
    ledger = Ledger(highest=50, holes=((3, 4), (30, 40)), ahead=((100, 109), (200, 200)))
    healed = ledger.healed(20, lost=[19, 104, 200], kept=[25])
    assert healed == Ledger(highest=20, holes=((3, 4),), ahead=((25, 25), (100, 103), (105, 109)))
