"""The history of a watcher's polls is made from its batches as they become durable."""

from __future__ import annotations

from time import monotonic

from triggers.base import Position, RejectedItem, TriggerBatch, TriggerEvent
from watcher.host.poll_history import MOST_POLLS, PollHistory, parse

HERE = Position(watermark=1, state={})


def batch(*counts: int, caught_up: bool = True) -> TriggerBatch:
    events = [TriggerEvent(count=count, watermark={}, payload={}) for count in counts]
    return TriggerBatch(events=events, position=HERE, caught_up=caught_up)


def end() -> TriggerBatch:
    return TriggerBatch(whole_since=monotonic() - 2)


def summary(history: PollHistory) -> list[tuple[int, int, str | None, int]]:
    return [(poll.found, poll.committed, poll.error, poll.times) for poll in history.polls]


def test_a_poll_consists_of_all_batches_until_the_source_was_read_completely() -> None:
    history = PollHistory()
    for each in (batch(5, 2, caught_up=False), TriggerBatch(caught_up=False), batch(1), end()):
        history.note(each)
    [poll] = history.polls
    assert (poll.found, poll.committed, poll.error) == (8, 3, None)
    assert poll.seconds is not None
    assert poll.seconds >= 2
    history.note(TriggerBatch(events=[], position=HERE, rejected=[RejectedItem(key=1)]))
    history.note(end())
    assert summary(history)[-1] == (1, 0, None, 1)


def test_consecutive_idle_polls_and_equal_failures_are_merged_and_only_news_is_written() -> None:
    history = PollHistory()
    for _ in range(3):
        history.note(end())
    assert not history.is_unsaved
    for _ in range(2):
        history.fail("no answer")
    assert history.is_unsaved
    assert [poll.error for poll in parse(history.take()).polls] == ["no answer"]
    history.fail("no answer")
    history.note(end())
    assert not history.is_unsaved
    assert summary(history) == [(0, 0, None, 3), (0, 0, "no answer", 3), (0, 0, None, 1)]


def test_a_trigger_without_poll_times_has_a_poll_for_each_batch_that_caught_up() -> None:
    history = PollHistory()
    for each in (batch(1, caught_up=False), batch(1), batch(4)):
        history.note(each)
    history.fail("gone")
    assert summary(history) == [(2, 2, None, 1), (4, 1, "gone", 1)]


def test_the_history_is_limited_and_begins_with_the_stored_one() -> None:
    before, history = PollHistory(), PollHistory()
    for number in range(1, MOST_POLLS + 10):
        before.note(batch(number))
        before.note(end())
    assert len(before.polls) == MOST_POLLS
    stored = before.take()
    history.begin_with(stored)
    assert history.polls == before.polls
    history.note(batch(99))
    history.note(end())
    assert (len(history.polls), summary(history)[-1], history.is_unsaved) == (MOST_POLLS, (99, 1, None, 1), True)
