from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.keys import Batching, QueuedEvent
from watcher.scheduler.planning import Capacity, Plan, PlannedRun, Waits, plan

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def waiting(*assets, ago=0):
    return [
        QueuedEvent(event_id=n, asset=asset, created_at=NOW - timedelta(seconds=ago))
        for n, asset in enumerate(assets, 1)
    ]


def planned(queue, schedule="a", *, active=0, allowed=1, now=NOW, ticks=(), **batching):
    capacity = Capacity(active=active, allowed=allowed)
    return plan(queue, Waits(condition=schedule), Batching(**batching), capacity, now=now, ticks=ticks)


def test_all_waiting_events_become_one_run():
    (run,) = planned(waiting("a", "a", "a")).runs
    assert list(run.event_ids) == [1, 2, 3]
    assert run.completed_by == 1


def test_no_run_starts_without_its_condition():
    assert planned(waiting("a", "a"), {"all": ["a", "b"]}) == Plan()


def test_the_event_that_completes_the_condition_is_named():
    (run,) = planned(waiting("a", "a", "b", "a"), {"all": ["a", "b"]}).runs
    assert list(run.event_ids) == [1, 2, 3, 4]
    assert run.completed_by == 3


def test_a_large_queue_is_divided_into_bounded_runs_that_hold_every_event_once():
    runs = planned(waiting(*"aaaaaaa"), max_events=3).runs
    assert [list(run.event_ids) for run in runs] == [[1, 2, 3], [4, 5, 6], [7]]
    assert all(run.completed_by in run.event_ids for run in runs)


def test_events_are_collected_while_the_job_has_as_many_runs_as_it_may():
    assert planned(waiting("a"), active=1, allowed=1) == Plan()
    assert planned(waiting("a"), active=1, allowed=2).runs


def test_each_makes_one_run_for_each_event():
    runs = planned(waiting("a", "b"), {"any": ["a", "b"]}, mode="each", active=5).runs
    assert [list(run.event_ids) for run in runs] == [[1], [2]]


def test_debounce_waits_for_quiet():
    decided = planned(waiting("a", ago=2), debounce=timedelta(seconds=5))
    assert decided == Plan(look_again_in=timedelta(seconds=3))
    assert planned(waiting("a", ago=5), debounce=timedelta(seconds=5)).runs


def test_max_wait_ends_a_quiet_that_never_comes():
    queue = [*waiting("a", ago=60), QueuedEvent(event_id=9, asset="a", created_at=NOW)]
    assert planned(queue, debounce=timedelta(seconds=30), max_wait=timedelta(seconds=60)).runs


def test_a_clock_that_was_set_back_counts_as_due():
    assert planned(waiting("a", ago=-3600), debounce=timedelta(seconds=30)).runs


@given(
    assets=st.lists(st.sampled_from("abc"), max_size=30),
    max_events=st.integers(1, 7),
    schedule=st.sampled_from(["a", {"all": ["a", "b"]}, {"any": ["b", "c"]}, {"all": ["a", {"any": ["b", "c"]}]}]),
)
def test_a_plan_takes_every_event_exactly_once_or_none(assets, max_events, schedule):
    queue = waiting(*assets)
    taken = [event_id for run in planned(queue, schedule, max_events=max_events).runs for event_id in run.event_ids]
    assert taken in ([], [event.event_id for event in queue])


@pytest.mark.parametrize("mode", ["coalesce", "each"])
def test_an_empty_queue_makes_nothing(mode):
    assert planned([], mode=mode) == Plan()


TICKS = [NOW - timedelta(hours=1), NOW]


def test_a_tick_takes_what_is_queued_also_before_the_condition_is_met():
    (run,) = planned(waiting("a"), {"all": ["a", "b"]}, ticks=TICKS[:1]).runs
    assert run == PlannedRun(event_ids=[1], completed_by=None, tick=TICKS[0])


def test_a_tick_waits_for_no_quiet_and_names_who_completed_the_condition():
    (run,) = planned(waiting("a", "b"), {"all": ["a", "b"]}, debounce=timedelta(hours=1), ticks=TICKS[:1]).runs
    assert run == PlannedRun(event_ids=[1, 2], completed_by=2, tick=TICKS[0])


def test_the_first_of_several_ticks_takes_the_events_and_what_is_too_much_for_it_follows():
    runs = planned(waiting(*"aaaaa"), max_events=2, ticks=TICKS).runs
    assert [(list(run.event_ids), run.tick) for run in runs] == [
        ([1, 2], TICKS[0]),
        ([3, 4], None),
        ([5], None),
        ([], TICKS[1]),
    ]


def test_with_each_events_and_ticks_have_runs_of_their_own():
    runs = planned(waiting("a", "a"), mode="each", ticks=TICKS[:1]).runs
    assert [(list(run.event_ids), run.tick) for run in runs] == [([1], None), ([2], None), ([], TICKS[0])]


def test_a_time_alone_makes_runs_without_events():
    assert planned([], None, ticks=TICKS).runs == [PlannedRun(tick=TICKS[0]), PlannedRun(tick=TICKS[1])]
    assert planned([], None) == Plan()
