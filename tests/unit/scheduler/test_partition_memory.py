"""What is remembered of partitions that wait: which have to be judged when, without a look at the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from store.features.partitions.groups import NO_MARK, QueuedIdentity, QueuedSpan, QueueMark
from store.keys import Batching
from watcher.features.partitions.memory import MOST_OLD_TIMES, JudgedPartitions
from watcher.scheduling.planning.plans import Waits

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
WAITS = Waits(condition="a")


def identity(key: str | None) -> QueuedIdentity:
    return 1, ("a", None), "", key


def span(event: int) -> QueuedSpan:
    return event, event, 1, NOW, NOW


def remembered(*keys: str | None) -> JudgedPartitions:
    judged = JudgedPartitions(waits=WAITS, batching=Batching(mode="per_partition"), assets={}, now=NOW)
    judged.take_over({identity(key): span(event) for event, key in enumerate(keys, 1)}, NO_MARK)
    return judged


def open_keys(judged: JudgedPartitions) -> list[str | None]:
    return [group.key for group in judged.open_groups(frozenset())]


def test_a_group_is_judged_when_it_is_new_changed_or_due() -> None:
    judged = remembered("x", "y", None)
    assert open_keys(judged) == ["x", "y", None]
    judged.note({"x": MINUTE, "y": None, None: 2 * MINUTE})
    assert (open_keys(judged), judged.check_again_in) == ([], MINUTE)
    judged.at(NOW + MINUTE, WAITS)
    assert (open_keys(judged), judged.check_again_in) == (["x"], MINUTE)
    judged.add({identity("y"): span(9), identity("z"): span(8)}, QueueMark(newest=9, events=5, digest=0))
    assert open_keys(judged) == ["x", "y", "z"]
    judged.note({"x": None, "y": None, "z": None})
    judged.at(NOW, WAITS)
    assert open_keys(judged) == ["x", "y", None, "z"], "the clock was set back"
    assert judged.check_again_in is None


def test_of_what_was_taken_only_what_is_left_is_read_again() -> None:
    judged = remembered("x", "y", "z")
    judged.note(dict.fromkeys(("x", "y", "z")))
    before = judged.mark
    judged.note_taken({"x", "y"}, QueueMark(newest=2, events=2, digest=7))
    assert judged.mark == QueueMark(newest=before.newest, events=before.events - 2, digest=-7, gone=2)
    judged.take_over_taken({identity("y"): span(4)})
    assert (sorted(map(str, judged.groups)), open_keys(judged), judged.taken) == (["y", "z"], ["y"], set())


def test_times_that_hold_no_more_do_not_pile_up() -> None:
    judged, random = remembered("x", "y"), Random(1)
    for number in range(1_000):
        judged.add({identity("x"): span(number + 3)}, NO_MARK)
        judged.note({"x": timedelta(seconds=random.randint(1, 1_000)), "y": timedelta(seconds=500)})
        assert judged.check_again_in == min(judged.due_at.values()) - NOW
    assert len(judged._times) <= 2 * len(judged.due_at) + MOST_OLD_TIMES
