from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher.features.warm.pool_plan import DriverMemory, PoolPlan, WaitingDriver, WarmJob, choose, plan_pool

ROOMY = DriverMemory(all_mb=10_000, warm_mb=5_000)
LOAD = WarmJob(dag_id="load", key="a", count=2, memory_mb=500)
REPORT = WarmJob(dag_id="report", key="b", count=1, memory_mb=500)


def driver(tag: str, job: WarmJob = LOAD, *, key: str | None = None, is_ready: bool = True) -> WaitingDriver:
    return WaitingDriver(tag=tag, dag_id=job.dag_id, key=key or job.key, memory_mb=job.memory_mb, is_ready=is_ready)


@pytest.mark.parametrize(
    ("waiting", "start"),
    [
        ([], LOAD),
        ([driver("1")], REPORT),
        ([driver("1"), driver("2", REPORT)], LOAD),
        ([driver("1"), driver("2"), driver("3", REPORT)], None),
        ([driver("1", is_ready=False)], None),
    ],
)
def test_the_job_with_fewest_drivers_gets_the_next_one_and_one_starts_at_a_time(
    waiting: list[WaitingDriver], start: WarmJob | None
) -> None:
    assert plan_pool([LOAD, REPORT], waiting, ROOMY) == PoolPlan(start=start)


def test_nothing_is_started_while_a_run_is_being_started() -> None:
    assert plan_pool([LOAD], [], ROOMY, may_start=False) == PoolPlan()


def test_a_driver_that_has_just_failed_to_start_is_retried_later() -> None:
    assert plan_pool([LOAD, REPORT], [], ROOMY, failing={"a"}) == PoolPlan(start=REPORT)


def test_a_driver_that_does_not_match_its_job_any_more_is_ended() -> None:
    waiting = [driver("changed", key="z"), driver("1"), driver("removed", REPORT)]
    assert plan_pool([LOAD], waiting, ROOMY) == PoolPlan(end=("changed", "removed"))


def test_if_there_are_too_many_drivers_the_ready_ones_stay() -> None:
    waiting = [driver("1", is_ready=False), driver("2"), driver("3")]
    assert plan_pool([LOAD], waiting, ROOMY) == PoolPlan(end=("1",))


@pytest.mark.parametrize(
    ("running", "end"), [(8_500, ()), (8_501, ("2",)), (9_000, ("2",)), (9_001, ("2", "3")), (9_501, ("1", "2", "3"))]
)
def test_a_run_that_needs_memory_takes_it_from_waiting_drivers(running: int, end: tuple[str, ...]) -> None:
    waiting = [driver("1"), driver("2"), driver("3", REPORT)]
    memory = DriverMemory(all_mb=10_000, warm_mb=5_000, running_mb=running)
    assert plan_pool([LOAD, REPORT], waiting, memory).end == end


def test_waiting_drivers_take_no_more_than_their_limit() -> None:
    memory = DriverMemory(all_mb=10_000, warm_mb=1_200)
    assert plan_pool([LOAD, REPORT], [driver("1"), driver("2", REPORT)], memory) == PoolPlan()
    assert plan_pool([LOAD], [], DriverMemory(all_mb=10_000, warm_mb=499)) == PoolPlan(too_large=("load",))


def test_a_try_gets_the_oldest_driver_of_its_job_that_is_ready() -> None:
    waiting = [driver("1", is_ready=False), driver("2"), driver("3"), driver("4", REPORT)]
    assert choose(waiting, "load") == waiting[1]
    assert choose(waiting, "other") is None
    assert choose(waiting[:1], "load") is None


JOBS = st.lists(
    st.builds(
        WarmJob, dag_id=st.sampled_from("lmn"), key=st.sampled_from("ab"), count=st.integers(0, 3),
        memory_mb=st.integers(1, 900),
    ),
    max_size=3, unique_by=lambda job: job.dag_id,
)  # fmt: skip


@given(JOBS, st.lists(st.tuples(st.sampled_from("lmn"), st.sampled_from("ab"), st.booleans()), max_size=8), st.data())
def test_memory_is_never_exceeded_and_the_plan_comes_to_rest(
    jobs: list[WarmJob], there: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    numbers = count()
    memory = DriverMemory(
        all_mb=2_000, warm_mb=data.draw(st.integers(0, 2_000)), running_mb=data.draw(st.integers(0, 2_500))
    )
    waiting = [
        WaitingDriver(tag=str(next(numbers)), dag_id=dag_id, key=key, memory_mb=300, is_ready=is_ready)
        for dag_id, key, is_ready in there
    ]
    for _ in range(30):
        now = plan_pool(jobs, waiting, memory)
        assert now.start is None or not now.end
        waiting = [each for each in waiting if each.tag not in now.end]
        if now.start is not None:
            waiting.append(driver(str(next(numbers)), now.start, is_ready=False))
        assert sum(each.memory_mb for each in waiting) <= memory.left_mb
        if now.start is None and not now.end and all(each.is_ready for each in waiting):
            break
        waiting = [driver_ready(each) for each in waiting]
    else:
        pytest.fail("it never comes to rest")
    for job in jobs:
        assert sum(each.dag_id == job.dag_id for each in waiting) <= job.count


def driver_ready(each: WaitingDriver) -> WaitingDriver:
    return WaitingDriver(tag=each.tag, dag_id=each.dag_id, key=each.key, memory_mb=each.memory_mb, is_ready=True)
