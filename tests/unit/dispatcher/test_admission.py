from __future__ import annotations

import pytest

from watcher.scheduling.tries.admission import AdmissionLimits, admit

LIMITS = AdmissionLimits(parallelism=3, memory_mb=2000, warm_memory_mb=1000)


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
            "needs 901 MB, and running jobs leave less of the 2000 MB of settings.scheduler",
        ),
        (2000, [], True, ""),
        (2001, [550], False, "waits for memory"),
        (2001, [], True, "more than the 2000 MB of settings.scheduler.memory_mb: it runs alone"),
        (550, [2001], False, "waits for memory"),
        (550, [None, None, None], False, "settings.scheduler.parallelism lets 3 run at a time"),
        (None, [2000, None], True, ""),
        (550, [1450, None], True, ""),
        (2001, [None], True, "it runs alone"),
    ],
)
def test_the_oldest_job_starts_if_parallelism_and_memory_allow_it(need_mb, running_mb, may_start, sentence):
    admission = admit(need_mb, running_mb, LIMITS)
    assert admission.may_start == may_start
    assert sentence in admission.sentence
    assert bool(sentence) == bool(admission.sentence)


@pytest.mark.parametrize(
    ("memory_mb", "warm_memory_mb", "limit"),
    [(1_001, None, 500), (1_000, 700, 700), (1_000, 5_000, 1_000), (1_000, 0, 0)],
)
def test_waiting_drivers_may_take_half_of_the_memory_unless_the_settings_say_otherwise(
    memory_mb, warm_memory_mb, limit
):
    limits = AdmissionLimits.of(8_000, parallelism=1, memory_mb=memory_mb, warm_memory_mb=warm_memory_mb)
    assert (limits.memory_mb, limits.warm_memory_mb) == (memory_mb, limit)


def test_drivers_may_take_60_percent_of_the_machine_unless_the_settings_say_otherwise():
    assert AdmissionLimits.of(8_000, parallelism=1, memory_mb=None, warm_memory_mb=None).memory_mb == 4_800
