"""The pure parts of a check of a job's queue; the scheduler's own tests put them together."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.keys import Batching
from watcher.scheduling.planning.plans import (
    MOST_EVENTS,
    MOST_RUNS,
    Capacity,
    PlannedRun,
    Waits,
    collects,
    completing,
    is_due,
    most_at_once,
    remaining,
    runs_of,
    with_keys,
    with_ticks,
)

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TICKS = [NOW - timedelta(hours=1), NOW]
BOTH = {"all": ["a", "b"]}
EACH = Batching(mode="each")


def completed(first_events, schedule="a"):
    return completing(first_events, Waits(condition=schedule))


def due(completed_by, *, active=0, allowed=1, ticks=(), **batching):
    return is_due(completed_by, Batching(**batching), Capacity(active=active, allowed=allowed), ticks=ticks)


def left(*, oldest=0, newest=0, debounce=0, max_wait=300):
    """How many seconds longer to collect, if the events came so many seconds ago."""
    batching = Batching(debounce=timedelta(seconds=debounce), max_wait=timedelta(seconds=max_wait))
    first, last = (NOW - timedelta(seconds=ago) for ago in (oldest, newest))
    return remaining(first, last, batching, NOW).total_seconds()


def test_a_run_has_the_partition_key_that_all_its_events_have() -> None:
    keys = {1: "a", 2: "a", 3: "a", 4: None, 5: None, 6: None, 7: "b", 8: "c"}
    runs = with_keys(runs_of([*keys], 1, Batching(max_events=2)), keys)
    assert [run.partition_key for run in runs] == ["a", None, None, None]
    assert with_keys([PlannedRun()], {}) == [PlannedRun()]


def test_all_waiting_events_become_one_run():
    assert runs_of([1, 2, 3], 1, Batching()) == [PlannedRun(event_ids=[1, 2, 3], completed_by=1)]


def test_nothing_completes_a_condition_that_is_not_met():
    assert completed({"a": 1}, BOTH) is None
    assert completed({}) is None
    assert completed({"a": 1}, None) is None
    assert not due(None)
    assert not due(None, mode="each")


def test_the_event_that_completes_the_condition_is_named():
    assert completed({"a": 1, "b": 3}, BOTH) == 3
    assert completed({"a": 7, "b": 3}, BOTH) == 7
    assert completed({"c": 1, "b": 5, "a": 9}, {"any": ["a", "b"]}) == 5


def test_a_large_queue_is_divided_into_bounded_runs_that_each_name_one_of_their_events():
    runs = runs_of([1, 2, 3, 4, 5, 6, 7], 5, Batching(max_events=3))
    assert [(list(run.event_ids), run.completed_by) for run in runs] == [([1, 2, 3], 3), ([4, 5, 6], 5), ([7], 7)]


def test_events_are_collected_while_the_job_has_as_many_runs_as_it_may():
    assert not due(1, active=1, allowed=1)
    assert due(1, active=1, allowed=2)


def test_each_makes_one_run_for_each_event_however_many_are_active():
    assert due(1, mode="each", active=5)
    runs = runs_of([1, 2], 1, EACH)
    assert [(list(run.event_ids), run.completed_by) for run in runs] == [([1], 1), ([2], 2)]


def test_debounce_waits_until_no_events_come():
    assert left(oldest=2, newest=2, debounce=5) == 3
    assert left(oldest=5, newest=5, debounce=5) <= 0
    assert not collects(Batching())
    assert collects(Batching(debounce=timedelta(seconds=5)))
    assert not collects(Batching(mode="each", debounce=timedelta(seconds=5)))


def test_max_wait_ends_the_wait_while_events_keep_coming():
    assert left(oldest=60, newest=0, debounce=30, max_wait=60) <= 0


def test_a_clock_that_was_set_back_counts_as_due():
    assert left(oldest=-3600, newest=-3600, debounce=30) <= 0


@given(count=st.integers(0, 60), max_events=st.integers(1, 7), mode=st.sampled_from(["coalesce", "each"]))
def test_runs_take_every_event_exactly_once(count, max_events, mode):
    event_ids = list(range(1, count + 1))
    runs = runs_of(event_ids, 1, Batching(mode=mode, max_events=max_events))
    assert [event_id for run in runs for event_id in run.event_ids] == event_ids
    assert all(run.completed_by in run.event_ids for run in runs)


@given(max_events=st.integers(1, 3 * MOST_EVENTS), mode=st.sampled_from(["coalesce", "each"]))
def test_a_transaction_makes_whole_runs_and_a_bounded_number_of_them(max_events, mode):
    """The same queue gives the same runs in one transaction or in many."""
    batching = Batching(mode=mode, max_events=max_events)
    events = most_at_once(batching)
    runs = runs_of(range(events), 0, batching)
    assert len({len(run.event_ids) for run in runs}) == 1
    assert len(runs) <= MOST_RUNS
    assert events <= MOST_EVENTS or len(runs) == 1


def test_a_tick_takes_queued_events_even_before_the_condition_is_met():
    assert due(None, ticks=TICKS, active=1)
    runs = with_ticks(runs_of([1], None, Batching()), TICKS[:1], Batching())
    assert runs == [PlannedRun(event_ids=[1], completed_by=None, tick=TICKS[0])]


def test_a_joint_schedule_needs_a_tick_and_the_condition():
    for completed_by, ticks in ((None, TICKS), (1, ()), (None, ())):
        assert not is_due(completed_by, Batching(), Capacity(active=0, allowed=1), ticks=ticks, joint=True)
    assert is_due(1, Batching(), Capacity(active=0, allowed=1), ticks=TICKS, joint=True)


def test_the_first_of_several_ticks_takes_the_events_that_fit_and_the_others_follow():
    batching = Batching(max_events=2)
    runs = with_ticks(runs_of([1, 2, 3, 4, 5], 1, batching), TICKS, batching)
    assert [(list(run.event_ids), run.tick) for run in runs] == [
        ([1, 2], TICKS[0]),
        ([3, 4], None),
        ([5], None),
        ([], TICKS[1]),
    ]


def test_with_each_events_and_ticks_have_runs_of_their_own():
    runs = with_ticks(runs_of([1, 2], 1, EACH), TICKS[:1], EACH)
    assert [(list(run.event_ids), run.tick) for run in runs] == [([1], None), ([2], None), ([], TICKS[0])]


@pytest.mark.parametrize("mode", ["coalesce", "each"])
def test_a_time_alone_makes_runs_without_events(mode):
    batching = Batching(mode=mode)
    assert with_ticks([], TICKS, batching) == [PlannedRun(tick=TICKS[0]), PlannedRun(tick=TICKS[1])]
    assert list(with_ticks([], [], batching)) == []
