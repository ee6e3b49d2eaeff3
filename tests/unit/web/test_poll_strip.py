"""A strip of polls has a shape for each outcome, and counts polls that were alike."""

from __future__ import annotations

from watcher.features.pages.pictures.poll_strip import poll_strip
from watcher.host.poll_history import Poll

AT = "2026-01-31T12:00:00.000Z"


def test_found_idle_and_failed_polls_have_shapes_of_their_own_the_newest_at_the_right() -> None:
    failed = Poll(started=AT, error="the bucket is gone")
    idle, full = Poll(started=AT, times=500), Poll(started=AT, seconds=90.0, found=1200, committed=2)
    strip = poll_strip([failed, idle, full])
    assert [mark.kind for mark in strip.marks] == ["found", "idle", "error"]
    assert len({mark.shape.split("V", 1)[1] for mark in strip.marks}) == 3
    assert strip.marks[-1].shape.startswith(f"M{strip.width - 7} ")
    assert [mark.title for mark in strip.marks] == [
        "found 1,200, 2 events in 1 min 30 s, 2026-01-31 12:00:00 UTC",
        "idle, 2026-01-31 12:00:00 UTC, the last of 500",
        "failed, 2026-01-31 12:00:00 UTC: the bucket is gone",
    ]
    assert strip.sentence == "The last polls: 1 found something, 500 were idle, 1 failed"


def test_a_watcher_without_polls_says_so() -> None:
    assert (poll_strip([]).marks, poll_strip([]).sentence) == ([], "no poll yet")
