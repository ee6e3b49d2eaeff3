"""The pause of a listener, or of a watcher, that failed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from triggers.retries import backoff

FIVE_MINUTES = timedelta(minutes=5)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (17, 300), (10_000, 300)]
)
def test_a_pause_doubles_up_to_the_longest_and_a_quarter_of_it_is_jitter(failures: int, seconds: int) -> None:
    assert backoff(failures, lambda: 1.0, longest=FIVE_MINUTES) == timedelta(seconds=seconds)
    assert backoff(failures, lambda: 0.0, longest=FIVE_MINUTES) == timedelta(seconds=seconds) * 0.75
