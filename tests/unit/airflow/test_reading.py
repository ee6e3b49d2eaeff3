"""Events of Airflow that become visible out of order are each emitted once, if they become visible within `lateness`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from watcher.features.airflow.forward import is_ours, marked
from watcher.features.airflow.reading import AirflowReading

START = datetime(2026, 1, 1, tzinfo=UTC)
LATENESS = timedelta(seconds=10)


@dataclass(frozen=True)
class Event:
    id: int
    timestamp: datetime
    visible: datetime


def event(number: int, stamp: int, delay: int) -> Event:
    at = START + timedelta(seconds=stamp)
    return Event(number, at, at + timedelta(seconds=delay))


histories = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 10)), max_size=30).map(
    lambda times: [event(number, *each) for number, each in enumerate(times, start=1)]
)


@given(histories, st.lists(st.integers(0, 40), min_size=1, max_size=20), st.integers(1, 4), st.integers(0, 5))
def test_each_event_is_emitted_once_whenever_polls_are_made(
    history: list[Event], pauses: list[int], page: int, slowness: int
) -> None:
    """Pages are read one after the other, some seconds apart, while more events become visible."""
    reading, told, now = AirflowReading(newest=None), Counter[int](), START
    for pause in [*pauses, 300, 300, 300]:
        now += timedelta(seconds=pause)
        before, pages = reading, 0
        since, last = reading.since(LATENESS), None
        while True:
            rows = sorted(
                (each for each in history if each.visible <= now and (since is None or each.timestamp >= since)),
                key=lambda each: (each.timestamp, each.id),
            )
            rest = rows if last is None else [each for each in rows if (each.timestamp, each.id) > last]
            pages += 1
            new = reading.unseen(rest[:page])
            told.update(each.id for each in new)
            reading = reading.with_seen(new)
            if len(rest) <= page:
                break
            last = (rest[page - 1].timestamp, rest[page - 1].id)
            now += timedelta(seconds=slowness)
        reading = reading.after_poll(before, pages, LATENESS)
    assert told == Counter(each.id for each in history)


def test_events_too_old_to_be_read_again_are_forgotten() -> None:
    reading = AirflowReading(newest=None).with_seen([event(1, 0, 0), event(2, 5, 0), event(3, 14, 0)])
    after = reading.after_poll(AirflowReading(newest=None), 1, LATENESS)
    assert after.newest == START + timedelta(seconds=14)
    assert after.seen.keys() == {2, 3}


def test_the_same_id_with_another_time_is_another_event() -> None:
    reading = AirflowReading(newest=None).with_seen([event(1, 0, 0)])
    assert reading.unseen([event(1, 0, 5)]) == []
    assert reading.unseen([event(1, 7, 0)]) == [event(1, 7, 0)]


def test_the_mark_leaves_the_rest_of_the_extra_unchanged() -> None:
    mark = {"instance": "i", "event_id": "e"}
    text = '{"asset_watcher": {"instance": "i", "event_id": "e"}}'
    assert marked("{}", mark) == text
    assert marked('{"n": 1.10, "big": 123456789012345678901}', mark) == (
        '{"n": 1.10, "big": 123456789012345678901, ' + text[1:]
    )
    assert is_ours({"asset_watcher": mark}, "i")
    assert not is_ours({"asset_watcher": mark}, "another")
    assert not is_ours({"asset_watcher": "i"}, "i")
    assert not is_ours({}, "i")
