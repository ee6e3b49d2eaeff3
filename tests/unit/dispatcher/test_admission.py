from __future__ import annotations

import pytest

from watcher.dispatcher.admission import Limits, admit

LIMITS = Limits(parallelism=3, memory_mb=2000, driver_memory_mb=550)


@pytest.mark.parametrize(
    ("driver_memory", "need_mb"),
    [("512m", 550), ("1g", 1062), ("2G", 2086), ("100m", 550), ("600000k", 624), ("1t", 1_048_614)],
)
def test_a_larger_heap_comes_on_top_of_what_is_reckoned_for_the_usual_one(driver_memory, need_mb):
    assert LIMITS.need_mb(driver_memory) == need_mb


@pytest.mark.parametrize(
    ("need_mb", "running_mb", "may_start", "sentence"),
    [
        (550, [], True, ""),
        (550, [550, 550], True, ""),
        (550, [550, 550, 550], False, "settings.scheduler.parallelism lets 3 run at a time"),
        (900, [550, 550], True, ""),
        (
            901,
            [550, 550],
            False,
            "reckoned with 901 MB, and what runs leaves less of the 2000 MB of settings.scheduler",
        ),
        (2000, [], True, ""),
        (2001, [550], False, "waits for memory"),
        (2001, [], True, "more than the 2000 MB of settings.scheduler.memory_mb: it runs alone"),
        (550, [2001], False, "waits for memory"),
    ],
)
def test_what_may_start(need_mb, running_mb, may_start, sentence):
    admission = admit(need_mb, running_mb, LIMITS)
    assert admission.may_start == may_start
    assert sentence in admission.sentence
    assert bool(sentence) == bool(admission.sentence)
