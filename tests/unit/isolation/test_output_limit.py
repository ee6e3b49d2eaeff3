"""A child that prints too much waits for the next second, also if that has begun before the host comes to wait."""

from __future__ import annotations

import anyio
import pytest

from tests.effort import PATIENCE
from watcher.features.isolation.child_handle import OutputLimit


@pytest.mark.parametrize("late", [-0.05, 0.0, 0.7, 3600.0])
async def test_a_second_that_is_over_when_the_host_waits_for_its_end_fails_nothing(late: float) -> None:
    limit = OutputLimit(bytes=256_000)
    limit.admits(1_000_000)
    limit._second = anyio.current_time() - 1 - late
    with anyio.fail_after(PATIENCE):
        await limit.wait()
    assert limit.admits(1)
