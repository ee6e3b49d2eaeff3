from __future__ import annotations

import pytest

from watcher.scheduling.admission import Limits, admit

LIMITS = Limits(parallelism=3, memory_mb=2000)


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
        (550, [None, None, None], False, "settings.scheduler.parallelism lets 3 run at a time"),
        (None, [2000, None], True, ""),
        (550, [1450, None], True, ""),
        (2001, [None], True, "it runs alone"),
    ],
)
def test_what_may_start(need_mb, running_mb, may_start, sentence):
    admission = admit(need_mb, running_mb, LIMITS)
    assert admission.may_start == may_start
    assert sentence in admission.sentence
    assert bool(sentence) == bool(admission.sentence)
